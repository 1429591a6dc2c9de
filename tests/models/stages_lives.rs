//! Lives of files: a removed file comes back in a slot that can be found, and nothing lives on in a world that was left.

use super::check;
use crate::stages::{
    Clock, Entry, Link, Member, Movable, Place, Replaced, Retired, Sequencer, Unshared, Version, Versions, Worlds,
};
use crate::stages::{add, advance, close, take_out};
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::sync::epoch::{Guard, pin};
use crate::sync::{Arc, thread};

const PENDING: u64 = 0;
const SHUT_DOWN: u64 = 1;

/// A revision whose flight is one word.
struct Revision {
    link: Link<Revision>,
    absent: bool,
    flight: AtomicU64,
}

impl Version for Revision {
    fn link(&self) -> &Link<Self> {
        &self.link
    }
}

impl Revision {
    fn of(link: Link<Self>, absent: bool) -> Self {
        Self { link, absent, flight: AtomicU64::new(PENDING) }
    }

    fn live() -> Arc<Self> {
        Arc::new(Self::of(Link::first(), false))
    }

    fn end(&self) {
        let _ = self.flight.compare_exchange(PENDING, SHUT_DOWN, Ordering::AcqRel, Ordering::Acquire);
    }

    fn is_over(&self) -> bool {
        self.flight.load(Ordering::Acquire) != PENDING
    }
}

/// A slot of the one name that there is.
struct Slot(Versions<Revision>);

/// The place of the one hash that there is.
struct At(AtomicPtr<()>);

impl At {
    fn empty() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }
}

impl Place<Slot> for At {
    fn load(&self) -> Option<Entry<Slot>> {
        Entry::of_raw(self.0.load(Ordering::Acquire))
    }

    fn exchange(&self, old: Option<Entry<Slot>>, new: Option<Entry<Slot>>) -> bool {
        self.0.compare_exchange(Entry::raw(old), Entry::raw(new), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

struct World {
    clock: Clock,
    sequencer: Sequencer,
    at: At,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self { clock: Clock::new(0), sequencer: Sequencer::new(), at: At::empty() })
    }

    fn look(&self, pinned: &Guard) -> Option<Arc<Slot>> {
        let slot = self.at.load()?.slots(pinned).next()?;
        Some(Arc::clone(&slot))
    }

    fn has_ended(&self, slot: &Slot, pinned: &Guard) -> bool {
        slot.0.visible(&self.clock, pinned).is_some_and(|seen| seen.absent)
    }

    /// Makes a slot with its first revision, or finds the live one. The slot, and the revision if it was made.
    fn make(&self, pinned: &Guard) -> Result<(Arc<Slot>, Arc<Revision>), Arc<Slot>> {
        let first = Revision::live();
        let slot = Arc::new(Slot(Versions::with(first.clone())));
        let taken = add(&self.at, &slot, |_| true, |other| self.has_ended(other, pinned), pinned)?;
        // Readers may look at it still: the model keeps it, the engine waits for their pins.
        std::mem::forget(taken);
        Ok((slot, first))
    }

    /// A request: the revision that it joined, and its slot.
    fn ask(&self) -> (Arc<Slot>, Arc<Revision>) {
        loop {
            let pinned = pin();
            let live = self.look(&pinned).filter(|slot| !self.has_ended(slot, &pinned));
            let slot = match live.map_or_else(|| self.make(&pinned), Err) {
                Ok(made) => return made,
                Err(slot) => slot,
            };
            let seen = slot.0.visible(&self.clock, &pinned).expect("a slot is made with its first revision").share();
            if !seen.absent {
                return (slot, seen);
            }
            // Overtaken by the end of its life: the engine answers it here. The model asks again.
        }
    }

    fn remove(&self) -> bool {
        let pinned = pin();
        let Some(slot) = self.look(&pinned) else { return false };
        let mark = Unshared::new(Revision::of(Link::installing(), true));
        let mut members = [Member::new(File(&slot), mark, None)];
        std::mem::forget(advance((&self.sequencer, &self.clock), &mut members, &pinned));
        let removed = members[0].installed.is_some();
        if removed {
            std::mem::forget(take_out(&self.at, &slot, &pinned));
        }
        // The slot is kept until the pins of this time have ended.
        drop(members);
        std::mem::forget(slot);
        removed
    }
}

struct File<'a>(&'a Slot);

impl Movable<Revision> for File<'_> {
    fn versions(&self) -> &Versions<Revision> {
        &self.0.0
    }

    fn prepare(&mut self, old: &Revision, _: &mut Revision) -> bool {
        !old.absent
    }

    fn replaced(&mut self, old: Replaced<Revision>, _: &Revision) {
        old.revision().end();
        std::mem::forget(old);
    }

    fn is_watched(&self) -> bool {
        false
    }
}

fn spawn<T: Send + 'static>(world: &Arc<World>, f: impl FnOnce(&World) -> T + Send + 'static) -> thread::JoinHandle<T> {
    let world = world.clone();
    thread::spawn(move || f(&world))
}

/// Whatever a request has joined is over, or lives in the slot that a look finds.
fn is_answered_or_reachable(world: &World, (slot, revision): (Arc<Slot>, Arc<Revision>)) {
    let pinned = pin();
    let found = world.look(&pinned).is_some_and(|found| Arc::ptr_eq(&found, &slot));
    let lives = found && slot.0.is_current(&revision, &world.clock);
    assert!(lives || revision.is_over(), "a request waits in a slot that nobody finds");
    std::mem::forget((slot, revision));
}

/// Of two removers of one life one succeeds, and a request that comes meanwhile is shut down or stands in a slot that is found.
#[test]
fn two_removers_and_a_request() {
    check(|| {
        let world = World::new();
        drop(world.make(&pin()));
        let removers = [(); 2].map(|()| spawn(&world, World::remove));
        let asked = world.ask();
        let removed = removers.map(|remover| remover.join().unwrap()).into_iter().filter(|removed| *removed).count();
        assert!(removed >= 1, "nobody removed it");
        is_answered_or_reachable(&world, asked);
        let left = world.look(&pin()).is_some();
        assert!(!left || removed == 1, "two lives were removed, and there were two");
    });
}

/// Two requests that come as a file is removed stand in one slot or are shut down; a remover takes out none but its own.
#[test]
fn a_remover_and_two_requests() {
    check(|| {
        let world = World::new();
        drop(world.make(&pin()));
        let asking = [(); 2].map(|()| spawn(&world, World::ask));
        assert!(world.remove(), "nobody else removes it");
        for asked in asking {
            is_answered_or_reachable(&world, asked.join().unwrap());
        }
        assert!(world.look(&pin()).is_none_or(|slot| !world.has_ended(&slot, &pin())), "an ended slot was left behind");
    });
}

/// The files of one world, each in a place of its own.
struct Files([At; 2]);

/// Every file that was added to a world is ended once that world has been left.
#[test]
fn two_add_files_to_a_world_that_is_left() {
    check(|| {
        let world = || Files([At::empty(), At::empty()]);
        let worlds = Arc::new(Worlds::new(world()));
        let adders = [0, 1].map(|file| {
            let worlds = worlds.clone();
            thread::spawn(move || {
                let pinned = pin();
                let world = worlds.now(&pinned);
                let first = Revision::live();
                let slot = Arc::new(Slot(Versions::with(first.clone())));
                std::mem::forget(add(&world.0[file], &slot, |_| true, |_| false, &pinned).ok());
                if !worlds.is_still(world) {
                    first.end();
                }
                std::mem::forget(slot);
                (std::ptr::from_ref(world) as usize, first)
            })
        });
        let pinned = pin();
        let left = worlds.leave(Arc::new(world()));
        for at in &left.0 {
            for slot in at.load().into_iter().flat_map(|entry| entry.slots(&pinned)) {
                slot.0.head(&pinned).unwrap().end();
            }
        }
        let now = std::ptr::from_ref(worlds.now(&pinned)) as usize;
        for adder in adders {
            let (world, first) = adder.join().unwrap();
            assert!(world == now || first.is_over(), "a file lives on in a world that was left");
            std::mem::forget(first);
        }
        std::mem::forget(left);
    });
}

/// What a retry or a first request puts into a slot while its world is left is ended, or is refused.
#[test]
fn a_slot_that_is_closed_beside_retries_and_first_requests() {
    for empty in [false, true] {
        check(move || {
            let first = (!empty).then(Revision::live);
            let slot = Arc::new((Clock::new(0), first.clone().map_or_else(Versions::empty, Versions::with)));
            let put = |creates: bool| {
                let slot = slot.clone();
                thread::spawn(move || {
                    let pinned = pin();
                    let (clock, versions) = &*slot;
                    let fresh = Arc::new(Revision::of(Link::installing(), false));
                    let seen = if creates { None } else { versions.visible(clock, &pinned) };
                    let put = match seen {
                        None => {
                            let first = Revision::live();
                            versions.create(first.clone()).map(|()| first)
                        }
                        Some(seen) if seen.absent => return None,
                        Some(seen) => versions.swing(&seen, fresh.clone(), clock, &pinned).map(|old| {
                            // Who tries again has found it over.
                            seen.end();
                            match old {
                                Some(Retired(old)) => std::mem::forget(old),
                                None => std::mem::forget(versions.sweep(&pinned)),
                            }
                            fresh
                        }),
                    };
                    match put {
                        Ok(fresh) => Some(fresh),
                        Err(lost) => {
                            std::mem::forget(lost);
                            None
                        }
                    }
                })
            };
            let putting = [put(empty), put(false)];
            let last = Arc::new(Revision::of(Link::committing(), true));
            if let Some(last) = close((&slot.1, &slot.0), last.clone(), |seen| seen.absent, |_| {}) {
                let old = Versions::finish(&*last, &slot.0, || false);
                old.revision().end();
                std::mem::forget(old);
                std::mem::forget(slot.1.sweep(&pin()));
            }
            let put = putting.map(|putting| putting.join().unwrap());
            assert!(slot.1.is_current(&last, &slot.0), "something was put over the last revision");
            assert!(
                put.iter().flatten().chain(&first).all(|revision| revision.is_over()),
                "a revision was left behind"
            );
            std::mem::forget((last, put, first));
        });
    }
}
