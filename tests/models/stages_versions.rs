//! Versioned publication: a transition of many files is invisible until one write, and nothing old ends before it.

use super::check;
use crate::stages::{
    Clock, Link, Member, Movable, Replaced, Sequencer, Stamp, Transition, Unshared, Version, Versions,
};
use crate::stages::{advance, commit, has_moved_on, may_seal};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::epoch::{Guard, pin};
use crate::sync::stat::{AtomicU64 as StatU64, Ordering as StatOrdering};
use crate::sync::{Arc, thread};

const PENDING: u64 = 0;
const DONE: u64 = 1;
const SUPERSEDED: u64 = 2;

/// A revision whose flight is one word.
struct Revision {
    link: Link<Revision>,
    generation: StatU64,
    flight: AtomicU64,
}

impl Version for Revision {
    fn link(&self) -> &Link<Self> {
        &self.link
    }
}

impl Revision {
    fn new(link: Link<Self>, generation: u64) -> Arc<Self> {
        Arc::new(Self::of(link, generation))
    }

    fn of(link: Link<Self>, generation: u64) -> Self {
        Self { link, generation: StatU64::new(generation), flight: AtomicU64::new(PENDING) }
    }

    fn first() -> Versions<Self> {
        Versions::with(Self::new(Link::first(), 1))
    }

    fn generation(&self) -> u64 {
        self.generation.load(StatOrdering::Relaxed)
    }

    fn end(&self, how: u64) -> u64 {
        self.flight.compare_exchange(PENDING, how, Ordering::AcqRel, Ordering::Acquire).map_or_else(|now| now, |_| how)
    }
}

struct World {
    clock: Clock,
    sequencer: Sequencer,
    files: Vec<Versions<Revision>>,
}

impl World {
    fn new(files: Vec<Versions<Revision>>) -> Arc<Self> {
        Arc::new(Self { clock: Clock::new(0), sequencer: Sequencer::new(), files })
    }

    fn of(files: usize) -> Arc<Self> {
        Self::new((0..files).map(|_| Revision::first()).collect())
    }

    fn generation(&self, file: usize, guard: &Guard) -> u64 {
        self.files[file].visible(&self.clock, guard).map_or(0, |revision| revision.generation())
    }

    /// An edit of `files` in one transition, in the order given. What it ended is ended after the commit.
    fn edit(&self, files: &[usize]) -> Vec<u64> {
        let guard = pin();
        let mut members: Vec<_> = files
            .iter()
            .map(|&file| {
                let stub = Revision::new(Link::first(), 0);
                Member::new(File(&self.files[file]), Unshared::new(Revision::of(Link::installing(), 0)), Some(stub))
            })
            .collect();
        std::mem::forget(advance((&self.sequencer, &self.clock), &mut members, &guard));
        members.iter().map(|member| member.installed.as_ref().unwrap().generation()).collect()
    }
}

struct File<'a>(&'a Versions<Revision>);

impl Movable<Revision> for File<'_> {
    fn versions(&self) -> &Versions<Revision> {
        self.0
    }

    fn prepare(&mut self, old: &Revision, fresh: &mut Revision) -> bool {
        *fresh.generation.get_mut() = old.generation() + 1;
        true
    }

    fn replaced(&mut self, old: Replaced<Revision>, _: &Revision) {
        old.revision().end(SUPERSEDED);
        // Pinned readers may look at it still: the model keeps it, the engine waits for their pins.
        std::mem::forget(old);
    }

    fn is_watched(&self) -> bool {
        false
    }
}

fn join<T>(threads: Vec<thread::JoinHandle<T>>) -> Vec<T> {
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

/// A reader that has seen one member of a batch sees every other, and a file that exists is never unknown.
#[test]
fn readers_see_all_of_a_batch_or_nothing() {
    check(|| {
        let world = World::of(2);
        let readers = [[0, 1], [1, 0]].map(|order| {
            let world = world.clone();
            thread::spawn(move || {
                let guard = pin();
                let seen = order.map(|file| world.generation(file, &guard));
                assert!(seen[0] >= 1 && seen[1] >= 1, "an existing file was unknown");
                assert!(seen[0] <= seen[1], "half a batch was seen");
            })
        });
        assert_eq!(world.edit(&[0, 1]), [2, 2]);
        join(readers.into());
    });
}

/// A request that has joined the new revision of one member finds no other member old, and none that it joins is ended before
/// the batch is visible.
#[test]
fn joiners_see_all_of_a_batch_or_nothing() {
    check(|| {
        let world = World::of(2);
        let joiners = [[0, 1], [1, 0]].map(|order| {
            let world = world.clone();
            thread::spawn(move || {
                let guard = pin();
                let first = world.files[order[0]].visible(&world.clock, &guard).unwrap();
                let second = world.files[order[1]].visible(&world.clock, &guard).unwrap();
                assert!(first.generation() <= second.generation(), "the request sees half a batch");
                if first.flight.load(Ordering::Acquire) == SUPERSEDED {
                    let now = world.generation(order[1], &guard);
                    assert_eq!(now, 2, "one member was ended while another was still old");
                }
            })
        });
        world.edit(&[0, 1]);
        join(joiners.into());
    });
}

/// Two batches with the same files in opposite order come one after the other, in the same order for each file.
#[test]
fn two_batches_have_one_order() {
    check(|| {
        let world = World::of(2);
        let other = {
            let world = world.clone();
            thread::spawn(move || world.edit(&[1, 0]))
        };
        let reader = {
            let world = world.clone();
            thread::spawn(move || {
                let guard = pin();
                assert!(world.generation(0, &guard) <= world.generation(1, &guard), "half a batch was seen");
            })
        };
        let mine = world.edit(&[0, 1]);
        let theirs = other.join().unwrap();
        reader.join().unwrap();
        assert_eq!(mine[0], mine[1]);
        assert_eq!(theirs[0], theirs[1]);
        assert_eq!(mine[0] + theirs[0], 5, "one made generation 2, the other 3");
    });
}

/// A creation without the section and a batch that moves the same file on never lose the batch's revision.
#[test]
fn a_creation_never_loses_the_batch() {
    check(|| {
        let world = World::new(vec![Versions::empty(), Revision::first()]);
        let creators = [0, 0].map(|file| {
            let world = world.clone();
            thread::spawn(move || {
                let guard = pin();
                let created = world.files[file].create(Revision::new(Link::first(), 1));
                let made = created.is_ok();
                if let Err(lost) = created {
                    std::mem::forget(lost);
                }
                assert!(world.files[file].visible(&world.clock, &guard).is_some(), "the file was unknown");
                made
            })
        });
        let generations = world.edit(&[0, 1]);
        let created = join(creators.into()).into_iter().filter(|&made| made).count() as u64;
        let guard = pin();
        assert_eq!(generations[0], 1 + created, "the batch came after the creation, or on an empty slot");
        assert_eq!(world.generation(0, &guard), generations[0], "the batch's revision was lost");
    });
}

/// A retry without the section and a batch that moves the same file on: whatever leaves the slot is ended.
#[test]
fn a_retry_is_never_lost_under_a_batch() {
    check(|| {
        let world = World::of(2);
        let retries = [0, 1].map(|file| {
            let world = world.clone();
            thread::spawn(move || {
                let guard = pin();
                let slot = &world.files[file];
                let ended = slot.visible(&world.clock, &guard).unwrap();
                let fresh = Revision::new(Link::installing(), ended.generation());
                match slot.swing(&ended, fresh.clone(), &world.clock, &guard) {
                    Ok(old) => std::mem::forget(old),
                    Err(lost) => {
                        fresh.end(SUPERSEDED);
                        std::mem::forget(lost);
                    }
                }
                fresh
            })
        });
        world.edit(&[0, 1]);
        for (file, fresh) in join(retries.into()).into_iter().enumerate() {
            let ended = fresh.flight.load(Ordering::Acquire) == SUPERSEDED;
            let current = world.files[file].is_current(&fresh, &world.clock);
            assert!(ended != current, "a retry left the slot, and nobody ended it");
        }
    });
}

/// A worker that begins to seal after the commit is refused, nothing is ended before the commit, and who has seen the commit
/// finds the old flight ended.
#[test]
fn a_seal_after_the_commit_is_refused_and_a_poll_helps() {
    check(|| {
        let world = World::of(2);
        let guard = pin();
        let old = world.files[0].visible(&world.clock, &guard).map(|old| &raw const *old as usize).unwrap();
        // SAFETY: the model never frees a revision: `edit` forgets what it retires.
        let flight = move || unsafe { &*(old as *const Revision) };
        let worker = {
            let world = world.clone();
            thread::spawn(move || {
                let guard = pin();
                let late = world.generation(1, &guard) == 2;
                if may_seal(&world.files[0], flight(), &world.clock) {
                    assert!(!late, "what was superseded before the seal began was sealed");
                    flight().end(DONE);
                }
            })
        };
        let poller = {
            let world = world.clone();
            thread::spawn(move || {
                let guard = pin();
                let committed = world.generation(1, &guard) == 2;
                if has_moved_on(&world.files[0], flight(), &world.clock) {
                    flight().end(SUPERSEDED);
                }
                let state = flight().flight.load(Ordering::Acquire);
                assert!(!committed || state != PENDING, "the successor is visible and the old handle still waits");
                if state == SUPERSEDED {
                    assert_eq!(world.generation(1, &guard), 2, "ended while another member is old");
                }
            })
        };
        world.edit(&[0, 1]);
        worker.join().unwrap();
        poller.join().unwrap();
        assert_ne!(flight().flight.load(Ordering::Acquire), PENDING);
    });
}

/// A captured view never changes its answer: what commits after the capture bears a later stamp.
#[test]
fn a_captured_view_is_sealed() {
    check(|| {
        let world = World::of(2);
        let captures = [[0, 1], [1, 0]].map(|order| {
            let world = world.clone();
            thread::spawn(move || {
                let guard = pin();
                let at = world.clock.capture().unwrap();
                let first = order.map(|file| in_view(&world, file, at, &guard));
                let again = order.map(|file| in_view(&world, file, at, &guard));
                assert_eq!(first, again, "the view changed");
                assert_eq!(first[0], first[1], "the view shows half a batch");
            })
        });
        // The predecessors stay linked here, as captured views need them.
        let guard = pin();
        let shared = Transition::new();
        let fresh = [(); 2].map(|()| Unshared::new(Revision::of(Link::installing(), 2)));
        world.sequencer.run(2, || {
            let install = |(slot, fresh): (&Versions<Revision>, _)| {
                slot.install(slot.head(&guard).unwrap(), fresh, Some(&shared)).ok().expect("nobody else installs")
            };
            let fresh: Vec<_> = world.files.iter().zip(fresh).map(install).collect();
            commit(fresh.iter().map(|fresh| &**fresh), Some(&shared));
            ((), true)
        });
        join(captures.into());
        std::mem::forget(shared);
    });
}

fn in_view(world: &World, file: usize, at: u64, guard: &Guard) -> u64 {
    world.files[file].seen_at(at, &world.clock, guard).map_or(0, |revision| revision.generation())
}

impl World {
    /// An edit whose maker is stopped as soon as it is committed: it has helped nothing, and cut nothing off.
    fn link_and_commit(&self, file: usize) {
        let guard = pin();
        self.sequencer.run(1, || {
            let slot = &self.files[file];
            let old = slot.head(&guard).expect("the file has a revision");
            let mut fresh = Unshared::new(Revision::of(Link::installing(), 0));
            *fresh.get_mut().generation.get_mut() = old.generation() + 1;
            let fresh = slot.install(old, fresh, None).ok().expect("nobody else installs");
            commit(std::iter::once(&*fresh), None);
            ((), true)
        });
    }
}

/// Who has seen a version, also below one that waits to be committed, finds that or a newer one in a view that is captured then.
#[test]
fn what_was_seen_is_shown_by_a_view_that_is_captured_then() {
    check(|| {
        let world = World::of(1);
        let reader = {
            let world = world.clone();
            thread::spawn(move || {
                let guard = pin();
                let seen = world.generation(0, &guard);
                let at = world.clock.capture().unwrap();
                assert!(in_view(&world, 0, at, &guard) >= seen, "a view that was captured later shows less");
            })
        };
        let other = {
            let world = world.clone();
            thread::spawn(move || world.link_and_commit(0))
        };
        world.link_and_commit(0);
        reader.join().unwrap();
        other.join().unwrap();
    });
}

/// A revision with a Source, whose value is its generation.
struct Sourced {
    link: Link<Sourced>,
    publication: Stamp,
    generation: u64,
    done: AtomicU64,
}

impl Version for Sourced {
    fn link(&self) -> &Link<Self> {
        &self.link
    }
}

impl Sourced {
    fn first() -> Arc<Self> {
        Arc::new(Self { link: Link::first(), publication: Stamp::first(), generation: 1, done: AtomicU64::new(1) })
    }

    fn next() -> Unshared<Self> {
        let (link, publication) = (Link::installing(), Stamp::installing());
        Unshared::new(Self { link, publication, generation: 2, done: AtomicU64::new(0) })
    }

    fn source(&self) -> Option<u64> {
        (self.done.load(Ordering::Acquire) == 1).then_some(self.generation)
    }

    /// As a worker does.
    fn publish(&self, clock: &Clock) {
        self.done.swap(1, Ordering::AcqRel);
        self.publication.resolve_own_done(clock);
    }

    /// As `Slot::source`.
    fn look(file: &Versions<Self>, clock: &Clock, guard: &Guard) -> Option<u64> {
        let head = file.head(guard)?;
        head.publication.once_settled(|| head.source()).or_else(|| {
            let seen = file.visible(clock, guard)?;
            let source = seen.source()?;
            seen.publication.resolve_done(clock);
            Some(source)
        })
    }

    /// As `Revision::shown`.
    fn shown(file: &Versions<Self>, at: u64, clock: &Clock, guard: &Guard) -> Option<u64> {
        let seen = file.seen_at(at, clock, guard)?;
        let source = seen.source()?;
        (seen.publication.resolve_done(clock) <= at).then_some(source)
    }
}

/// Who is shown the Source of one member of a batch is shown no older one of another, and a view that is captured then shows both so.
#[test]
fn a_look_at_source_shows_all_of_a_batch_or_nothing() {
    check(|| {
        let files = [(); 2].map(|()| Versions::with(Sourced::first()));
        let world = Arc::new((Clock::new(0), Sequencer::new(), files));
        let worker = {
            let world = world.clone();
            thread::spawn(move || {
                let guard = pin();
                let (clock, _, files) = &*world;
                let seen = files[0].visible(clock, &guard).unwrap();
                if seen.generation == 2 {
                    seen.publish(clock);
                }
            })
        };
        let reader = {
            let world = world.clone();
            thread::spawn(move || {
                let guard = pin();
                let (clock, _, files) = &*world;
                if Sourced::look(&files[0], clock, &guard) == Some(2) {
                    let at = clock.capture().unwrap();
                    assert_eq!(
                        Sourced::look(&files[1], clock, &guard),
                        None,
                        "an older Source beside one of the batch"
                    );
                    let shown = [0, 1].map(|file| Sourced::shown(&files[file], at, clock, &guard));
                    assert_eq!(shown, [Some(2), None], "a view that was captured later shows less");
                }
            })
        };
        let guard = pin();
        let (_, sequencer, files) = &*world;
        let shared = Transition::new();
        let fresh = [(); 2].map(|()| Sourced::next());
        sequencer.run(2, || {
            let install = |(slot, fresh): (&Versions<Sourced>, _)| {
                slot.install(slot.head(&guard).unwrap(), fresh, Some(&shared)).ok().expect("nobody else installs")
            };
            let fresh: Vec<_> = files.iter().zip(fresh).map(install).collect();
            commit(fresh.iter().map(|fresh| &**fresh), Some(&shared));
            ((), true)
        });
        join(vec![worker, reader]);
        std::mem::forget(shared);
    });
}
