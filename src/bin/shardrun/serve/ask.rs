//! `shardrun ask`: one question to a daemon, and its answer for a person or a script.
//! It does not know the methods.
#![forbid(unsafe_code)]

use super::args::{AskArgs, usual_socket};
use super::frame::{Frame, Frames, framed};
use super::rpc::{NO_METHOD, PARAMS, Params};
use crate::console::{Console, OneLine};
use crate::output;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{self, Path};
use std::process::ExitCode;
use std::time::Duration;

/// The largest answer that is taken, in bytes.
const ANSWER_MAX: u64 = 4 << 30;

const WRONG_USAGE: u8 = 2;

/// Runs `shardrun ask`.
pub(crate) fn ask(args: &AskArgs) -> ExitCode {
    let mut console = Console::new(true);
    let params = match params(&args.params) {
        Ok(params) => params,
        Err((subject, why)) => {
            console.complain_of(&subject, why);
            return ExitCode::from(WRONG_USAGE);
        }
    };
    let answer = match converse(args, &params) {
        Ok(answer) => answer,
        Err(error) => {
            let path = args.socket.clone().unwrap_or_else(usual_socket);
            match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    console.complain(&path, format!("{error}: does a daemon serve there? `shardrun serve` begins one"));
                }
                _ => console.complain(&path, error),
            }
            return ExitCode::FAILURE;
        }
    };
    if let Some(error) = answer.get("error") {
        let message = error["message"].as_str().unwrap_or("an error without a message");
        console.complain_of(&args.method, OneLine(message));
        if args.json {
            output::print(&format!("{error}\n"), &mut console);
        }
        let usage = error["code"].as_i64().is_some_and(|code| code == NO_METHOD || code == PARAMS);
        return if usage { ExitCode::from(WRONG_USAGE) } else { ExitCode::FAILURE };
    }
    let result = &answer["result"];
    let text = if args.json { format!("{result}\n") } else { shown(result) };
    if output::print(&text, &mut console) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Reads `NAME=VALUE`.
fn params(given: &[String]) -> Result<Params, (String, String)> {
    let mut params = Params::new();
    for param in given {
        let wrong = |why: &str| (param.clone(), why.to_owned());
        let (name, value) = param.split_once('=').ok_or_else(|| wrong("a parameter is NAME=VALUE"))?;
        let value = match value.strip_prefix('@') {
            Some("-") => io::read_to_string(io::stdin()).map(Value::from).map_err(|error| wrong(&error.to_string()))?,
            Some(file) => fs::read_to_string(file).map(Value::from).map_err(|error| wrong(&error.to_string()))?,
            None if name == "root" => {
                let root = path::absolute(value).map_err(|error| wrong(&error.to_string()))?;
                root.to_str().map(Value::from).ok_or_else(|| wrong("not UTF-8"))?
            }
            None => plain(value),
        };
        if params.insert(name.into(), value).is_some() {
            return Err(wrong("said twice"));
        }
    }
    Ok(params)
}

/// A value that is JSON and no text of its own; names of files may look like numbers.
fn plain(value: &str) -> Value {
    match serde_json::from_str(value) {
        Ok(json @ (Value::Bool(_) | Value::Null | Value::Object(_) | Value::Array(_) | Value::String(_))) => json,
        _ => value.into(),
    }
}

/// Checks that what stands at a path that nobody has named belongs to the user: others may write to the directory for temporary files,
/// but not take away what is not theirs.
fn is_ours(path: &Path, user: u32) -> io::Result<()> {
    if fs::symlink_metadata(path)?.uid() == user {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is another user's: say `--socket` if that is meant"))
}

fn converse(args: &AskArgs, params: &Params) -> io::Result<Value> {
    let mut stream = match &args.socket {
        Some(path) => UnixStream::connect(path)?,
        None => {
            let path = usual_socket();
            is_ours(&path, rustix::process::getuid().as_raw())?;
            UnixStream::connect(path)?
        }
    };
    let limit = Some(Duration::from_secs(args.timeout));
    stream.set_read_timeout(limit)?;
    stream.set_write_timeout(limit)?;
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": args.method, "params": params });
    stream.write_all(&framed(&request.to_string()))?;
    let mut frames = Frames::new(stream, ANSWER_MAX);
    match frames.next() {
        Ok(Some(Frame::Message(bytes))) => serde_json::from_slice(&bytes).map_err(io::Error::from),
        Ok(Some(_)) => Err(io::Error::other("not an answer")),
        Ok(None) => Err(io::Error::other("the daemon has closed the connection")),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(io::ErrorKind::TimedOut.into()),
        Err(error) => Err(error),
    }
}

/// A result as a person reads it: one `name: value` a line, lists one entry a line.
fn shown(result: &Value) -> String {
    let mut out = String::new();
    match result {
        Value::Null => {}
        Value::Object(fields) => fields.iter().for_each(|(name, value)| field(&mut out, name, value, 0)),
        Value::Array(values) => values.iter().for_each(|value| line(&mut out, value, 0)),
        other => line(&mut out, other, 0),
    }
    out
}

fn field(out: &mut String, name: &str, value: &Value, depth: usize) {
    let indent = depth * 2;
    let _ = match value {
        Value::Array(values) => {
            let _ = writeln!(out, "{:indent$}{name}: {}", "", values.len());
            values.iter().for_each(|value| line(out, value, depth + 1));
            Ok(())
        }
        Value::Object(fields) => {
            let _ = writeln!(out, "{:indent$}{name}:", "");
            fields.iter().for_each(|(name, value)| field(out, name, value, depth + 1));
            Ok(())
        }
        value => writeln!(out, "{:indent$}{name}: {}", "", scalar(value)),
    };
}

fn line(out: &mut String, value: &Value, depth: usize) {
    let indent = depth * 2;
    let text = match value {
        Value::Object(fields) => {
            let parts: Vec<String> = fields.iter().map(|(name, value)| format!("{name}: {}", scalar(value))).collect();
            parts.join(", ")
        }
        value => scalar(value),
    };
    let _ = writeln!(out, "{:indent$}{text}", "");
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => OneLine(text).to_string(),
        Value::Null => "-".into(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_json_or_text() {
        let read = params(&["transitive=true".into(), "file=12".into(), "text=a=b".into()]).unwrap();
        assert_eq!(Value::from(read), json!({ "transitive": true, "file": "12", "text": "a=b" }));
        assert!(params(&["nothing".into()]).is_err() && params(&["a=1".into(), "a=2".into()]).is_err());
    }

    #[test]
    fn a_socket_of_another_user_is_not_spoken_to() {
        let path = std::env::temp_dir().join(format!("shardrun-ask-{}.sock", std::process::id()));
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let user = rustix::process::getuid().as_raw();
        assert!(is_ours(&path, user).is_ok());
        assert_eq!(is_ours(&path, user + 1).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        fs::remove_file(&path).unwrap();
        assert_eq!(is_ours(&path, user).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_result_is_shown_line_by_line() {
        let result = json!({ "files": ["a", "b\n"], "ready": true, "none": null, "inner": { "x": 1 } });
        assert_eq!(shown(&result), "files: 2\n  a\n  b\\n\ninner:\n  x: 1\nnone: -\nready: true\n");
        assert_eq!(shown(&json!([{ "root": "/r", "queued": 0 }])), "queued: 0, root: /r\n");
    }
}
