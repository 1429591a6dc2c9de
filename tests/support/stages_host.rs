//! A host for tests of the stages: files in memory, a log of what ran, and a hook that blocks, fails or panics where a test
//! says so. Source is the text, Analysis is `analysis(text)`, an Artifact is `profile:analysis(text)`.
#![allow(dead_code, reason = "each test uses a part of it")]

use shardrun::{Dependencies, Driver, Host, Pool, Runtime, Stage, StageCx, Stages};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// What a hook makes of an execution.
pub(crate) enum Act {
    Go,
    Fail(&'static str),
}

/// Where an execution is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) stage: Stage,
    pub(crate) file: String,
    pub(crate) generation: u64,
}

type Hook = dyn Fn(&StageCx<'_, Files>, &At) -> Act + Send + Sync;

#[derive(Default)]
struct State {
    stored: Mutex<HashMap<String, String>>,
    log: Mutex<Vec<At>>,
    hook: Mutex<Option<Arc<Hook>>>,
    needs: Mutex<HashMap<String, Dependencies<String>>>,
    panics_on: Mutex<Option<String>>,
}

/// The host; clones share their state.
#[derive(Clone, Default)]
pub(crate) struct Files(Arc<State>);

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) &'static str);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Refused {}

impl Files {
    pub(crate) fn with<const N: usize>(files: [(&str, &str); N]) -> Self {
        let host = Self::default();
        for (file, text) in files {
            host.store(file, text);
        }
        host
    }

    pub(crate) fn store(&self, file: &str, text: &str) {
        self.0.stored.lock().unwrap().insert(file.into(), text.into());
    }

    pub(crate) fn unlink(&self, file: &str) {
        self.0.stored.lock().unwrap().remove(file);
    }

    pub(crate) fn hook(&self, hook: impl Fn(&StageCx<'_, Files>, &At) -> Act + Send + Sync + 'static) {
        *self.0.hook.lock().unwrap() = Some(Arc::new(hook));
    }

    /// From its next Source on, `file` names `blockers`.
    pub(crate) fn blocks<const N: usize>(&self, file: &str, blockers: [&str; N]) {
        self.needs(file, Dependencies::none().with_blockers(blockers.map(String::from)));
    }

    /// From its next Source on, `file` names `dependencies`.
    pub(crate) fn needs(&self, file: &str, dependencies: Dependencies<String>) {
        self.0.needs.lock().unwrap().insert(file.into(), dependencies);
    }

    /// From now on `dependencies` panics for `file`.
    pub(crate) fn panics_on_dependencies(&self, file: &str) {
        *self.0.panics_on.lock().unwrap() = Some(file.into());
    }

    pub(crate) fn unhook(&self) {
        *self.0.hook.lock().unwrap() = None;
    }

    pub(crate) fn log(&self) -> Vec<At> {
        self.0.log.lock().unwrap().clone()
    }

    /// Empties the log.
    pub(crate) fn forget(&self) {
        self.0.log.lock().unwrap().clear();
    }

    pub(crate) fn ran(&self, stage: Stage, file: &str) -> usize {
        self.log().iter().filter(|at| at.stage == stage && at.file == file).count()
    }

    pub(crate) fn stages_run(&self, file: &str) -> Vec<Stage> {
        self.log().iter().filter(|at| at.file == file).map(|at| at.stage).collect()
    }

    fn enter(&self, cx: &StageCx<'_, Self>) -> Result<(), Refused> {
        let at = At { stage: cx.stage(), file: cx.file().clone(), generation: cx.generation() };
        self.0.log.lock().unwrap().push(at.clone());
        let hook = self.0.hook.lock().unwrap().clone();
        match hook.map_or(Act::Go, |hook| hook(cx, &at)) {
            Act::Go => Ok(()),
            Act::Fail(why) => Err(Refused(why)),
        }
    }
}

impl Host for Files {
    type File = String;
    type Text = String;
    type Source = String;
    type Analysis = String;
    type Artifact = String;
    type Profile = u32;
    type Error = Refused;

    fn load(&self, file: &String) -> Result<Option<String>, Refused> {
        Ok(self.0.stored.lock().unwrap().get(file).cloned())
    }

    fn source(&self, cx: &StageCx<'_, Self>, text: String) -> Result<String, Refused> {
        self.enter(cx)?;
        Ok(text)
    }

    fn dependencies(&self, cx: &StageCx<'_, Self>, _: &String) -> Dependencies<String> {
        let panics = self.0.panics_on.lock().unwrap().as_ref() == Some(cx.file());
        assert!(!panics, "asked for");
        self.0.needs.lock().unwrap().get(cx.file()).cloned().unwrap_or_default()
    }

    fn analysis(&self, cx: &StageCx<'_, Self>, source: &String) -> Result<String, Refused> {
        self.enter(cx)?;
        Ok(format!("analysis({source})"))
    }

    fn artifact(
        &self,
        cx: &StageCx<'_, Self>,
        profile: &u32,
        _: &String,
        analysis: &String,
    ) -> Result<String, Refused> {
        self.enter(cx)?;
        Ok(format!("{profile}:{analysis}"))
    }

    fn source_pool(&self) -> Pool {
        Pool::Workers
    }
}

/// A runtime without threads, driven by who waits.
pub(crate) fn inline() -> Runtime {
    Runtime::builder().driver(Driver::Inline).build().unwrap()
}

/// A runtime of `workers` threads.
pub(crate) fn threads(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

/// A scheduler on a runtime without threads.
pub(crate) fn driven(host: &Files) -> (Runtime, Stages<Files>) {
    let runtime = inline();
    let stages = Stages::new(&runtime, host.clone());
    (runtime, stages)
}

/// A place where an execution stops until the test lets it go.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<(usize, bool)>, Condvar)>);

/// What no test may ever wait for: a wait that lasts longer has been lost.
const LOST: Duration = Duration::from_secs(300);

impl Gate {
    /// Arrives, and stays until the gate is open.
    pub(crate) fn pass(&self) {
        self.pass_within(LOST);
    }

    /// As `pass`, where the test has more to do before it opens the gate than is lost otherwise.
    pub(crate) fn pass_within(&self, limit: Duration) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        state.0 += 1;
        changed.notify_all();
        let begun = Instant::now();
        while !state.1 {
            state = changed.wait_timeout(state, limit).unwrap().0;
            assert!(begun.elapsed() < limit, "nobody opened the gate");
        }
    }

    /// Waits until `count` have arrived.
    pub(crate) fn arrived(&self, count: usize) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        let begun = Instant::now();
        while state.0 < count {
            state = changed.wait_timeout(state, LOST).unwrap().0;
            assert!(begun.elapsed() < LOST, "nobody arrived at the gate");
        }
    }

    pub(crate) fn open(&self) {
        let (state, changed) = &*self.0;
        state.lock().unwrap().1 = true;
        changed.notify_all();
    }

    pub(crate) fn close(&self) {
        self.0.0.lock().unwrap().1 = false;
    }
}
