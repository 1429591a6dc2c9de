//! The tool as it watches a tree, in a process of its own, heard line by line. It does not know what the lines should say.
#![allow(dead_code, reason = "each test file uses a part of it")]

use crate::cli::{Tree, command};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// Nothing takes as long unless it will never come.
const PATIENCE: Duration = Duration::from_secs(300);

/// `shardrun index --watch --json`, from the moment on at which it watches.
pub(crate) struct Watching {
    child: Child,
    lines: Receiver<String>,
    /// Of the index, and that the watch has begun.
    pub(crate) summary: Value,
    pub(crate) begun: Value,
}

impl Watching {
    /// A burst ends only after so long that a machine which stands still for a moment does not make two of one.
    pub(crate) fn new(tree: &Tree, options: &[&str]) -> Watching {
        let patient: &[&str] = if options.contains(&"--debounce") { &[] } else { &["--debounce", "250"] };
        Self::with(tree, &[options, patient].concat())
    }

    /// With these options alone.
    pub(crate) fn with(tree: &Tree, options: &[&str]) -> Watching {
        Self::spawn(command().args(["index", "--watch", "--json", "--no-progress"]).args(options).arg(tree.root()))
    }

    pub(crate) fn spawn(command: &mut Command) -> Watching {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (tell, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        let mut watching = Watching { child, lines, summary: Value::Null, begun: Value::Null };
        watching.summary = watching.line();
        watching.begun = watching.line();
        while watching.begun.get("watching").is_none() {
            watching.begun = watching.line();
        }
        watching
    }

    fn line(&mut self) -> Value {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}")),
            Err(error) => {
                let _ = self.child.kill();
                panic!("no line: {error}; it said {:?}", self.stderr());
            }
        }
    }

    fn stderr(&mut self) -> String {
        let mut text = String::new();
        let _ = self.child.stderr.take().map(|mut out| out.read_to_string(&mut text));
        text
    }

    /// The next burst.
    pub(crate) fn burst(&mut self) -> Burst {
        Burst(self.line())
    }

    /// What `changes` does comes as one burst: the tool stands still meanwhile.
    pub(crate) fn burst_of(&mut self, changes: impl FnOnce()) -> Burst {
        self.at_once(changes);
        self.burst()
    }

    /// Stops the tool while `changes` runs.
    pub(crate) fn at_once(&mut self, changes: impl FnOnce()) {
        self.signal("STOP");
        changes();
        self.signal("CONT");
    }

    pub(crate) fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
    }

    /// Waits for its end: exit status and standard error. Lines that were not taken are lost.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let stderr = self.stderr();
        (self.child.wait().unwrap().code(), stderr)
    }

    /// The number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What was printed of a burst.
pub(crate) struct Burst(pub(crate) Value);

impl Burst {
    pub(crate) fn paths(&self, key: &str) -> BTreeSet<String> {
        let paths = self.0[key].as_array().unwrap_or_else(|| panic!("{key} in {}", self.0));
        paths.iter().map(|path| path.as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn reached(&self) -> BTreeMap<String, String> {
        let reached = self.0["reached"].as_object().unwrap();
        reached.iter().map(|(path, hash)| (path.clone(), hash.as_str().unwrap_or_default().to_owned())).collect()
    }

    /// What ran again, came, went.
    #[track_caller]
    pub(crate) fn is(&self, again: &[&str], come: &[&str], gone: &[&str]) {
        let want =
            [again, come, gone].map(|paths| paths.iter().map(|path| (*path).to_owned()).collect::<BTreeSet<_>>());
        assert_eq!(["again", "come", "gone"].map(|key| self.paths(key)), want, "{}", self.0);
    }

    #[track_caller]
    pub(crate) fn reaches(&self, paths: &[&str]) {
        assert_eq!(self.reached().keys().collect::<Vec<_>>(), paths, "{}", self.0);
    }
}

/// What an index of the tree from scratch says.
pub(crate) struct Fresh {
    pub(crate) whole: String,
    pub(crate) files: u64,
    pub(crate) edges: u64,
    pub(crate) fingerprints: BTreeMap<String, String>,
    /// Of each file its hash and what becomes of its imports.
    pub(crate) outlines: BTreeMap<String, (Value, Value)>,
}

pub(crate) fn fresh(tree: &Tree) -> Fresh {
    fresh_with(tree, &[])
}

/// The same with symbolic links followed.
pub(crate) fn followed(tree: &Tree) -> Fresh {
    fresh_with(tree, &["--follow"])
}

fn fresh_with(tree: &Tree, more: &[&str]) -> Fresh {
    let [fingerprints, outline] = ["fresh-fingerprints", "fresh-outline"].map(|name| tree.beside(name));
    let options = ["--fingerprints", fingerprints.to_str().unwrap(), "--outline", outline.to_str().unwrap()];
    let object = tree.json(&[&options[..], more].concat());
    let rows = |path: &Path| -> Vec<Value> {
        fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    Fresh {
        whole: text(&object, "fingerprint"),
        files: object["files"].as_u64().unwrap(),
        edges: object["edges"].as_u64().unwrap(),
        fingerprints: rows(&fingerprints).iter().map(|row| (text(row, "path"), text(row, "fingerprint"))).collect(),
        outlines: rows(&outline)
            .iter()
            .map(|row| (text(row, "path"), (row["hash"].clone(), row["imports"].clone())))
            .collect(),
    }
}

/// The paths whose values are not the same in both, those apart that are only in the first.
pub(crate) fn differing<T: PartialEq>(before: &BTreeMap<String, T>, after: &BTreeMap<String, T>) -> BTreeSet<String> {
    after.iter().filter(|(path, value)| before.get(*path) != Some(value)).map(|(path, _)| path.clone()).collect()
}

static WRITTEN: AtomicU32 = AtomicU32::new(0);

/// Writes a file as careful editors do: beside, and then renamed over the old one. One event.
pub(crate) fn replace(tree: &Tree, path: &str, text: impl AsRef<[u8]>) {
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let beside = tree.beside(&format!("written-{number}"));
    fs::write(&beside, text).unwrap();
    fs::rename(beside, tree.root().join(path)).unwrap();
}
