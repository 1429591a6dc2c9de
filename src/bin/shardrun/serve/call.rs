//! The methods, with their parameters read and checked.
//! It does not know how they are answered.
#![forbid(unsafe_code)]

use super::rpc::{Failure, NO_METHOD, Params};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is asked of the daemon as a whole; it is answered at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Plain {
    Initialize,
    Health,
    Roots,
    Shutdown,
    Close(PathBuf),
}

/// What is asked of a root; it is a job in one of the root's lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Open,
    Edit {
        file: String,
        text: Arc<[u8]>,
    },
    /// What was edited is again as it is on disk.
    Revert {
        file: String,
    },
    Outline {
        file: String,
    },
    Dependencies {
        file: String,
        transitive: bool,
    },
    Dependants {
        file: String,
        transitive: bool,
    },
    /// Of a file, or of the whole root.
    Fingerprint {
        file: Option<String>,
    },
    Files,
    Status,
    Progress,
    Drain,
    Rescan,
}

/// A request that can be tried.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Plain(Plain),
    Root(PathBuf, Call),
}

impl Asked {
    /// Reads the parameters of a method.
    ///
    /// # Errors
    /// The method is unknown, or a parameter is missing, of the wrong type, or unknown.
    pub(super) fn read(method: &str, params: Params) -> Result<Self, Failure> {
        if method == "initialize" {
            // Clients tell a lot of themselves here.
            return Ok(Self::Plain(Plain::Initialize));
        }
        let mut given = Given(params);
        let asked = match method {
            "health" => Self::Plain(Plain::Health),
            "roots" => Self::Plain(Plain::Roots),
            "shutdown" => Self::Plain(Plain::Shutdown),
            "close" => Self::Plain(Plain::Close(given.root()?)),
            _ => {
                let call = Call::read(method, &mut given)?;
                Self::Root(given.root()?, call)
            }
        };
        given.nothing_else()?;
        Ok(asked)
    }
}

impl Call {
    fn read(method: &str, given: &mut Given) -> Result<Self, Failure> {
        Ok(match method {
            "open" => Self::Open,
            "edit" => Self::Edit { file: given.file()?, text: given.text("text")?.into_bytes().into() },
            "revert" => Self::Revert { file: given.file()? },
            "outline" => Self::Outline { file: given.file()? },
            "dependencies" => Self::Dependencies { file: given.file()?, transitive: given.flag("transitive")? },
            "dependants" => Self::Dependants { file: given.file()?, transitive: given.flag("transitive")? },
            "fingerprint" if given.0.contains_key("file") => Self::Fingerprint { file: Some(given.file()?) },
            "fingerprint" => Self::Fingerprint { file: None },
            "files" => Self::Files,
            "status" => Self::Status,
            "progress" => Self::Progress,
            "drain" => Self::Drain,
            "rescan" => Self::Rescan,
            _ => return Err(Failure::new(NO_METHOD, "method_not_found", format!("no method {method:?}"))),
        })
    }

    /// Whether later requests of the same client must see what it does.
    pub(super) fn writes(&self) -> bool {
        matches!(self, Self::Open | Self::Edit { .. } | Self::Revert { .. } | Self::Drain | Self::Rescan)
    }

    /// Whether one pass may answer several who ask for it.
    pub(super) fn joins(&self) -> bool {
        matches!(self, Self::Drain | Self::Rescan)
    }

    /// Whether it waits for nothing that was asked before.
    pub(super) fn is_at_once(&self) -> bool {
        matches!(self, Self::Status | Self::Progress)
    }

    /// Whether it may run for so long that the daemon's end does not wait for it.
    pub(super) fn is_long(&self) -> bool {
        matches!(self, Self::Open | Self::Drain | Self::Rescan)
    }
}

/// Of any parameter.
const NAMES: &[&str] = &["root", "file", "text", "transitive"];

/// Parameters that have not been read yet.
struct Given(Params);

impl Given {
    fn text(&mut self, name: &str) -> Result<String, Failure> {
        match self.0.remove(name) {
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(Failure::params(format!("{name} is not a text"))),
            // A slip in its name, perhaps.
            None => Err(match self.0.keys().find(|other| !NAMES.contains(&other.as_str())) {
                Some(other) => stray(other),
                None => Failure::params(format!("{name} is missing")),
            }),
        }
    }

    fn flag(&mut self, name: &str) -> Result<bool, Failure> {
        match self.0.remove(name) {
            Some(Value::Bool(flag)) => Ok(flag),
            Some(_) => Err(Failure::params(format!("{name} is neither true nor false"))),
            None => Ok(false),
        }
    }

    fn root(&mut self) -> Result<PathBuf, Failure> {
        let root = self.text("root")?;
        let fits = Path::new(&root).is_absolute() && !root.contains('\0');
        if fits { Ok(root.into()) } else { Err(Failure::params("root is not an absolute path")) }
    }

    /// The path of a file below its root, with `/`, as the outline shows it.
    fn file(&mut self) -> Result<String, Failure> {
        let file = self.text("file")?;
        Ok(file.strip_prefix("./").map(str::to_owned).unwrap_or(file))
    }

    fn nothing_else(&self) -> Result<(), Failure> {
        match self.0.keys().next() {
            Some(name) => Err(stray(name)),
            None => Ok(()),
        }
    }
}

/// The method has no such parameter.
fn stray(name: &str) -> Failure {
    Failure::params(format!("no parameter {name:?}"))
}

#[cfg(test)]
mod tests {
    use super::super::rpc::PARAMS;
    use super::*;

    fn read(method: &str, params: Value) -> Result<Asked, i64> {
        let Value::Object(params) = params else { panic!("not an object") };
        Asked::read(method, params).map_err(|failure| failure.code)
    }

    #[test]
    fn parameters_are_checked() {
        use serde_json::json;
        assert_eq!(read("nothing", json!({})), Err(NO_METHOD));
        let root = || PathBuf::from("/r");
        for wrong in [json!({}), json!({"root": "r"}), json!({"root": 7}), json!({"root": "/r", "more": 1})] {
            assert_eq!(read("open", wrong), Err(PARAMS));
        }
        assert_eq!(read("open", json!({"root": "/r"})), Ok(Asked::Root(root(), Call::Open)));
        assert_eq!(read("edit", json!({"root": "/r", "file": "a"})), Err(PARAMS));
        let dependants = Call::Dependants { file: "a".into(), transitive: true };
        let asked = json!({"root": "/r", "file": "./a", "transitive": true});
        assert_eq!(read("dependants", asked), Ok(Asked::Root(root(), dependants)));
        assert_eq!(read("dependants", json!({"root": "/r", "file": "a", "transitive": 1})), Err(PARAMS));
        assert_eq!(read("fingerprint", json!({"root": "/r", "file": null})), Err(PARAMS));
        let says = |params: Value| {
            let Value::Object(params) = params else { panic!("not an object") };
            Asked::read("outline", params).expect_err("it lacks a file").message
        };
        assert_eq!(says(json!({"root": "/r", "fil": "a"})), "no parameter \"fil\"", "rather than that one is missing");
        assert_eq!(says(json!({"root": "/r"})), "file is missing");
    }
}
