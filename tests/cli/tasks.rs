//! A folder with a task file, and `shardrun run` in it. It does not know what the tasks are.

use super::{Ran, Tree, command, run};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What has not come after this long never will.
pub(crate) const SOON: Duration = Duration::from_secs(300);
/// A variable that all processes of a run inherit, and by which they are found.
const MARK: &str = "SHARDRUN_TEST_MARK";

pub(crate) struct Tasks {
    tree: Tree,
}

impl Tasks {
    /// With this text as task file.
    pub(crate) fn new(file: &str) -> Tasks {
        Tasks { tree: Tree::new(&[("shardrun.toml", file)]) }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.tree.root().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        self.tree.write(name, text);
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// `shardrun run` with these words, in the folder.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = command();
        command.arg("run").args(words).current_dir(self.tree.root());
        command.env_remove("MAKEFLAGS").env(MARK, self.tree.root());
        command
    }

    /// Runs it to its end, after which none of its processes may be left.
    pub(crate) fn run(&self, words: &[&str]) -> Ran {
        let ran = run(&mut self.command(words));
        self.nothing_is_left();
        ran
    }

    /// Begins to run it.
    pub(crate) fn begin(&self, words: &[&str]) -> Begun {
        let mut child = self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Begun { child, stdout, seen: String::new() }
    }

    /// Makes a pipe with a name, at which a test and a task can wait for each other.
    pub(crate) fn fifo(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    /// Waits until a task has written a line to the pipe.
    pub(crate) fn hear(&self, name: &str) -> String {
        let mut line = String::new();
        BufReader::new(File::open(self.path(name)).unwrap()).read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// The processes of a run of this folder that live.
    fn left(&self) -> Vec<String> {
        let mark = format!("{MARK}={}", self.tree.root().display());
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let alive = processes.filter(|path| {
            let environment = fs::read(path.join("environ")).unwrap_or_default();
            let dead = fs::read_to_string(path.join("stat"))
                .is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X'])));
            !dead && environment.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
        });
        alive.map(|path| fs::read_to_string(path.join("cmdline")).unwrap_or_default().replace('\0', " ")).collect()
    }

    /// None is left; those that were killed may take a moment to be gone.
    #[track_caller]
    pub(crate) fn nothing_is_left(&self) {
        let until = Instant::now() + SOON;
        loop {
            let left = self.left();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < until, "left running: {left:?}");
            std::thread::yield_now();
        }
    }
}

/// A run that goes on.
pub(crate) struct Begun {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    seen: String,
}

impl Begun {
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Reads standard output until a line holds this.
    pub(crate) fn until(&mut self, text: &str) {
        loop {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "no {text:?} in {}", self.seen);
            self.seen += &line;
            if line.contains(text) {
                return;
            }
        }
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ran {
        let mut stderr = self.child.stderr.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).unwrap();
            text
        });
        self.stdout.read_to_string(&mut self.seen).unwrap();
        let status = self.child.wait().unwrap().code().expect("it exits, and is not killed");
        Ran { status, stdout: self.seen, stderr: reader.join().unwrap() }
    }
}

impl Ran {
    /// How each task ended, in the order in which that was told.
    pub(crate) fn ends(&self) -> Vec<(&str, &str)> {
        let line = |line: &'_ str| -> Option<(usize, usize)> {
            let word = ["ok", "FAILED", "skipped", "aborted"].into_iter().find(|word| line.starts_with(*word))?;
            line[word.len()..].starts_with(' ').then_some((word.len(), line.find(": ").unwrap_or(line.len())))
        };
        let lines = self.stdout.lines();
        lines.filter_map(|text| line(text).map(|(word, end)| (&text[..word], text[word..end].trim()))).collect()
    }

    /// The names of the tasks that ended so.
    pub(crate) fn named(&self, word: &str) -> Vec<&str> {
        let mut names: Vec<&str> =
            self.ends().into_iter().filter(|(end, _)| *end == word).map(|(_, name)| name).collect();
        names.sort_unstable();
        names
    }
}
