//! The host of the random timelines: what it loads and computes, and where it fails and panics.

use super::FILES;
use super::blocks::Blocks;
use super::random::Random;
use shardrun::{Dependencies, Host, Pool, Request, Stage, StageCx};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

/// A payload that says from which text it was made, and is counted while it is alive.
pub(crate) struct Made {
    pub(crate) text: u64,
    alive: Arc<AtomicI64>,
}

impl Made {
    pub(crate) fn of(text: u64, alive: &Arc<AtomicI64>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self { text, alive: alive.clone() }
    }
}

impl Clone for Made {
    fn clone(&self) -> Self {
        Self::of(self.text, &self.alive)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub(crate) struct Refused;

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("refused")
    }
}

impl std::error::Error for Refused {}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) stored: [u64; FILES],
    /// Files and generations of which some execution failed or panicked.
    pub(crate) failed: HashSet<(usize, u64)>,
    /// How often each stage of a generation was begun, by profile.
    pub(crate) begun: HashMap<(usize, u64, Stage, u8), usize>,
    pub(crate) blocks: Blocks,
}

/// The host: fails and panics as its own random numbers say.
pub(crate) struct Faulty {
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) random: Mutex<Random>,
    pub(crate) alive: Arc<AtomicI64>,
    pub(crate) faults: usize,
}

impl Faulty {
    fn enter(&self, cx: &StageCx<'_, Self>, profile: u8) -> Result<(), Refused> {
        let key = (*cx.file(), cx.generation());
        let dice = self.random.lock().unwrap().below(100);
        let mut state = self.state.lock().unwrap();
        if cx.stage() == Stage::Artifact {
            state.blocks.check(key);
        }
        *state.begun.entry((key.0, key.1, cx.stage(), profile)).or_default() += 1;
        if dice < self.faults {
            state.failed.insert(key);
            drop(state);
            assert!(dice.is_multiple_of(2), "asked for");
            return Err(Refused);
        }
        drop(state);
        // Now and then a stage moves its own file or asks for another one.
        if dice > 96
            && let Some(stages) = cx.scheduler()
        {
            stages.submit_request(Request::source((key.0 + 1) % FILES)).detach();
        }
        Ok(())
    }
}

impl Host for Faulty {
    type File = usize;
    type Text = Made;
    type Source = Made;
    type Analysis = Made;
    type Artifact = Made;
    type Profile = u8;
    type Error = Refused;

    fn load(&self, file: &usize) -> Result<Option<Made>, Refused> {
        let text = self.state.lock().unwrap().stored[*file];
        Ok((text > 0).then(|| Made::of(text, &self.alive)))
    }

    fn source(&self, cx: &StageCx<'_, Self>, text: Made) -> Result<Made, Refused> {
        self.enter(cx, 0)?;
        Ok(text)
    }

    fn dependencies(&self, cx: &StageCx<'_, Self>, _: &Made) -> Dependencies<usize> {
        let Some(stages) = cx.scheduler() else { return Dependencies::none() };
        let there = |file| stages.try_get_analysis(&file).is_some();
        let found = self.state.lock().unwrap().blocks.found((*cx.file(), cx.generation()), there);
        Dependencies::none().with(found.0).with_blockers(found.1)
    }

    fn analysis(&self, cx: &StageCx<'_, Self>, source: &Made) -> Result<Made, Refused> {
        self.enter(cx, 0)?;
        self.state.lock().unwrap().blocks.analysed(*cx.file());
        Ok(source.clone())
    }

    fn artifact(&self, cx: &StageCx<'_, Self>, profile: &u8, source: &Made, it: &Made) -> Result<Made, Refused> {
        self.enter(cx, *profile)?;
        assert_eq!(source.text, it.text, "an Artifact of two generations");
        Ok(it.clone())
    }

    fn source_pool(&self) -> Pool {
        if self.faults.is_multiple_of(2) { Pool::Workers } else { Pool::Io }
    }
}
