//! Models of the combining section: every request is served once, by one server at a time, though nobody waits.

use super::check;
use crate::flight::combine::{Left, Section};
use crate::sync::Arc;
use crate::sync::thread::{JoinHandle, spawn};

/// What is inside: plain data, so that loom reports two servers at once as a race.
#[derive(Default)]
struct Inside {
    served: Vec<u64>,
}

type Shared = Arc<Section<u64, Inside>>;

/// Leaves a request and serves if it has to, or serves at once if nobody does: one round at a time; the first hand-over goes
/// to another thread.
fn bring(section: &Shared, request: u64, baton: &mut Vec<JoinHandle<()>>, what: fn(&Shared, &mut Inside, u64)) {
    let one = |inside: &mut Inside, request| what(section, inside, request);
    let left = match request {
        // One of them goes through the queue in any case.
        2 => match section.enter(request) {
            Left::Serve => section.serve(1, one),
            Left::Nothing => Left::Nothing,
        },
        _ => section.bring(request, 1, one),
    };
    if left == Left::Nothing {
        return;
    }
    let section = section.clone();
    baton.push(spawn(
        move || while section.serve(1, |inside, request| what(&section, inside, request)) == Left::Serve {},
    ));
}

fn note(_: &Shared, inside: &mut Inside, request: u64) {
    inside.served.push(request);
}

/// Two threads and the main one bring a request each, and the server hands over: all are served once, and the next to come
/// finds the section free.
fn all_are_served(what: fn(&Shared, &mut Inside, u64), expected: &[u64]) {
    let section: Shared = Arc::new(Section::new(Inside::default()));
    let brings = |request: u64| {
        let section = section.clone();
        spawn(move || {
            let mut baton = Vec::new();
            bring(&section, request, &mut baton, what);
            baton
        })
    };
    let threads = [brings(1), brings(2)];
    let mut batons = Vec::new();
    bring(&section, 3, &mut batons, what);
    for thread in threads {
        batons.extend(thread.join().unwrap());
    }
    batons.into_iter().for_each(|baton| baton.join().unwrap());
    assert_eq!(section.enter(9), Left::Serve, "a request is left over, or the section is dead");
    let mut seen = Vec::new();
    let left = section.serve(1, |inside, _| {
        seen = inside.served.clone();
    });
    assert_eq!(left, Left::Nothing);
    seen.sort_unstable();
    assert_eq!(seen, expected, "each request is served once");
}

/// Three bring requests while the server hands over to another thread: none is lost, none is served twice, two never serve at
/// once.
#[test]
fn each_request_is_served_once_also_over_a_hand_over() {
    check(|| all_are_served(note, &[1, 2, 3]));
}

/// A request whose serving brings another one: neither waits, and both are served.
#[test]
fn a_request_may_bring_another_from_inside() {
    check(|| {
        all_are_served(
            |section, inside, request| {
                if request == 1 {
                    assert_eq!(section.enter(7), Left::Nothing, "we serve ourselves");
                }
                inside.served.push(request);
            },
            &[1, 2, 3, 7],
        );
    });
}

/// A request whose serving panics: the others are served, and the section lives.
#[test]
fn a_panic_ends_its_own_request_alone() {
    check(|| {
        all_are_served(
            |_, inside, request| {
                assert_ne!(request, 2, "asked for");
                inside.served.push(request);
            },
            &[1, 3],
        );
    });
}
