//! Submissions that are overtaken by the end of their file's life between the call and its effect: the name of a file is looked up
//! by the host's own code, which here ends the life of another at that very moment. And names that share a hash.

use shardrun::{
    Driver, Host, Moved, Pool, Removed, Request, Runtime, StageCx, StageError, StageHandle, StageValue, Stages,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::hash::{Hash, Hasher};

type Action = Box<dyn FnOnce()>;

thread_local! {
    /// What is done when the name 0 is hashed.
    static ACTIONS: RefCell<VecDeque<Action>> = const { RefCell::new(VecDeque::new()) };
}

/// A name whose lookup may do something, and whose hash is one of `HASHES`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name(u64);

const HASHES: u64 = 3;

impl Hash for Name {
    fn hash<S: Hasher>(&self, state: &mut S) {
        if self.0 == 0
            && let Some(action) = ACTIONS.with_borrow_mut(VecDeque::pop_front)
        {
            action();
        }
        state.write_u64(self.0 % HASHES);
    }
}

/// Text is a number; so is everything made of it.
struct Numbers;

impl Host for Numbers {
    type File = Name;
    type Text = u64;
    type Source = u64;
    type Analysis = u64;
    type Artifact = u64;
    type Profile = u8;
    type Error = Infallible;

    fn load(&self, file: &Name) -> Result<Option<u64>, Infallible> {
        Ok(Some(file.0))
    }

    fn source(&self, _: &StageCx<'_, Self>, text: u64) -> Result<u64, Infallible> {
        Ok(text)
    }

    fn analysis(&self, _: &StageCx<'_, Self>, source: &u64) -> Result<u64, Infallible> {
        Ok(*source)
    }

    fn artifact(&self, _: &StageCx<'_, Self>, _: &u8, _: &u64, analysis: &u64) -> Result<u64, Infallible> {
        Ok(*analysis)
    }

    fn source_pool(&self) -> Pool {
        Pool::Workers
    }
}

fn world() -> (Runtime, Stages<Numbers>) {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let stages = Stages::builder(&runtime, Numbers).seed(1).build();
    (runtime, stages)
}

/// Submits an edit of file 1 that is overtaken by `meanwhile` before it takes effect.
fn overtaken(
    stages: &Stages<Numbers>,
    meanwhile: impl FnOnce(&Stages<Numbers>) + 'static,
) -> Vec<StageHandle<Numbers>> {
    let inner = stages.clone();
    ACTIONS.with_borrow_mut(|actions| actions.push_back(Box::new(move || meanwhile(&inner))));
    let batch = stages.submit_batch_atomic([Request::source(Name(1)).text(7), Request::source(Name(0)).text(8)]);
    ACTIONS.with_borrow(|actions| assert!(actions.is_empty(), "it was overtaken"));
    batch.into_handles()
}

fn value(handle: StageHandle<Numbers>) -> Result<u64, StageError<Numbers>> {
    handle.wait().map(|value| match value {
        StageValue::Source(value) | StageValue::Analysis(value) | StageValue::Artifact(value) => *value,
    })
}

#[test]
fn s38_an_edit_that_is_overtaken_by_the_removal_of_its_file_ends_shut_down_and_makes_nothing() {
    let (_runtime, stages) = world();
    stages.submit_request(Request::source(Name(1))).wait().unwrap();
    let mut handles = overtaken(&stages, |stages| assert_eq!(stages.remove(&Name(1)), Removed::Gone)).into_iter();
    assert!(matches!(value(handles.next().unwrap()), Err(StageError::Shutdown)));
    assert_eq!(value(handles.next().unwrap()).unwrap(), 8, "the others are as asked for");
    assert!(!stages.has_file(&Name(1)));
    assert_eq!((stages.len(), stages.counters().overlaid), (1, 1));
}

#[test]
fn an_edit_that_is_overtaken_by_another_life_of_its_file_ends_superseded_and_leaves_that_alone() {
    let (_runtime, stages) = world();
    stages.submit_request(Request::source(Name(1))).wait().unwrap();
    let mut handles = overtaken(&stages, |stages| {
        assert_eq!(stages.remove(&Name(1)), Removed::Gone);
        assert_eq!(stages.set_text(Name(1), 5), Moved::On);
    })
    .into_iter();
    assert!(matches!(value(handles.next().unwrap()), Err(StageError::Superseded)));
    assert_eq!(value(handles.next().unwrap()).unwrap(), 8);
    assert_eq!((stages.generation(&Name(1)), stages.overlay(&Name(1)).as_deref()), (Some(1), Some(&5)));
}

#[test]
fn an_edit_that_is_overtaken_by_a_re_home_reaches_its_file() {
    let (_runtime, stages) = world();
    stages.submit_request(Request::source(Name(1))).wait().unwrap();
    let mut handles = overtaken(&stages, |stages| assert_eq!(stages.rehome(&Name(1)), Moved::On)).into_iter();
    assert_eq!(value(handles.next().unwrap()).unwrap(), 7);
    assert_eq!((value(handles.next().unwrap()).unwrap(), stages.generation(&Name(1))), (8, Some(3)));
}

#[test]
fn an_invalidation_that_is_overtaken_by_the_removal_of_its_file_makes_nothing() {
    for closes in [false, true] {
        let (_runtime, stages) = world();
        stages.submit_request(Request::source(Name(0))).wait().unwrap();
        let inner = stages.clone();
        let removes = move || assert_eq!(inner.remove(&Name(0)), Removed::Gone);
        ACTIONS.with_borrow_mut(|actions| actions.push_back(Box::new(removes)));
        let moved = if closes { stages.close_file(&Name(0)) } else { stages.invalidate(&Name(0)) };
        assert!(matches!(moved, Moved::Unknown | Moved::Ended), "{moved:?}");
        assert!(stages.is_empty());
    }
}

#[test]
fn a_batch_that_is_overtaken_by_a_reset_brings_none_of_what_it_had_found_into_the_new_world() {
    for (stops, opens) in [(false, true), (true, false), (true, true)] {
        let (_runtime, stages) = world();
        stages.submit_request(Request::source(Name(1))).wait().unwrap();
        let handles = overtaken(&stages, move |stages| {
            assert_eq!(if stops { stages.stop() } else { stages.reset() }, 1);
            if stops && opens {
                stages.restart();
            }
        });
        let mut handles = handles.into_iter();
        assert!(matches!(value(handles.next().unwrap()), Err(StageError::Shutdown)));
        // The second was looked up after the reset.
        let second = value(handles.next().unwrap());
        assert_eq!((second.ok(), stages.has_file(&Name(0))), if opens { (Some(8), true) } else { (None, false) });
        assert!(!stages.has_file(&Name(1)));
    }
}

#[test]
fn a_request_that_is_overtaken_before_its_lookup_begins_a_new_life() {
    let (_runtime, stages) = world();
    for round in 0..4 {
        stages.submit_request(Request::source(Name(0))).wait().unwrap();
        let inner = stages.clone();
        let ends = move || {
            if round % 2 == 0 {
                assert_eq!(inner.remove(&Name(0)), Removed::Gone);
            } else {
                assert_eq!(inner.reset(), 1);
            }
        };
        ACTIONS.with_borrow_mut(|actions| actions.push_back(Box::new(ends)));
        // Bound at the call, or made anew: it is looked up after the end of the life.
        assert_eq!(*stages.submit_request(Request::analysis(Name(0))).wait().unwrap(), 0);
        assert_eq!(stages.generation(&Name(0)), Some(1));
        stages.remove(&Name(0));
    }
    assert!(stages.is_empty());
}

#[test]
fn names_that_share_a_hash_come_and_go_in_any_order() {
    const NAMES: u64 = 12;
    let (_runtime, stages) = world();
    let mut random = 1_u64;
    let mut known = [false; NAMES as usize];
    for _ in 0..4_000 {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let name = (random >> 33) % NAMES;
        let at = name as usize;
        match (random >> 60) % 5 {
            0 | 1 => {
                assert_eq!(*stages.submit_request(Request::source(Name(name))).wait().unwrap(), name);
                known[at] = true;
            }
            2 => {
                assert_eq!(stages.remove(&Name(name)), if known[at] { Removed::Gone } else { Removed::Unknown });
                known[at] = false;
            }
            3 => assert_eq!(stages.set_text(Name(name), name), {
                known[at] = true;
                Moved::On
            }),
            _ if random.is_multiple_of(97) => {
                assert_eq!(stages.reset(), known.iter().filter(|known| **known).count());
                known = [false; NAMES as usize];
            }
            _ => {}
        }
        for name in 0..NAMES {
            assert_eq!(stages.has_file(&Name(name)), known[name as usize]);
        }
        assert_eq!(stages.len(), known.iter().filter(|known| **known).count());
    }
}

#[test]
fn names_of_one_hash_that_two_threads_add_and_remove_are_never_lost_or_doubled() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let stages = Stages::new(&runtime, Numbers);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let stages = stages.clone();
            scope.spawn(move || {
                // Names that are equal modulo HASHES have one hash; each thread has its own of them.
                let own = [0, 1].map(|n| 3 * (2 * thread + n) + 1);
                for round in 0..2_000 {
                    let name = own[round % 2];
                    assert_eq!(*stages.submit_request(Request::source(Name(name))).wait().unwrap(), name);
                    assert!(stages.has_file(&Name(name)));
                    assert_eq!(stages.remove(&Name(name)), Removed::Gone);
                    assert!(!stages.has_file(&Name(name)));
                }
            });
        }
    });
    assert!(stages.is_empty());
}
