//! Models of the one-shot: resolution against registration, replacement of the waker and abandonment.

#![cfg(any(shardrun_loom, shardrun_shuttle))]

use super::check;
use crate::flight::OneShot;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::thread::spawn;
use std::task::{Wake, Waker};

#[derive(Default)]
struct Count {
    wakes: std::sync::atomic::AtomicU64,
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}

fn wakes(count: &Count) -> u64 {
    count.wakes.load(std::sync::atomic::Ordering::SeqCst)
}

/// A result that counts how often it is dropped.
struct Token(Arc<AtomicU64>);

impl Drop for Token {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// Two resolve, the reader registers and replaces its waker: one resolution stands, and the reader either sees the result or
/// its newest waker is woken, never neither, and the old one never instead.
#[test]
fn two_resolve_while_the_reader_replaces_its_waker() {
    check(|| {
        let shot = Arc::new(OneShot::new());
        let resolver = |value: u64| {
            let shot = shot.clone();
            spawn(move || match shot.resolve(value) {
                Ok(waker) => {
                    if let Some(waker) = waker {
                        waker.wake();
                    }
                    true
                }
                Err(_) => false,
            })
        };
        let resolvers = [resolver(1), resolver(2)];
        let (old, new) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let seen = shot.register(&Waker::from(old.clone())) || shot.register(&Waker::from(new.clone()));
        let won: Vec<bool> = resolvers.into_iter().map(|resolver| resolver.join().unwrap()).collect();
        assert_eq!(won.iter().filter(|won| **won).count(), 1, "one resolution stands");
        assert!(seen || wakes(&new) == 1, "the reader sleeps beside its result");
        let value = shot.take().expect("it is there");
        assert!(won[value as usize - 1], "the result is the winner's");
        assert!(shot.take().is_none());
    });
}

/// The reader goes while two resolve: the result is dropped once, by whoever is left with it.
#[test]
fn two_resolve_while_the_reader_goes() {
    check(|| {
        let shot = Arc::new(OneShot::new());
        let drops = Arc::new(AtomicU64::new(0));
        let resolver = || {
            let (shot, token) = (shot.clone(), Token(drops.clone()));
            spawn(move || {
                if let Ok(Some(waker)) = shot.resolve(token) {
                    waker.wake();
                }
            })
        };
        let resolvers = [resolver(), resolver()];
        let _ = shot.register(&Waker::from(Arc::new(Count::default())));
        shot.abandon();
        for resolver in resolvers {
            resolver.join().unwrap();
        }
        assert_eq!(drops.load(Ordering::Acquire), 2, "each of the two results is dropped once");
    });
}
