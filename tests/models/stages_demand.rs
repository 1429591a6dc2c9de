//! Demand against completion: Source done and Analysis wanted are weighed in one word.

use super::check;
use crate::stages::{Demand, Wish};
use crate::sync::Arc;
use crate::sync::thread;

/// Of two wishes and the completion of Source exactly one admits Analysis, and nobody ever sees Source done, Analysis wanted
/// and nobody made to start it.
#[test]
fn one_of_two_wishes_and_the_completion_admits_analysis() {
    check(|| {
        let demand = Arc::new(Demand::new(0, false));
        let wish = |demand: &Arc<Demand>| {
            let demand = demand.clone();
            thread::spawn(move || {
                let wish = demand.wish();
                assert!(!demand.is_stranded());
                assert_ne!(wish, Wish::Retired);
                wish == Wish::Admitted
            })
        };
        let (first, second) = (wish(&demand), wish(&demand));
        let mine = demand.source_done();
        assert!(!demand.is_stranded());
        let admitted = [mine, first.join().unwrap(), second.join().unwrap()];
        assert_eq!(admitted.iter().filter(|&&admitted| admitted).count(), 1);
        assert!(demand.start());
        assert!(!demand.start());
    });
}

/// An Analysis that nobody wants any more when it would start does not start, and one that somebody wants starts once.
#[test]
fn an_analysis_starts_only_for_who_wants_it() {
    check(|| {
        let demand = Arc::new(Demand::new(1, false));
        let passing = {
            let demand = demand.clone();
            thread::spawn(move || {
                let admitted = demand.wish() == Wish::Admitted;
                demand.withdraw();
                admitted
            })
        };
        let leaving = {
            let demand = demand.clone();
            thread::spawn(move || demand.withdraw())
        };
        let admitted = demand.source_done();
        let admitted = passing.join().unwrap() || admitted;
        leaving.join().unwrap();
        assert!(!demand.start(), "nobody wants it");
        let again = demand.wish();
        assert_eq!(again, Wish::Admitted, "idle again, so that the next wish admits it (admitted before: {admitted})");
        assert!(demand.start());
    });
}

/// Who retires the word sees what a wisher hung up before its wish, or the wisher is told.
#[test]
fn a_wish_is_seen_by_who_retires_or_is_refused() {
    check(|| {
        let demand = Arc::new(Demand::new(0, false));
        let hung = Arc::new(crate::sync::atomic::AtomicU64::new(0));
        let wishers: Vec<_> = (0..2)
            .map(|n| {
                let (demand, hung) = (demand.clone(), hung.clone());
                thread::spawn(move || {
                    hung.fetch_or(1 << n, crate::sync::atomic::Ordering::Relaxed);
                    demand.wish() != Wish::Retired
                })
            })
            .collect();
        assert!(demand.retire());
        let seen = hung.load(crate::sync::atomic::Ordering::Relaxed);
        for (n, wisher) in wishers.into_iter().enumerate() {
            let counted = wisher.join().unwrap();
            assert!(!counted || seen & (1 << n) != 0, "a counted wish was not seen by who retired");
        }
    });
}
