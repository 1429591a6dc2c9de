//! Models of the sealable list: once, in order, never late; dead entries unlinked while others push, tidy up and seal.

#![cfg(any(shardrun_loom, shardrun_shuttle))]

use super::check;
use crate::flight::{Link, Linked, SealableList};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::thread::spawn;

struct Entry {
    link: Link<Entry>,
    name: u64,
    dead: AtomicBool,
    told: AtomicU64,
    given_back: AtomicU64,
    /// The list's reference is gone and nobody may come here any more.
    gone: AtomicBool,
}

impl Linked for Entry {
    fn link(&self) -> &Link<Self> {
        &self.link
    }

    fn is_dead(&self) -> bool {
        assert!(!self.gone.load(Ordering::Relaxed), "walked over an entry that was freed");
        self.dead.load(Ordering::Acquire)
    }

    fn given_back(&self) {
        assert_eq!(self.given_back.fetch_add(1, Ordering::AcqRel), 0, "given back twice");
    }
}

fn entry(name: u64) -> Arc<Entry> {
    Arc::new(Entry {
        link: Link::new(),
        name,
        dead: AtomicBool::new(false),
        told: AtomicU64::new(0),
        given_back: AtomicU64::new(0),
        gone: AtomicBool::new(false),
    })
}

/// Seals and tells everyone. Returns the names, in the order told.
fn seal(list: &SealableList<Entry>) -> Vec<u64> {
    let sealed = list.seal();
    let shared = sealed.is_shared();
    let mut names = Vec::new();
    sealed.deliver(|entry| {
        entry.told.fetch_add(1, Ordering::AcqRel);
        names.push(entry.name);
        if !shared {
            // The list's reference is given back without the epoch: from now on the entry could be freed at any time.
            entry.gone.swap(true, Ordering::Relaxed);
        }
    });
    names
}

/// Each entry is told exactly once or refused, and in the order of registration, however two pushers and two sealers meet.
#[test]
fn two_pushers_two_sealers() {
    check(|| {
        let list = Arc::new(SealableList::new());
        let entries: Arc<Vec<_>> = Arc::new((0..3).map(entry).collect());
        list.push(entries[0].clone()).ok().expect("open");
        let pusher = |at: usize| {
            let (list, entries) = (list.clone(), entries.clone());
            spawn(move || list.push(entries[at].clone()).is_ok())
        };
        let (one, two) = (pusher(1), pusher(2));
        let sealer = spawn({
            let list = list.clone();
            move || seal(&list)
        });
        let here = seal(&list);
        let (one, two, there) = (one.join().unwrap(), two.join().unwrap(), sealer.join().unwrap());
        assert!(here.is_empty() || there.is_empty(), "one sealer wins");
        let told = if here.is_empty() { there } else { here };
        assert_eq!(told[0], 0, "oldest first");
        for (name, pushed) in [(1, one), (2, two)] {
            assert_eq!(told.contains(&name), pushed, "told exactly if it was hung in");
        }
        assert!(entries.iter().all(|entry| entry.told.load(Ordering::Acquire) <= 1));
        assert!(list.is_sealed());
    });
}

/// Who is refused sees what the sealer published before it sealed.
#[test]
fn a_refused_push_sees_the_outcome() {
    check(|| {
        let list = Arc::new(SealableList::new());
        let outcome = Arc::new(AtomicU64::new(0));
        let pusher = || {
            let (list, outcome) = (list.clone(), outcome.clone());
            spawn(move || {
                if list.push(entry(1)).is_err() {
                    assert_eq!(outcome.load(Ordering::Relaxed), 7);
                }
            })
        };
        let pushers = [pusher(), pusher()];
        outcome.fetch_add(7, Ordering::Relaxed);
        seal(&list);
        for pusher in pushers {
            pusher.join().unwrap();
        }
    });
}

/// The living are told once and in order, and nobody walks over what was freed, while two tidiers and a sealer are at work.
#[test]
fn two_tidiers_and_a_sealer() {
    check(|| {
        let list = Arc::new(SealableList::tidied_at(1));
        let entries: Arc<Vec<_>> = Arc::new((0..5).map(entry).collect());
        for entry in entries.iter() {
            list.push(entry.clone()).ok().expect("open");
        }
        let tidier = |at: usize| {
            let (list, entries) = (list.clone(), entries.clone());
            spawn(move || {
                entries[at].dead.swap(true, Ordering::AcqRel);
                list.note_dead();
            })
        };
        // Neighbours, so that tidiers that do not exclude each other leave one reachable.
        let (one, two) = (tidier(1), tidier(2));
        let told = seal(&list);
        one.join().unwrap();
        two.join().unwrap();
        let living: Vec<_> = told.into_iter().filter(|name| ![1, 2].contains(name)).collect();
        assert_eq!(living, [0, 3, 4]);
        for entry in entries.iter() {
            assert!(entry.told.load(Ordering::Acquire) <= 1, "told twice");
            assert_eq!(entry.given_back.load(Ordering::Acquire), 1, "each reference is given back");
        }
    });
}

/// What two tidiers have unlinked is not reachable any more, and each reference is given back once.
#[test]
fn two_tidiers_leave_nothing_dead_reachable() {
    check(|| {
        let list = Arc::new(SealableList::tidied_at(1));
        let entries: Arc<Vec<_>> = Arc::new((0..4).map(entry).collect());
        for entry in entries.iter() {
            list.push(entry.clone()).ok().expect("open");
        }
        let tidier = |at: usize| {
            let (list, entries) = (list.clone(), entries.clone());
            spawn(move || {
                entries[at].dead.swap(true, Ordering::AcqRel);
                list.note_dead();
            })
        };
        let (one, two) = (tidier(1), tidier(2));
        one.join().unwrap();
        two.join().unwrap();
        let retired: Vec<_> = entries.iter().filter(|entry| entry.link.is_retired()).map(|entry| entry.name).collect();
        let reachable = list.names(|entry| entry.name);
        for name in retired {
            assert!(!reachable.contains(&name), "a retired entry is reachable");
        }
        assert!(reachable.contains(&0) && reachable.contains(&3), "the living stay");
    });
}
