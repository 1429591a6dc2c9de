//! Models of permits that are lent while bodies sleep: never more bodies at once than there are permits, and no permit is lost.

#![cfg(any(shardrun_loom, shardrun_shuttle))]

use super::check;
use crate::flight::{Parker, lend};
use crate::keyed::CpuConcurrencySemaphore;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::cell::UnsafeCell;
use crate::sync::thread::{JoinHandle, spawn};
use std::task::Waker;

/// What is touched by bodies alone: plain data, so that loom reports two at once as a race.
struct Bodies(UnsafeCell<u64>);

// SAFETY: it is touched by who has the one permit.
unsafe impl Sync for Bodies {}

impl Bodies {
    /// A body does something.
    fn step(&self) {
        // SAFETY: touched by who has the one permit.
        self.0.with_mut(|steps| unsafe { *steps += 1 });
    }
}

/// Something that one thread brings and another sleeps for.
struct News {
    has_come: AtomicBool,
    waker: Waker,
}

impl News {
    /// That is slept for here.
    fn here() -> (Arc<Self>, Arc<Parker>) {
        let parker = Parker::mine();
        (Arc::new(Self { has_come: AtomicBool::new(false), waker: parker.waker() }), parker)
    }

    fn bring(&self) {
        self.has_come.swap(true, Ordering::AcqRel);
        self.waker.wake_by_ref();
    }

    fn sleep(&self, parker: &Parker) {
        while !self.has_come.load(Ordering::Acquire) {
            parker.park_until(None);
        }
    }
}

/// Another body of the one permit, which brings something.
fn other(semaphore: &CpuConcurrencySemaphore, bodies: &Arc<Bodies>, brings: Option<&Arc<News>>) -> JoinHandle<()> {
    let (semaphore, bodies, news) = (semaphore.clone(), bodies.clone(), brings.cloned());
    spawn(move || {
        let holding = semaphore.acquire().hold();
        bodies.step();
        if let Some(news) = news {
            news.bring();
        }
        bodies.step();
        drop(holding);
    })
}

/// A body that sleeps until another body has brought something, beside a third: the others get its permit, and it goes on with one.
#[test]
fn a_body_that_sleeps_lends_its_permit_and_goes_on_with_one() {
    check(|| {
        let (semaphore, bodies) = (CpuConcurrencySemaphore::new(1), Arc::new(Bodies(UnsafeCell::new(0))));
        let ((news, parker), holding) = (News::here(), semaphore.acquire().hold());
        let others = [other(&semaphore, &bodies, Some(&news)), other(&semaphore, &bodies, None)];
        bodies.step();
        let lent = lend();
        news.sleep(&parker);
        drop(lent);
        bodies.step();
        drop(holding);
        others.into_iter().for_each(|other| other.join().unwrap());
        // SAFETY: the others have ended.
        assert_eq!(bodies.0.with(|steps| unsafe { *steps }), 6, "what one did is lost");
        assert_eq!((semaphore.available(), semaphore.waiting()), (1, 0), "a permit is lost");
    });
}

/// A body has lent its permit and must not sleep for one, where others come and go: it goes on with it or without it, and gives back
/// just what it has. Under shuttle alone: loom does not see that who drops the last reference to the place in line comes after the
/// others.
#[cfg(shardrun_shuttle)]
#[test]
fn a_body_that_must_not_sleep_goes_on_and_no_permit_is_lost() {
    check(|| {
        let semaphore = CpuConcurrencySemaphore::new(1);
        let others = [(); 2].map(|()| {
            let semaphore = semaphore.clone();
            spawn(move || drop(semaphore.acquire()))
        });
        if semaphore.take_again(|_| false) {
            drop(semaphore.permit());
        }
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!((semaphore.available(), semaphore.waiting()), (1, 0), "a permit is lost, or one too many is there");
    });
}

/// Two bodies that each hold permits of two semaphores, and have taken them in opposite order: both get theirs back.
#[test]
fn two_bodies_that_take_two_permits_back_do_not_wait_for_each_other() {
    check(|| {
        let mut both = [CpuConcurrencySemaphore::new(1), CpuConcurrencySemaphore::new(1)];
        // In every execution the same is first, else no replay would be like the one before.
        both.sort_by_key(CpuConcurrencySemaphore::address);
        let running = Arc::new(AtomicU64::new(0));
        let goes_on = |running: &AtomicU64| {
            assert_eq!(running.fetch_add(1, Ordering::AcqRel), 0, "two bodies at once");
            running.fetch_sub(1, Ordering::AcqRel);
        };
        let (news, parker) = News::here();
        let holding = [&both[0], &both[1]].map(|semaphore| semaphore.acquire().hold());
        let lent = lend();
        let other = {
            let (both, running, news) = (both.clone(), running.clone(), news.clone());
            spawn(move || {
                let free = "the first has lent them";
                let holding = [&both[1], &both[0]].map(|semaphore| semaphore.try_acquire().expect(free).hold());
                let lent = lend();
                news.bring();
                drop(lent);
                goes_on(&running);
                drop(holding);
            })
        };
        news.sleep(&parker);
        drop(lent);
        goes_on(&running);
        drop(holding);
        other.join().unwrap();
        assert_eq!(both.map(|semaphore| semaphore.available()), [1, 1], "a permit is lost");
    });
}
