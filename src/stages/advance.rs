//! One transition of files: prepared outside, linked inside the section, made visible by one write, and only then are the
//! predecessors ended. It does not know what a revision holds, nor what ending one means.

#![forbid(unsafe_code)]

use super::chain::Replaced;
use super::sequencer::Sequencer;
use super::stamp::Clock;
use super::versions::{Transition, Unshared, Version, Versions, commit};
use crate::sync::epoch::Guard;
use crate::sync::{Arc, mutant};

/// What a transition moves on: a file's slot, with whatever the caller wants to remember of it.
pub(crate) trait Movable<R: Version> {
    /// Where the file's revisions hang.
    fn versions(&self) -> &Versions<R>;
    /// Completes the successor of `old`, or declines: then the file stays as it is. Inside the section, so plain data only: no
    /// host code, nothing ended, nothing freed. It is asked again if a retry came between.
    fn prepare(&mut self, old: &R, fresh: &mut R) -> bool;
    /// Takes the predecessor that was replaced, to be ended. After the section, still pinned.
    fn replaced(&mut self, old: Replaced<R>, fresh: &R);
    /// Whether there is any captured view.
    fn is_watched(&self) -> bool;
}

/// A file that a transition moves on.
pub(crate) struct Member<S, R> {
    /// The file.
    pub(crate) file: S,
    /// The revision that the transition is to install.
    fresh: Option<Unshared<R>>,
    /// The same once it is installed: never, if `prepare` declined.
    pub(crate) installed: Option<Arc<R>>,
    /// What stands in for a predecessor in a slot that has none, so that requests which come before the commit find a list.
    stub: Option<Arc<R>>,
}

impl<R: Version, S: Movable<R>> Member<S, R> {
    /// A member whose slot has a revision, or else gets `stub`, or else is left alone.
    pub(crate) fn new(file: S, fresh: Unshared<R>, stub: Option<Arc<R>>) -> Self {
        Self { file, fresh: Some(fresh), installed: None, stub }
    }

    /// What was not installed, since `prepare` declined.
    pub(crate) fn declined(&self) -> Option<&R> {
        self.fresh.as_ref().map(Unshared::get)
    }

    /// Links it, invisible.
    fn install(&mut self, shared: Option<&Transition>, pinned: &Guard) {
        loop {
            let Some(old) = self.file.versions().head(pinned) else {
                let Some(stub) = self.stub.take() else { return };
                // A creation may be faster; then its revision is the predecessor, and the stub is dropped with the member.
                self.stub = self.file.versions().create(stub).err();
                continue;
            };
            let Some(mut fresh) = self.fresh.take() else { return };
            let goes_on = self.file.prepare(old, fresh.get_mut());
            if !goes_on {
                // Dropped with the member, outside the section.
                self.fresh = Some(fresh);
                return;
            }
            match self.file.versions().install(old, fresh, shared) {
                Ok(fresh) => return self.installed = Some(fresh),
                Err(fresh) => self.fresh = Some(fresh),
            }
        }
    }

    /// Cuts it off from its predecessor and hands that out.
    fn finish(&mut self, clock: &Clock) {
        if let Some(fresh) = &self.installed {
            let replaced = Versions::finish(&**fresh, clock, || self.file.is_watched());
            self.file.replaced(replaced, fresh);
        }
    }
}

/// Moves `members` on together, each a different file.
///
/// Returns what the members share; it must outlive every pin that began before this call returned.
pub(crate) fn advance<R: Version, S: Movable<R>>(
    (sequencer, clock): (&Sequencer, &Clock),
    members: &mut [Member<S, R>],
    pinned: &Guard,
) -> Option<Box<Transition>> {
    let shared = (members.len() > 1).then(Transition::new);
    let early = mutant("advance.end_before_commit");
    sequencer.run(members.len() as u64, || {
        for member in members.iter_mut() {
            member.install(shared.as_deref(), pinned);
        }
        if early {
            members.iter_mut().for_each(|member| member.finish(clock));
        }
        let installed = members.iter().filter_map(|member| member.installed.as_deref());
        let is_any = installed.clone().next().is_some();
        commit(installed, shared.as_deref());
        ((), is_any)
    });
    if !early {
        members.iter_mut().for_each(|member| member.finish(clock));
    }
    shared
}
