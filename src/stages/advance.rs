//! One transition of files: prepared outside, linked inside the section, made visible by one write, and only then are the
//! predecessors ended. It does not know what a revision holds, nor what ending one means.

#![forbid(unsafe_code)]

use super::sequencer::Sequencer;
use super::stamp::Clock;
use super::versions::{Retired, Transition, Version, Versions, commit};
use crate::sync::epoch::Guard;
use crate::sync::{Arc, mutant};

/// A file that a transition moves on.
pub(crate) struct Member<'a, R> {
    /// Where the file's revisions hang.
    pub(crate) slot: &'a Versions<R>,
    /// The revision that the transition installs; nobody else holds it yet.
    pub(crate) fresh: Arc<R>,
    /// What stands in for a predecessor in a slot that has none, so that requests which come before the commit find a list.
    pub(crate) stub: Option<Arc<R>>,
    /// Whether it was installed: not, if `prepare` declined.
    pub(crate) installed: bool,
}

impl<'a, R> Member<'a, R> {
    /// A member whose slot has a revision, or else gets `stub`.
    pub(crate) fn new(slot: &'a Versions<R>, fresh: Arc<R>, stub: Option<Arc<R>>) -> Self {
        Self { slot, fresh, stub, installed: false }
    }
}

/// Moves `members` on together.
///
/// Inside the section `prepare` is told predecessor and successor of each and completes the successor, or declines by false: then
/// that member stays as it is. It may be asked again if a retry came between. It is plain data: nothing of the host's runs
/// there, and nothing is ended or freed. After the section `end` gets the predecessor of each installed member, by its index.
///
/// Returns what the members share; it must outlive every pin that began before this call returned.
pub(crate) fn advance<R: Version>(
    (sequencer, clock): (&Sequencer, &Clock),
    members: &mut [Member<'_, R>],
    pinned: &Guard,
    mut prepare: impl FnMut(usize, &R, &mut R) -> bool,
    mut end: impl FnMut(usize, Retired<R>),
) -> Option<Box<Transition>> {
    let shared = (members.len() > 1).then(Transition::new);
    let mut early = mutant("advance.end_before_commit");
    sequencer.run(members.len() as u64, || {
        for (at, member) in members.iter_mut().enumerate() {
            install(member, shared.as_deref(), pinned, |old, fresh| prepare(at, old, fresh));
        }
        if early {
            finish(members, clock, &mut end);
        }
        commit(members.iter().filter(|member| member.installed).map(|member| &*member.fresh), shared.as_deref());
        early
    });
    if !std::mem::take(&mut early) {
        finish(members, clock, &mut end);
    }
    shared
}

/// Cuts the members off from their predecessors and hands those out.
fn finish<R: Version>(members: &[Member<'_, R>], clock: &Clock, end: &mut impl FnMut(usize, Retired<R>)) {
    for (at, member) in members.iter().enumerate().filter(|(_, member)| member.installed) {
        end(at, Versions::unlink(&*member.fresh, clock));
    }
}

/// Links one member, invisible.
fn install<R: Version>(
    member: &mut Member<'_, R>,
    shared: Option<&Transition>,
    pinned: &Guard,
    mut prepare: impl FnMut(&R, &mut R) -> bool,
) {
    loop {
        let Some(old) = member.slot.head(pinned) else {
            let Some(stub) = member.stub.take() else { return };
            // A creation may be faster; then its revision is the predecessor, and the stub is dropped by its maker.
            member.stub = member.slot.create(stub).err();
            continue;
        };
        let fresh = Arc::get_mut(&mut member.fresh).expect("nobody else holds a revision that is not installed");
        if !prepare(old, fresh) {
            return;
        }
        if member.slot.install(old, &member.fresh, shared) {
            member.installed = true;
            return;
        }
    }
}
