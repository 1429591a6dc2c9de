//! A claimed execution: counted while it runs, and ended if the engine's own code unwinds before its waiters were told.
//! It does not know what is executed.

use super::counters::Counters;
use super::error::StageError;
use super::host::{Host, Stage};
use super::origin::Origin;
use super::revision::StageFlight;
use super::run::{Outcome, tell};
use super::slot::Slot;
use crate::flight::{FirstWaiter, Interrupt, StateWord, contained, in_the_engine};
use crate::sync::mutant;
use std::cell::{Cell, RefCell};

crate::sync::local! {
    /// One more than the number of the scheduler whose execution runs on this thread, innermost; 0 if none does.
    static RUNNING: Cell<u64> = Cell::new(0);
    /// Those of other schedulers further down the stack.
    static BELOW: RefCell<Vec<u64>> = RefCell::new(Vec::new());
}

/// Whether this thread runs an execution of the scheduler with this number.
pub(crate) fn runs_here(scheduler: u64) -> bool {
    RUNNING.try_with(Cell::get).unwrap_or(0) == scheduler + 1
        || BELOW.try_with(|below| below.borrow().contains(&(scheduler + 1))).unwrap_or(false)
}

/// Says that an execution of `scheduler` runs on this thread. What ran here before.
#[inline]
fn enter(scheduler: u64) -> u64 {
    let before = RUNNING.try_with(|running| running.replace(scheduler)).unwrap_or(0);
    if before != 0 && before != scheduler {
        let _ = BELOW.try_with(|below| below.borrow_mut().push(before));
    }
    before
}

#[inline]
fn leave(scheduler: u64, before: u64) {
    let _ = RUNNING.try_with(|running| running.set(before));
    if before != 0 && before != scheduler {
        let _ = BELOW.try_with(|below| below.borrow_mut().pop());
    }
}

/// Claims an execution, if it is free and wanted: then it is to be [held](hold).
#[inline]
pub(crate) fn claim<H: Host>(slot: &Slot<H>, word: &StateWord) -> bool {
    claim_counted(&slot.shared().counters, word)
}

/// As [`claim`]. It is counted before the claim can be seen; so who finds it claimed, or ended since, finds it counted too.
#[inline]
pub(crate) fn claim_counted(counters: &Counters, word: &StateWord) -> bool {
    if mutant("claim.count_after") {
        let is_won = word.claim_wanted().is_ok();
        if is_won {
            counters.here().one(|counts| &counts.claims);
        }
        return is_won;
    }
    let here = counters.here();
    here.one(|counts| &counts.claims);
    let is_won = word.claim_wanted().is_ok();
    if !is_won {
        here.one(|counts| &counts.ended);
    }
    is_won
}

/// A claim that is held.
pub(crate) struct Claim<'a, T: Send + Sync + 'static, H: Host, F: FirstWaiter> {
    slot: &'a Slot<H>,
    flight: &'a StageFlight<T, H, F>,
    origin: &'a Origin,
    /// Fails what needs it.
    fail: &'a dyn Fn(&StageError<H>),
    /// What ran on this thread before.
    before: u64,
    over: bool,
}

/// Calls `f` with the claim that the caller has won, or has in hand again. If `f` unwinds the execution ends as panicked; if it
/// returns it has ended the execution itself, or given the claim back.
#[inline]
pub(crate) fn hold<'a, T: Send + Sync + 'static, H: Host, F: FirstWaiter, R>(
    slot: &'a Slot<H>,
    (flight, origin): (&'a StageFlight<T, H, F>, &'a Origin),
    fail: &'a dyn Fn(&StageError<H>),
    f: impl FnOnce(&mut Claim<'a, T, H, F>) -> R,
) -> R {
    // From here on: not only its stages are the host's, but also names that are copied for a failure, and wakers.
    let before = enter(slot.shared().id + 1);
    let mut claim = Claim { slot, flight, origin, fail, before, over: false };
    let result = f(&mut claim);
    claim.over = true;
    result
}

impl<T: Send + Sync + 'static, H: Host, F: FirstWaiter> Claim<'_, T, H, F> {
    /// The host is about to be called.
    #[inline]
    pub(crate) fn begin(&self, stage: Stage) {
        self.slot.shared().counters.here().one(|counts| &counts.executions[stage as usize]);
    }

    /// Publishes what the host has made of a Source or an Analysis, which only its claimer ever does. Gives it back if the execution
    /// was ended meanwhile.
    #[inline]
    pub(crate) fn publish_alone(&mut self, outcome: Outcome<T, H>) -> Result<(), Outcome<T, H>> {
        // SAFETY: who holds the claim has won it. A Source has no other publisher; an Analysis is failed by another only where its
        // Source has failed, and then it is never claimed. What is published or ended is refused.
        unsafe { self.flight.complete(outcome) }
    }

    #[cold]
    fn end_as_panicked(&self) {
        let error: StageError<H> = Interrupt::Panicked(in_the_engine()).into();
        if self.flight.publish(Err(error.clone())).is_ok() {
            (self.fail)(&error);
        }
        // Also where it was over and its waiters had not been told.
        tell(self.slot, self.flight, self.origin);
    }
}

impl<T: Send + Sync + 'static, H: Host, F: FirstWaiter> Drop for Claim<'_, T, H, F> {
    fn drop(&mut self) {
        if !self.over {
            contained(|| self.end_as_panicked());
        }
        leave(self.slot.shared().id + 1, self.before);
        self.slot.shared().counters.here().one(|counts| &counts.ended);
    }
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use super::*;
    use crate::flight::broken;
    use crate::runtime::{Driver, Runtime};
    use crate::stages::plain_host::Plain;
    use crate::stages::{Request, Stages};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn b53_a_bug_of_the_engine_between_claim_and_seal_answers_who_waits() {
        let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
        let stages = Stages::new(&runtime, Plain::<u8>::new());
        let mut handle = stages.submit_request(Request::artifact(7, 1));
        assert!(broken(|| runtime.drive_one()));
        let Some(Err(StageError::Interrupted(why))) = handle.try_get() else { panic!("nobody else would ever answer") };
        assert!(matches!(&*why, Interrupt::Panicked(report) if report.message().contains("engine")));
        assert!(stages.submit_request(Request::artifact(7, 1)).wait().is_ok(), "it can be tried again");
    }

    #[test]
    fn b53_a_panic_of_the_engine_while_it_holds_a_claim_answers_who_waits() {
        for told in [false, true] {
            let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
            let stages = Stages::new(&runtime, Plain::<u8>::new());
            let mut handles = [0, 1].map(|_| stages.submit_request(Request::analysis(7)));
            let core = stages.core();
            let slot = core.live(core.stripes.hash(&7).unwrap(), &7).unwrap().unwrap();
            let revision = slot.visible(&crate::sync::epoch::pin()).unwrap().share();
            assert!(claim(&slot, revision.source.word()));
            let fail = |error: &StageError<Plain<u8>>| revision.fail_after_source(slot.shared(), error);
            let part = (&revision.source, &revision.origins.source);
            let unwound = catch_unwind(AssertUnwindSafe(|| {
                hold(&slot, part, &fail, |claim| {
                    claim.begin(Stage::Source);
                    assert!(runs_here(slot.shared().id));
                    if told {
                        revision.fail_after_source(slot.shared(), &StageError::Cancelled);
                    }
                    panic!("on purpose");
                });
            }));
            assert!(unwound.is_err());
            for handle in &mut handles {
                match handle.try_get().expect("nobody else would ever answer") {
                    Err(StageError::Interrupted(why)) => assert!(matches!(*why, Interrupt::Panicked(_)) && !told),
                    Err(StageError::Cancelled) => assert!(told),
                    other => panic!("an unexpected answer: {other:?}"),
                }
            }
            assert!(!runs_here(slot.shared().id));
            assert!(stages.submit_request(Request::analysis(7)).wait().is_ok(), "it can be tried again");
        }
    }
}
