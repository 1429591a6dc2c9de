//! Asks a producer for its Analysis on behalf of a set: it answers at once, or an edge hangs in it; and what an edge is told.
//! It does not know why the set wants it, nor what opens when everything is answered.
#![forbid(unsafe_code)]

use super::super::artifact::known_or_done;
use super::super::host::{Host, Stage};
use super::super::needed::Needed;
use super::super::origin::Asker;
use super::super::revision::{Revision, leave};
use super::super::slot::{Kind, Slot};
use super::super::submit::{try_again, visible_or_first};
use super::super::wish::{Refusal, own_analysis, own_source, start, start_source};
use super::dispatch::{Opened, opened};
use super::edge::{Consumers, Edge};
use super::set::DependencySet;
use crate::flight::{Phase, nudge};
use crate::runtime::Priority;
use crate::stages::demand::Wish;
use crate::sync::{Arc, epoch, hint, mutant};
use smallvec::SmallVec;

/// What a revision says to who waits for its Analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is there.
    Done,
    /// It, or Source before it, has failed.
    Failed,
    /// The file's life is over.
    Gone,
    /// It was cancelled at this generation.
    Cancelled,
    /// The file has moved on.
    Superseded,
    /// It is to come.
    Pending,
}

pub(crate) fn verdict<H: Host>(revision: &Revision<H>) -> Verdict {
    let of = |phase| match phase {
        Phase::Failed => Verdict::Failed,
        Phase::Cancelled => Verdict::Cancelled,
        Phase::Superseded => Verdict::Superseded,
        Phase::Shutdown => Verdict::Gone,
        _ => Verdict::Pending,
    };
    match revision.analysis.word().phase() {
        _ if revision.absent => Verdict::Gone,
        Phase::Done => Verdict::Done,
        phase if phase.is_terminal() => of(phase),
        // What fails Source is about to fail Analysis too.
        _ => of(revision.source.word().phase()),
    }
}

/// Whether the producer has to be asked: it is there, and its visible revision has no Analysis.
pub(crate) fn is_wanting<H: Host>(producer: &Arc<Slot<H>>) -> bool {
    super::dispatch::visible(producer).is_none_or(|revision| match verdict(&revision) {
        Verdict::Done => false,
        Verdict::Gone => !revision.absent,
        _ => true,
    })
}

/// Asks the producer of blocker `at` for its Analysis. The caller has a unit of the gate's count in hand, which is given back
/// with the answer; `seen` is the edge that asked last.
pub(crate) fn seek<H: Host>(mut set: Arc<DependencySet<H>>, mut at: usize, mut seen: Option<Arc<Edge<H>>>) {
    loop {
        // A file that has been taken away is waited for by nobody; and one that was but a name, of a set that has been closed.
        let Some(slot) = set.blockers[at].producer.upgrade().and_then(Needed::of) else { return set.answered() };
        let revision = visible_or_first(&slot);
        match verdict(&revision) {
            Verdict::Done => return set.answered(),
            Verdict::Failed => return set.answered_failed(),
            Verdict::Gone => {
                return match gone(&slot) {
                    Gone::Removed => set.answered(),
                    Gone::ThrownAway => set.answered_failed(),
                    Gone::Ended => {}
                };
            }
            Verdict::Superseded => {
                hint::spin_loop();
                continue;
            }
            Verdict::Cancelled => {
                try_again(&slot, &revision);
                continue;
            }
            Verdict::Pending => {}
        }
        let consumers = Consumers::of(&revision);
        let edge = Edge::new(set.clone(), &revision, &consumers);
        if !set.put(at, seen.as_ref(), &edge) {
            // Another thread asks, or the set has been closed.
            drop(edge.target.take());
            return set.answered();
        }
        let asks = Asks::of(&set);
        drop(set);
        match hang((&slot, &revision), &consumers, &edge, &asks) {
            Hung::Told => return,
            Hung::Full => {
                // To ask again would find the same: the owner fails when it meets the blocker, unless that has ended by then.
                let taken = edge.target.refuse();
                return taken.into_iter().for_each(|taken| taken.target.answered_failed());
            }
            Hung::LookAgain => {}
        }
        // Whoever ends the revision may have answered already; else the unit is in hand again, perhaps a successor's.
        let Some(taken) = edge.target.take() else { return };
        set = taken.target;
        let Some(index) = set.index_of(Arc::as_ptr(&slot)) else { return set.answered() };
        (at, seen) = (index, Some(edge));
        hint::spin_loop();
    }
}

/// Asks for the blocker that `edge` has asked for, on behalf of the set that was to be told. The caller has its unit in hand.
pub(crate) fn ask_again<H: Host>(set: Arc<DependencySet<H>>, edge: &Arc<Edge<H>>) {
    let slot = edge.producer.upgrade().and_then(|revision| revision.slot.upgrade());
    match slot.and_then(|slot| set.index_of(Arc::as_ptr(&slot))) {
        Some(at) => seek(set, at, Some(edge.clone())),
        None => set.answered(),
    }
}

/// How the life of a producer has ended, as its owners see it.
enum Gone {
    /// It was removed: they go on without it.
    Removed,
    /// The runtime has thrown its work away: they fail with it, if they are not thrown away too.
    ThrownAway,
    /// They end too: by a reset, or with the whole scheduler.
    Ended,
}

fn gone<H: Host>(slot: &Slot<H>) -> Gone {
    if slot.is_over() || !slot.shared().has_scheduler() {
        return Gone::Ended;
    }
    let pinned = epoch::pin();
    match slot.visible(&pinned) {
        Some(seen) if !seen.absent => Gone::ThrownAway,
        _ => Gone::Removed,
    }
}

/// How an owner asks.
struct Asks {
    priority: Priority,
    asker: Asker,
}

impl Asks {
    /// As urgently as the owner, but no less than Interactive; in the owner's context.
    fn of<H: Host>(set: &DependencySet<H>) -> Self {
        let revision = set.owner.upgrade().and_then(|owner| super::dispatch::visible(&owner));
        let context =
            revision.and_then(|owner| owner.origins.analysis.context().or_else(|| owner.origins.source.context()));
        Self { priority: urgency(set), asker: Asker { name: None, context } }
    }
}

fn urgency<H: Host>(set: &DependencySet<H>) -> Priority {
    set.gate.priority().min(Priority::Interactive)
}

/// What became of an edge.
enum Hung {
    /// It hangs, or has been told.
    Told,
    /// The revision admits nothing any more.
    LookAgain,
    /// The revision has as many owners as can be counted.
    Full,
}

impl Hung {
    fn refused<H: Host>(refusal: &Refusal<H>) -> Self {
        if refusal.is_for_want_of_room() { Self::Full } else { Self::LookAgain }
    }
}

/// Makes `edge` one of those who want the Analysis of `revision`, and sees to its start.
fn hang<H: Host>(
    (slot, revision): (&Arc<Slot<H>>, &Arc<Revision<H>>),
    consumers: &Consumers<H>,
    edge: &Arc<Edge<H>>,
    asks: &Asks,
) -> Hung {
    if let Err(refusal) = own_source(slot, revision, &asks.asker) {
        return Hung::refused(&refusal);
    }
    if let Err(refusal) = own_analysis(slot, revision, &asks.asker) {
        revision.leave_source(slot);
        return Hung::refused(&refusal);
    }
    let undo = || {
        leave(slot, &revision.analysis, &revision.origins.analysis);
        revision.leave_source(slot);
        Hung::LookAgain
    };
    if !consumers.push(edge.clone()) {
        return undo();
    }
    let raised = revision.analysis.word().raise(asks.priority).is_some();
    let ticket = match revision.demand.wish() {
        Wish::Due => start(revision.analysis.word(), Stage::Analysis, asks.priority, raised),
        Wish::Counted => start_source(revision, asks.priority),
        Wish::Retired => return undo(),
    };
    if edge.target.hold() {
        known_or_done();
        if !mutant("edges.no_look_after_hang") {
            tell_consumers(slot, revision);
        }
    } else {
        // It was answered or withdrawn before the demand was known.
        edge.withdraw_demand();
    }
    if let Some(kind) = ticket {
        slot.post(kind);
    }
    Hung::Told
}

/// Makes what is waited for as urgent as the set has become.
pub(crate) fn urge<H: Host>(set: &DependencySet<H>) {
    let priority = urgency(set);
    for edge in set.waiting() {
        let Some(revision) = edge.producer.upgrade() else { continue };
        let Some(slot) = revision.slot.upgrade() else { continue };
        for (stage, word) in [(Stage::Source, revision.source.word()), (Stage::Analysis, revision.analysis.word())] {
            if word.raise(priority).is_some() && word.phase() == Phase::Waiting && !revision.is_stub() {
                slot.post(Kind::of(stage, priority));
            }
        }
    }
}

/// Tells those who wait for the Analysis of `revision` from other files, if it is over. Outside every section and pin.
///
/// The caller has ended it, or has retired the demand: then every edge that counts as demand hangs already. Or it has just hung
/// an edge and passed [`known_or_done`]: then it is told by this call, or by the one that ended the Analysis.
#[inline]
pub(crate) fn tell_consumers<H: Host>(slot: &Arc<Slot<H>>, revision: &Revision<H>) {
    if !revision.consumers.is_empty() && revision.analysis.word().phase().is_terminal() {
        answer_consumers(slot, revision);
    }
}

type Again<H> = (Arc<DependencySet<H>>, Arc<Edge<H>>);

/// What those who wait are told.
struct Answers<H: Host> {
    /// Sets whose gates have opened with their answer.
    opened: Opened<H>,
    /// Sets that ask again, each with the edge that has asked last.
    again: SmallVec<[Again<H>; 1]>,
}

/// All are answered before anything is done about it: so the one fence stands between all answers and all looks, and what is
/// ready goes into the queue together.
#[inline(never)]
fn answer_consumers<H: Host>(slot: &Arc<Slot<H>>, revision: &Revision<H>) {
    let mut answers = Answers { opened: Opened::new(), again: SmallVec::new() };
    revision.consumers.look(|consumers| answers.give(slot, revision, consumers));
    opened(answers.opened.iter().map(|set| &**set));
    let moved = !answers.again.is_empty();
    answers.again.into_iter().for_each(|(set, edge)| ask_again(set, &edge));
    if moved {
        // Who waits for an owner inside a job helps with what stands before it: that is another flight now.
        nudge();
    }
}

impl<H: Host> Answers<H> {
    /// Under a pin, so no host code: edges and sets hold nothing of the host's.
    fn give(&mut self, slot: &Slot<H>, revision: &Revision<H>, consumers: &Consumers<H>) {
        // It is over, so this stays as it is.
        let verdict = verdict(revision);
        consumers.edges.seal().deliver(|edge| {
            let Some(taken) = edge.target.take() else { return };
            let set = taken.target;
            let opens = match verdict {
                // An Analysis of a generation that has been left is no answer.
                Verdict::Done if slot.versions.is_current(revision, slot.clock()) => set.gate.release(),
                Verdict::Failed => set.gate.release_failed(),
                Verdict::Superseded if mutant("edges.supersede_answers") => set.gate.release(),
                Verdict::Gone => match gone(slot) {
                    Gone::Removed => set.gate.release(),
                    Gone::ThrownAway => set.gate.release_failed(),
                    Gone::Ended => false,
                },
                _ => return self.again.push((set, edge.clone())),
            };
            if opens {
                self.opened.push(set);
            }
        });
    }
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use crate::flight::{Interrupt, Killed};
    use crate::runtime::{Driver, Runtime};
    use crate::stages::plain_host::Plain;
    use crate::stages::{Dependencies, Registered, Request, StageError, Stages};

    #[test]
    fn an_owner_whose_blocker_is_thrown_away_fails_with_it() {
        let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
        let stages = Stages::new(&runtime, Plain::<u8>::new());
        stages.submit_request(Request::analysis(1)).wait().unwrap();
        let late = Dependencies::none().with_blockers([2]);
        assert_eq!(stages.register_resolved_deps(&1, late), Registered::Now);
        let mut owners = [0, 1].map(|profile| stages.submit_request(Request::artifact(1, profile)));
        let core = stages.core();
        let slot = core.live(core.stripes.hash(&2).unwrap(), &2).unwrap().unwrap();
        // As a ticket of the blocker does that the runtime drops; the owner's have not been dropped, and who waits for one may run it.
        slot.end(Killed::Shutdown);
        runtime.drive_all();
        for owner in &mut owners {
            let Err(error) = owner.try_get().expect("nobody else would answer it") else {
                panic!("its blocker never ran")
            };
            let failure = error.dependency().expect("it is the blocker's failure");
            assert!(*failure.file() == 2 && matches!(failure.cause(), StageError::Shutdown), "{error}");
        }
        let late = stages.submit_request(Request::artifact(1, 2)).wait();
        assert!(late.is_err_and(|error| error.dependency().is_some()), "nor will it ever run");
        assert_eq!(stages.dependency_occupancy().edges, 0);
    }

    #[test]
    fn b107_a_blocker_that_as_many_want_as_can_be_counted_fails_its_owner_typed() {
        let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
        let stages = Stages::new(&runtime, Plain::<u8>::new());
        let artifact = || stages.submit_request(Request::artifact(1, 0)).wait();
        stages.submit_request(Request::source(2)).wait().unwrap();
        stages.submit_request(Request::analysis(1)).wait().unwrap();
        let core = stages.core();
        let slot = core.live(core.stripes.hash(&2).unwrap(), &2).unwrap().unwrap();
        let blocker = slot.visible(&crate::sync::epoch::pin()).unwrap().share();
        let added = blocker.analysis.word().crowd();
        let late = Dependencies::none().with_blockers([2]);
        assert_eq!(stages.register_resolved_deps(&1, late), Registered::Now, "and it comes back");
        for _ in 0..2 {
            let Err(error) = artifact() else { panic!("its blocker has not been analysed") };
            let failure = error.dependency().expect("it is the blocker's failure");
            let StageError::Interrupted(why) = failure.cause() else { panic!("another cause: {error}") };
            assert_eq!((*failure.file(), &**why), (2, &Interrupt::TooManyWaiters));
            assert_eq!(stages.dependency_occupancy().edges, 0);
        }
        blocker.analysis.word().thin(added);
        assert!(artifact().is_ok(), "there is room again");
        assert!(stages.try_get_analysis(&2).is_some());
        assert_eq!(stages.dependency_occupancy(), Default::default());
    }
}
