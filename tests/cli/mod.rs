//! A temporary tree, and the built tool run over it. It does not know what the tool should say.
#![allow(dead_code, reason = "each test file uses a part of it")]

#[cfg(target_os = "linux")]
pub(crate) mod serving;
pub(crate) mod tasks;

use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory that is removed with all that is in it.
pub(crate) struct Tree {
    base: PathBuf,
}

static TREES: AtomicU32 = AtomicU32::new(0);

impl Tree {
    /// With these files in it.
    pub(crate) fn new(files: &[(&str, &str)]) -> Tree {
        let number = TREES.fetch_add(1, Ordering::Relaxed);
        let base = std::env::temp_dir().join(format!("shardrun-cli-{}-{number}", std::process::id()));
        fs::create_dir_all(base.join("tree")).unwrap();
        let tree = Tree { base };
        for (path, text) in files {
            tree.write(path, text);
        }
        tree
    }

    /// The directory to index.
    pub(crate) fn root(&self) -> PathBuf {
        self.base.join("tree")
    }

    /// A place beside the directory, for outputs.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    pub(crate) fn write(&self, path: impl AsRef<OsStr>, text: impl AsRef<[u8]>) {
        let path = self.root().join(Path::new(path.as_ref()));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Runs `shardrun index OPTIONS tree`.
    pub(crate) fn index(&self, options: &[&str]) -> Ran {
        run(command().arg("index").args(options).arg(self.root()))
    }

    /// The same with `--json`, which must succeed.
    pub(crate) fn json(&self, options: &[&str]) -> Value {
        let ran = self.index(&[options, &["--json", "--quiet"]].concat());
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
        ran.json()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.base);
    }
}

/// The tool, without input.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shardrun"));
    command.stdin(Stdio::null());
    hears_signals(&mut command);
    command
}

/// Signals are not ignored, even if they are in what runs the tests: a shell without job control has it so in its background.
#[cfg(unix)]
fn hears_signals(command: &mut Command) {
    let default = || {
        for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: it may be called between fork and exec, and the default action refers to no code of ours.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: the closure calls nothing but `signal`.
    unsafe { std::os::unix::process::CommandExt::pre_exec(command, default) };
}

#[cfg(not(unix))]
fn hears_signals(_: &mut Command) {}

/// A pipe that nobody reads from any more, from the first moment on.
#[cfg(unix)]
pub(crate) fn unread() -> std::io::PipeWriter {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    // What another test starts just now may have a copy for a moment.
    loop {
        let mut asked = [PollFd::new(&writer, PollFlags::empty())];
        poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
        if asked[0].revents().contains(PollFlags::ERR) {
            return writer;
        }
        std::thread::yield_now();
    }
}

/// What a run left behind.
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl std::fmt::Debug for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "status {}\n{}{}", self.status, self.stdout, self.stderr)
    }
}

pub(crate) fn run(command: &mut Command) -> Ran {
    let Output { status, stdout, stderr } = command.output().unwrap();
    Ran {
        status: status.code().expect("it exits, and is not killed"),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
    }
}

impl Ran {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {:?}", self.stdout))
    }

    /// The lines on standard error that complain.
    pub(crate) fn complaints(&self) -> Vec<&str> {
        self.stderr.lines().filter(|line| line.starts_with("shardrun: ")).collect()
    }

    /// Exit status 1, one complaint, which names this.
    #[track_caller]
    pub(crate) fn complains_once(&self, name: &str) {
        let complaints = self.complaints();
        assert_eq!((self.status, complaints.len()), (1, 1), "{:?}", self.stderr);
        assert!(complaints[0].contains(name), "{name} is not in {:?}", complaints[0]);
    }
}

/// Numbers that look random and are the same for the same seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}
