//! A daemon of the built tool, and a client of its own that speaks to it byte by byte. They do not know what is right to answer.

use super::{Tree, command};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

/// A test that waits longer than this has hung.
const HUNG: Duration = Duration::from_secs(300);

pub(crate) struct Daemon {
    child: Child,
    pub(crate) socket: PathBuf,
}

impl Daemon {
    /// Serves on a socket beside the tree.
    pub(crate) fn begin(tree: &Tree, options: &[&str]) -> Daemon {
        let socket = tree.beside("s.sock");
        let mut child =
            command().arg("serve").args(options).arg("--socket").arg(&socket).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("serving on"), "{line:?}");
        Daemon { child, socket }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Bytes that it holds in memory.
    pub(crate) fn resident(&self) -> u64 {
        let pages = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4_096
    }

    /// Threads of it whose names begin so.
    pub(crate) fn threads(&self, name: &str) -> usize {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap().flatten();
        let named = |task: &std::fs::DirEntry| {
            std::fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.starts_with(name))
        };
        tasks.filter(named).count()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Asks it to end by a signal, which must go well.
    pub(crate) fn end(mut self) {
        self.signal(Signal::TERM);
        assert!(self.wait().success());
        assert!(!self.socket.exists());
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.socket)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client that has a socket.
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    bytes: Vec<u8>,
    next: i64,
    /// Answers that came before they were waited for.
    early: HashMap<i64, Value>,
}

pub(crate) fn framed(text: &str) -> Vec<u8> {
    format!("Content-Length: {}\r\n\r\n{text}", text.len()).into_bytes()
}

impl Client {
    pub(crate) fn connect(socket: &Path) -> Client {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(HUNG)).unwrap();
        stream.set_write_timeout(Some(HUNG)).unwrap();
        Client { stream, bytes: Vec::new(), next: 0, early: HashMap::new() }
    }

    pub(crate) fn raw(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends a request and gives its name.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> i64 {
        self.next += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        self.raw(framed(&request.to_string()));
        self.next
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.raw(framed(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()));
    }

    /// The next message; nothing at the end.
    pub(crate) fn hear(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = std::str::from_utf8(&self.bytes[..end]).unwrap();
                let length: usize = head.strip_prefix("Content-Length: ").unwrap().parse().unwrap();
                if self.bytes.len() >= end + 4 + length {
                    let value = serde_json::from_slice(&self.bytes[end + 4..end + 4 + length]).unwrap();
                    self.bytes.drain(..end + 4 + length);
                    return Some(value);
                }
            }
            let mut chunk = [0; 64 << 10];
            match self.stream.read(&mut chunk) {
                Ok(0) => {
                    assert!(self.bytes.is_empty(), "the daemon ended in the middle of a message");
                    return None;
                }
                Ok(count) => self.bytes.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// The answer to a request: each comes once.
    pub(crate) fn answer(&mut self, id: i64) -> Value {
        while !self.early.contains_key(&id) {
            let message = self.hear().expect("the daemon answers");
            let other = message["id"].as_i64().unwrap_or_else(|| panic!("not asked for: {message}"));
            assert!(self.early.insert(other, message).is_none(), "{other} is answered twice");
        }
        self.early.remove(&id).unwrap()
    }

    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }

    /// The result of a call that must have one.
    #[track_caller]
    pub(crate) fn result(&mut self, method: &str, params: Value) -> Value {
        let mut answer = self.call(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].take()
    }

    /// The code and the name of the error of a call that must have one.
    #[track_caller]
    pub(crate) fn error(&mut self, method: &str, params: Value) -> (i64, String) {
        let answer = self.call(method, params);
        code(&answer)
    }

    /// Says that nothing more will be asked.
    pub(crate) fn say_no_more(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }
}

/// The code and the name of an error.
#[track_caller]
pub(crate) fn code(answer: &Value) -> (i64, String) {
    let error = answer.get("error").unwrap_or_else(|| panic!("not an error: {answer}"));
    (error["code"].as_i64().unwrap(), error["data"]["code"].as_str().unwrap().to_owned())
}

/// What a fresh index of the tree says: of each file its outline, and its fingerprint.
pub(crate) fn fresh(tree: &Tree) -> (HashMap<String, Value>, HashMap<String, String>) {
    let (outlines, fingerprints) = (tree.beside("o.jsonl"), tree.beside("f.jsonl"));
    let options =
        ["--outline", outlines.to_str().unwrap(), "--fingerprints", fingerprints.to_str().unwrap(), "--quiet"];
    assert_eq!(tree.index(&options).status, 0);
    let lines = |path: &Path| -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let path = |line: &Value| line["path"].as_str().unwrap().to_owned();
    let outlines = lines(&outlines).into_iter().map(|line| (path(&line), line)).collect();
    let fingerprint = |line: &Value| line["fingerprint"].as_str().unwrap().to_owned();
    let fingerprints = lines(&fingerprints).iter().map(|line| (path(line), fingerprint(line))).collect();
    (outlines, fingerprints)
}
