//! Demand against completion: Source done and Analysis wanted are weighed in one word, and what nobody wants does not start.

use super::check;
use crate::flight::StateWord;
use crate::runtime::Priority;
use crate::stages::{Demand, Wish};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, thread};

/// A revision, as far as its Analysis is concerned.
struct Revision {
    demand: Demand,
    analysis: StateWord,
    tickets: AtomicU64,
    begun: AtomicU64,
}

impl Revision {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            demand: Demand::new(false),
            analysis: StateWord::new(),
            tickets: AtomicU64::new(0),
            begun: AtomicU64::new(0),
        })
    }

    fn see_to_the_start(&self) {
        if self.analysis.admit(Priority::Interactive).is_ok() {
            self.tickets.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn wish(&self) {
        self.analysis.join().unwrap();
        if self.demand.wish() == Wish::Due {
            self.see_to_the_start();
        }
    }

    /// As `wish`, unless the flight has been cancelled. Whether it stands.
    fn wish_if_free(&self) -> bool {
        let joined = self.analysis.join().is_ok();
        if joined && self.demand.wish() == Wish::Due {
            self.see_to_the_start();
        }
        joined
    }

    fn withdraw(&self) {
        self.demand.withdraw();
        self.analysis.withdraw();
    }

    fn complete_source(&self) {
        if self.demand.source_done() {
            self.see_to_the_start();
        }
    }

    /// A popper, if there is a ticket.
    fn pop(&self) {
        let took = self.tickets.fetch_update(Ordering::AcqRel, Ordering::Acquire, |out| out.checked_sub(1));
        if took.is_ok() && self.analysis.claim_wanted().is_ok() {
            self.begun.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn drain(&self) -> u64 {
        for _ in 0..3 {
            self.pop();
        }
        self.begun.load(Ordering::Acquire)
    }
}

/// Of two wishes and the completion of Source at least one sees to the start of Analysis, which begins once.
#[test]
fn one_of_two_wishes_and_the_completion_starts_analysis() {
    check(|| {
        let revision = Revision::new();
        let wishers = [(); 2].map(|()| {
            let revision = revision.clone();
            thread::spawn(move || revision.wish())
        });
        let completion = {
            let revision = revision.clone();
            thread::spawn(move || revision.complete_source())
        };
        wishers.into_iter().chain([completion]).for_each(|thread| thread.join().unwrap());
        assert_eq!(revision.drain(), 1);
    });
}

/// An Analysis that nobody wants any more when it would start does not start; the next wish starts it.
#[test]
fn an_analysis_starts_only_for_who_wants_it() {
    check(|| {
        let revision = Revision::new();
        revision.wish();
        let passing = {
            let revision = revision.clone();
            thread::spawn(move || {
                revision.wish();
                revision.withdraw();
            })
        };
        let leaving = {
            let revision = revision.clone();
            thread::spawn(move || revision.withdraw())
        };
        revision.complete_source();
        passing.join().unwrap();
        leaving.join().unwrap();
        assert_eq!(revision.drain(), 0, "it began for nobody");
        revision.wish();
        assert_eq!(revision.drain(), 1, "nobody saw to the start of what is wanted");
    });
}

/// While the last owner withdraws and a ticket is popped, a new wish is never left without a start.
#[test]
fn a_wish_beside_a_withdrawal_and_a_popper_is_served() {
    check(|| {
        let revision = Revision::new();
        revision.wish();
        revision.complete_source();
        let popping = {
            let revision = revision.clone();
            thread::spawn(move || revision.pop())
        };
        let wishing = {
            let revision = revision.clone();
            thread::spawn(move || revision.wish_if_free())
        };
        revision.withdraw();
        popping.join().unwrap();
        let stands = wishing.join().unwrap();
        let begun = revision.drain();
        assert!(begun == 1 || !stands, "a wish was left without a start");
    });
}

/// Who retires the word sees what a wisher hung up before its wish, or the wisher is told.
#[test]
fn a_wish_is_seen_by_who_retires_or_is_refused() {
    check(|| {
        let demand = Arc::new(Demand::new(false));
        let hung = Arc::new(AtomicU64::new(0));
        let wishers: Vec<_> = (0..2)
            .map(|n| {
                let (demand, hung) = (demand.clone(), hung.clone());
                thread::spawn(move || {
                    hung.fetch_or(1 << n, Ordering::Relaxed);
                    demand.wish() != Wish::Retired
                })
            })
            .collect();
        let wanted = demand.retire();
        let seen = hung.load(Ordering::Relaxed);
        for (n, wisher) in wishers.into_iter().enumerate() {
            let counted = wisher.join().unwrap();
            assert!(!counted || wanted, "a counted wish was overlooked by who retired");
            assert!(!counted || seen & (1 << n) != 0, "a counted wish was not seen by who retired");
        }
    });
}
