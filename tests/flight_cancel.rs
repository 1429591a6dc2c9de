//! Cancellation tokens: heard once, by children and callbacks, and nothing stays behind.

use shardrun::{CancelRegistration, CancellationToken, JobError, Runtime};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What has not come after this long never will.
const SOON: Duration = Duration::from_secs(60);

fn add(count: &AtomicUsize) {
    count.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn callbacks_are_called_once_in_order_of_registration() {
    let token = CancellationToken::new();
    let child = token.child();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let note = |token: &CancellationToken, name: u32| {
        let heard = heard.clone();
        token.on_cancel(move || heard.lock().unwrap().push(name))
    };
    let kept = [note(&token, 1), note(&child, 3), note(&token, 2)];
    drop(note(&token, 9));
    token.cancel();
    token.cancel();
    child.cancel();
    assert_eq!(heard.lock().unwrap().len(), 3);
    let _late = note(&token, 4);
    assert!(child.is_cancelled() && token.child().is_cancelled());
    assert_eq!(*heard.lock().unwrap(), [3, 1, 2, 4]);
    drop(kept);
    let alone = CancellationToken::new();
    alone.child().cancel();
    assert!(!alone.is_cancelled(), "a child is cancelled alone");
    note(&alone, 5).forget();
    alone.cancel();
    assert_eq!(heard.lock().unwrap().last(), Some(&5));
}

#[test]
fn b31_callbacks_may_come_back_and_panic() {
    let token = CancellationToken::new();
    let caught = shardrun::contained_panics();
    let again = token.clone();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let _first = token.on_cancel(move || {
        again.cancel();
        let inner = counted.clone();
        again.on_cancel(move || add(&inner)).forget();
        panic!("in a callback");
    });
    let counted = count.clone();
    let _second = token.on_cancel(move || add(&counted));
    token.cancel();
    assert_eq!(count.load(Ordering::SeqCst), 2);
    assert!(shardrun::contained_panics() > caught);
}

#[test]
fn b101_a_million_registrations_leave_nothing_behind() {
    let token = CancellationToken::new();
    let alive = Arc::new(());
    let standing: Vec<CancelRegistration> = (0..10)
        .map(|_| {
            let alive = alive.clone();
            token.on_cancel(move || drop(alive))
        })
        .collect();
    for _ in 0..1_000_000 {
        let held = alive.clone();
        drop(token.on_cancel(move || drop(held)));
    }
    assert_eq!(Arc::strong_count(&alive), 11, "what was registered went with its registration");
    for _ in 0..100_000 {
        drop(token.child());
    }
    token.cancel();
    for _ in 0..100_000 {
        token.cancel();
        let held = alive.clone();
        drop(token.on_cancel(move || drop(held)));
    }
    drop(standing);
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn b113_a_long_chain_of_children_is_cancelled_and_dropped_without_recursion() {
    let run = || {
        let root = CancellationToken::new();
        let mut last = root.child();
        for _ in 0..300_000 {
            last = last.child();
        }
        root.cancel();
        assert!(last.is_cancelled());
        drop(root);
        drop(last);
        let mut tokens = vec![CancellationToken::new()];
        for _ in 0..1_000 {
            let next = tokens.last().unwrap().child();
            tokens.push(next);
        }
        tokens[500].cancel();
        assert!(tokens[1_000].is_cancelled() && !tokens[499].is_cancelled());
        tokens.reverse();
    };
    std::thread::Builder::new().stack_size(256 * 1024).spawn(run).unwrap().join().unwrap();
}

#[test]
fn two_threads_cancel_while_others_register() {
    for _ in 0..500 {
        let token = CancellationToken::new();
        let count = Arc::new(AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| token.cancel());
                scope.spawn(|| {
                    let count = count.clone();
                    token.on_cancel(move || add(&count)).forget();
                });
            }
        });
        assert_eq!(count.load(Ordering::SeqCst), 2, "each is called once, registered before or after");
    }
}

#[test]
fn b41_after_a_panic_the_next_job_is_cancelled_as_ever() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let token = CancellationToken::new();
    let first = runtime.spawn(|| -> () { panic!("in the middle of something") });
    assert!(matches!(first.wait(), Err(JobError::Panicked(_))));
    let (begin, begun) = channel();
    let seen = token.clone();
    let second = runtime.spawn(move || {
        begin.send(()).unwrap();
        while !seen.is_cancelled() {
            std::thread::yield_now();
        }
        "stopped at its checkpoint"
    });
    begun.recv().unwrap();
    token.cancel();
    assert_eq!(second.wait(), Ok("stopped at its checkpoint"));
}

/// What was put off, since the thread was deep in callbacks, is done before the thread waits for jobs that may wait for it.
#[test]
fn b34_a_shutdown_deep_in_callbacks_ends_a_job_that_waits_for_what_was_put_off() {
    let (send, ended) = channel();
    std::thread::spawn(move || {
        let runtime = Runtime::builder().workers(1).io_threads(0).build().unwrap();
        let tokens: [CancellationToken; 5] = std::array::from_fn(|_| CancellationToken::new());
        let ((enter, entered), (open, gate)) = (channel(), channel());
        let job = move || {
            enter.send(()).unwrap();
            gate.recv().unwrap();
        };
        runtime.execute(job).unwrap();
        entered.recv().unwrap();
        let mut heard: Vec<CancelRegistration> = Vec::new();
        for at in 0..3 {
            let next = tokens[at + 1].clone();
            heard.push(tokens[at].on_cancel(move || next.cancel()));
        }
        let last = tokens[4].clone();
        heard.push(tokens[3].on_cancel(move || {
            last.cancel();
            send.send(runtime.shutdown().running).unwrap();
        }));
        heard.push(tokens[4].on_cancel(move || open.send(()).unwrap()));
        tokens[0].cancel();
    });
    assert_eq!(ended.recv_timeout(SOON), Ok(0));
}
