//! Source roots: what a root shows never changes, what it can see is kept, and what no root sees any more is let go.

use super::check;
use crate::stages::{
    Clock, Held, Leases, Link, Member, Movable, Replaced, Retired, Sequencer, Stamp, Unshared, Version, Versions,
    advance,
};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::epoch::pin;
use crate::sync::stat::{AtomicU64 as StatU64, Ordering as StatOrdering};
use crate::sync::{Arc, thread};

struct Revision {
    link: Link<Revision>,
    generation: u64,
    /// How often it was taken out of the chain.
    cut: StatU64,
}

impl Version for Revision {
    fn link(&self) -> &Link<Self> {
        &self.link
    }
}

impl Revision {
    fn of(link: Link<Self>, generation: u64) -> Self {
        Self { link, generation, cut: StatU64::new(0) }
    }

    fn note_cut(&self) {
        assert_eq!(self.cut.fetch_add(1, StatOrdering::Relaxed), 0, "let go twice");
    }
}

struct World {
    clock: Clock,
    sequencer: Sequencer,
    leases: Leases<Kept>,
    file: Arc<Versions<Revision>>,
}

/// What is kept for roots.
struct Kept {
    file: Arc<Versions<Revision>>,
    revision: Arc<Revision>,
    span: (u64, u64),
}

impl Held for Kept {
    fn span(&self) -> (u64, u64) {
        self.span
    }
}

fn sweep(file: &Versions<Revision>) {
    for Retired(gone) in file.sweep(&pin()) {
        gone.note_cut();
        // A pinned reader may look at it still: the model keeps it.
        std::mem::forget(gone);
    }
}

fn cut(unseen: Vec<Kept>) {
    for Kept { file, revision, .. } in unseen {
        Versions::let_die(&*revision);
        sweep(&file);
        std::mem::forget(revision);
    }
}

struct File<'a>(&'a World, Option<Replaced<Revision>>);

impl Movable<Revision> for File<'_> {
    fn versions(&self) -> &Versions<Revision> {
        &self.0.file
    }

    fn prepare(&mut self, old: &Revision, fresh: &mut Revision) -> bool {
        fresh.generation = old.generation + 1;
        true
    }

    fn replaced(&mut self, old: Replaced<Revision>, _: &Revision) {
        self.1 = Some(old);
    }

    fn is_watched(&self) -> bool {
        self.0.leases.live() > 0
    }
}

impl World {
    fn new() -> Arc<Self> {
        let first = Arc::new(Revision::of(Link::first(), 1));
        Arc::new(Self {
            clock: Clock::new(0),
            sequencer: Sequencer::new(),
            leases: Leases::new(),
            file: Arc::new(Versions::with(first)),
        })
    }

    fn edit(&self) {
        let fresh = Unshared::new(Revision::of(Link::installing(), 0));
        let mut members = [Member::new(File(self, None), fresh, None)];
        let shared = advance((&self.sequencer, &self.clock), &mut members, &pin());
        assert!(shared.is_none());
        match members[0].file.1.take().unwrap() {
            Replaced::Gone(Retired(gone), is_dead) => {
                gone.note_cut();
                std::mem::forget(gone);
                if is_dead {
                    sweep(&self.file);
                }
            }
            Replaced::Kept(revision, span) => {
                if let Some(span) = span {
                    let mut unseen = Vec::new();
                    self.leases.hold(Kept { file: self.file.clone(), revision, span }, &mut unseen);
                    cut(unseen);
                } else {
                    std::mem::forget(revision);
                }
                sweep(&self.file);
            }
        }
    }

    fn retry(&self) {
        let guard = pin();
        let ended = self.file.visible(&self.clock, &guard).unwrap();
        let fresh = Arc::new(Revision::of(Link::installing(), ended.generation));
        match self.file.swing(&ended, fresh, &self.clock, &guard) {
            Ok(Some(Retired(gone))) => {
                gone.note_cut();
                std::mem::forget(gone);
            }
            Ok(None) => sweep(&self.file),
            Err(lost) => std::mem::forget(lost),
        }
    }

    /// Captures a root, looks twice, and drops it.
    fn look(&self) -> u64 {
        let mut unseen = Vec::new();
        let (place, at) = self.leases.capture(&self.clock, &mut unseen).unwrap();
        cut(unseen);
        let look = || {
            let guard = pin();
            let seen = self.file.seen_at(at, &self.clock, &guard);
            seen.map(|seen| seen.generation).expect("what a root sees was cut out")
        };
        let seen = look();
        assert_eq!(look(), seen, "the root has changed");
        let mut unseen = Vec::new();
        self.leases.release(place, &mut unseen);
        cut(unseen);
        seen
    }

    /// Nobody is at it any more: nothing is kept.
    fn assert_bare(&self) {
        assert_eq!((self.leases.live(), self.leases.kept()), (0, 0));
        assert!(self.file.is_bare(&pin()), "something hangs in the chain, and no root is left");
    }
}

fn spawn<T: 'static>(world: &Arc<World>, f: impl FnOnce(&World) -> T + 'static) -> thread::JoinHandle<T> {
    let world = world.clone();
    thread::spawn(move || f(&world))
}

/// A root that is captured while a file moves on twice finds its version as long as it looks, and when all roots are gone
/// nothing is kept.
#[test]
fn what_a_root_sees_is_kept_and_nothing_else() {
    check(|| {
        let world = World::new();
        let root = spawn(&world, World::look);
        world.edit();
        world.edit();
        root.join().unwrap();
        world.assert_bare();
    });
}

/// The same with two roots and one edit. Longer than the others: to be asked for.
#[test]
#[ignore = "runs for minutes"]
fn two_roots_and_an_edit() {
    check(|| {
        let world = World::new();
        let roots = [(); 2].map(|()| spawn(&world, World::look));
        world.edit();
        roots.map(|root| root.join().unwrap());
        world.assert_bare();
    });
}

/// Two editors and a root: what each of them replaces is kept and let go though the other is not through yet.
#[test]
fn two_edits_at_once_and_a_root() {
    check(|| {
        let world = World::new();
        let root = spawn(&world, World::look);
        let other = spawn(&world, World::edit);
        world.edit();
        root.join().unwrap();
        other.join().unwrap();
        world.assert_bare();
    });
}

/// A retry swings the head over a revision whose transition is not through yet: the two ends of the chain are joined.
#[test]
fn a_retry_beside_the_end_of_a_transition() {
    check(|| {
        let world = World::new();
        let retry = spawn(&world, World::retry);
        let root = spawn(&world, World::look);
        world.edit();
        retry.join().unwrap();
        root.join().unwrap();
        world.assert_bare();
    });
}

/// Of two threads that let neighbours in a chain die, one cuts both out.
#[test]
fn two_sweepers_of_one_chain() {
    check(|| {
        let world = World::new();
        let mut unseen = Vec::new();
        // Two roots that each see another version.
        let roots = [(); 2].map(|()| {
            let root = world.leases.capture(&world.clock, &mut unseen).unwrap();
            world.edit();
            root
        });
        assert_eq!(world.leases.kept(), 2);
        let [one, two] = roots.map(|(place, _)| {
            spawn(&world, move |world| {
                let mut unseen = Vec::new();
                world.leases.release(place, &mut unseen);
                cut(unseen);
            })
        });
        one.join().unwrap();
        two.join().unwrap();
        world.assert_bare();
    });
}

struct Entry(Arc<StatU64>);

impl Held for Entry {
    fn span(&self) -> (u64, u64) {
        (0, u64::MAX)
    }
}

/// What is hung up at a lease that is given back meanwhile goes to another that sees it, and is let go once.
#[test]
fn what_is_held_is_let_go_with_the_last_that_sees_it() {
    check(|| {
        let clock = Clock::new(0);
        let leases = Arc::new(Leases::<Entry>::new());
        let let_go = Arc::new(StatU64::new(0));
        let none = &mut Vec::new();
        let places = [(); 2].map(|()| leases.capture(&clock, none).unwrap().0);
        let droppers = places.map(|place| {
            let leases = leases.clone();
            thread::spawn(move || {
                let mut unseen = Vec::new();
                leases.release(place, &mut unseen);
                unseen.into_iter().for_each(|Entry(count)| _ = count.fetch_add(1, StatOrdering::Relaxed));
            })
        });
        let mut unseen = Vec::new();
        leases.hold(Entry(let_go.clone()), &mut unseen);
        unseen.into_iter().for_each(|Entry(count)| _ = count.fetch_add(1, StatOrdering::Relaxed));
        droppers.map(|dropper| dropper.join().unwrap());
        assert_eq!((let_go.load(StatOrdering::Relaxed), leases.kept()), (1, 0));
    });
}

/// A source that is published beside two captures: each root's answer never changes, the two agree on the order, and a root that is
/// captured after the publication was seen shows it.
#[test]
fn a_publication_and_two_roots() {
    check(|| {
        struct Source {
            clock: Clock,
            done: AtomicU64,
            stamp: Stamp,
        }
        impl Source {
            fn is_shown(&self, at: u64) -> bool {
                self.done.load(Ordering::Acquire) == 1 && self.stamp.resolve_done(&self.clock) <= at
            }
        }
        let source = Arc::new(Source { clock: Clock::new(0), done: AtomicU64::new(0), stamp: Stamp::installing() });
        let roots = [(); 2].map(|()| {
            let source = source.clone();
            thread::spawn(move || {
                let seen = source.done.load(Ordering::Acquire) == 1 && source.stamp.resolve_done(&source.clock) > 0;
                let at = source.clock.capture().unwrap();
                let first = source.is_shown(at);
                assert_eq!(source.is_shown(at), first, "the root has changed");
                assert!(first || !seen, "what was published before the capture is not shown");
                (at, first)
            })
        });
        source.done.swap(1, Ordering::AcqRel);
        source.stamp.resolve_done(&source.clock);
        let mut roots = roots.map(|root| root.join().unwrap());
        roots.sort();
        assert!(roots[0].1 <= roots[1].1, "a later root shows less");
    });
}
