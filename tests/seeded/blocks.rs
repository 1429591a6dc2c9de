//! What the random timelines know of dependencies: who names whom at which generation, and which blockers have been there since.

use std::collections::{HashMap, HashSet};

/// A file and its generation.
pub(crate) type At = (usize, u64);

/// What is known of the dependencies between the files of a timeline.
#[derive(Default)]
pub(crate) struct Blocks {
    /// What the host answers now, by file: dependencies and blockers.
    pub(crate) answers: HashMap<usize, (Vec<usize>, Vec<usize>)>,
    /// What each generation was found to depend on.
    found: HashMap<At, HashSet<usize>>,
    /// The blockers of each generation, and which of them have been analysed since they were named.
    needed: HashMap<At, HashMap<usize, bool>>,
    /// Files that were registered for an owner.
    registered: HashMap<usize, HashSet<usize>>,
    /// Files that an owner was ever found to depend on.
    ever: HashMap<usize, HashSet<usize>>,
    /// Some answer has changed, or something was registered: an owner may have withdrawn from a blocker that ran.
    pub(crate) loose: bool,
}

impl Blocks {
    /// The host has answered for a generation; `there` says which files have their Analysis now.
    pub(crate) fn found(&mut self, at: At, there: impl Fn(usize) -> bool) -> (Vec<usize>, Vec<usize>) {
        let (forward, blockers) = self.answers.get(&at.0).cloned().unwrap_or_default();
        self.found.entry(at).or_default().extend(forward.iter().chain(&blockers));
        self.ever.entry(at.0).or_default().extend(&blockers);
        self.need(at, &blockers, there);
        (forward, blockers)
    }

    fn need(&mut self, at: At, blockers: &[usize], there: impl Fn(usize) -> bool) {
        let others = blockers.iter().filter(|&&file| file != at.0);
        self.needed.insert(at, others.map(|&file| (file, there(file))).collect());
    }

    /// The Analysis of a file has just been made.
    pub(crate) fn analysed(&mut self, file: usize) {
        for needed in self.needed.values_mut() {
            needed.entry(file).and_modify(|there| *there = true);
        }
    }

    /// Something was registered for an owner. If it counts `now`, it takes the place of what was there.
    pub(crate) fn registered(&mut self, at: At, now: bool, blockers: &[usize], there: impl Fn(usize) -> bool) {
        self.loose = true;
        self.registered.entry(at.0).or_default().extend(blockers);
        self.ever.entry(at.0).or_default().extend(blockers);
        if now {
            self.need(at, blockers, there);
        }
    }

    /// An Artifact is about to be made.
    pub(crate) fn check(&self, at: At) {
        let missing: Vec<_> = self.needed.get(&at).into_iter().flatten().filter(|(_, there)| !**there).collect();
        assert!(missing.is_empty(), "an Artifact of {at:?} without its blockers {missing:?}");
    }

    /// An Artifact has failed since `dependency` did.
    pub(crate) fn may_fail(&self, owner: usize, dependency: usize) -> bool {
        self.ever.get(&owner).is_some_and(|files| files.contains(&dependency))
    }

    /// The life of a file has ended: its generations name nobody, nobody waits for it, and who named it names a life that is over.
    pub(crate) fn gone(&mut self, file: usize) {
        self.found.retain(|owner, _| owner.0 != file);
        self.needed.retain(|owner, _| owner.0 != file);
        self.registered.remove(&file);
        for found in self.found.values_mut().chain(self.registered.values_mut()) {
            found.remove(&file);
        }
        for needed in self.needed.values_mut() {
            needed.remove(&file);
        }
    }

    /// Whether `owner` may be told to depend on `file`, or must be.
    pub(crate) fn depends(&self, owner: At, file: usize) -> (bool, bool) {
        let found = self.found.get(&owner).is_some_and(|found| found.contains(&file));
        let registered = self.registered.get(&owner.0).is_some_and(|files| files.contains(&file));
        (found || registered, found)
    }
}
