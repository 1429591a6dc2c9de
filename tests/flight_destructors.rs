//! Destructors of the host's that panic, wherever the engine runs them: none goes further, none is skipped, none is kept for ever.

use shardrun::{Budget, CancellationToken, Clock, Event, Observer, Runtime, contained_panics};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(300);

/// Its destructor counts, and panics.
struct Bomb(Arc<AtomicUsize>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("a destructor panics");
    }
}

fn bombs() -> (Arc<AtomicUsize>, impl Fn() -> Bomb) {
    let went_off = Arc::new(AtomicUsize::new(0));
    let theirs = went_off.clone();
    (went_off, move || Bomb(theirs.clone()))
}

fn small() -> Runtime {
    Runtime::builder().workers(2).io_threads(0).build().unwrap()
}

/// Says that it was polled, and then is never woken.
struct Never {
    polled: Option<Sender<()>>,
    _inside: Bomb,
}

impl Future for Never {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if let Some(polled) = self.polled.take() {
            let _ = polled.send(());
        }
        Poll::Pending
    }
}

#[test]
fn b53_a_future_that_nobody_can_wake_is_dropped_with_its_handle() {
    let (went_off, bomb) = bombs();
    let runtime = small();
    let caught = contained_panics();
    for round in 1..=100 {
        let (polled, polls) = channel();
        let handle = runtime.spawn_future(Never { polled: Some(polled), _inside: bomb() });
        polls.recv_timeout(SOON).unwrap();
        drop(handle);
        while went_off.load(Ordering::SeqCst) < round {
            std::thread::yield_now();
        }
    }
    runtime.shutdown();
    assert!(contained_panics() >= caught + 100);
    assert_eq!(runtime.counters().panics(), 0, "no job has panicked");
}

#[test]
fn b53_callbacks_that_were_never_called_are_dropped_with_their_token() {
    let (went_off, bomb) = bombs();
    let caught = contained_panics();
    let token = CancellationToken::new();
    for token in [&token, &token.child()] {
        for _ in 0..3 {
            let bomb = bomb();
            token.on_cancel(move || drop(bomb)).forget();
        }
    }
    drop(token);
    assert_eq!(went_off.load(Ordering::SeqCst), 6);
    assert!(contained_panics() >= caught + 6);
}

struct BombWaker(#[expect(dead_code)] Bomb);

impl Wake for BombWaker {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn b53_a_waker_is_dropped_by_who_leaves_the_line_of_a_budget() {
    let (went_off, bomb) = bombs();
    let budget = Budget::new(1);
    let one = budget.try_acquire(1).unwrap();
    for _ in 0..3 {
        let mut waits = Box::pin(budget.acquire_async(1));
        let waker = Waker::from(Arc::new(BombWaker(bomb())));
        assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        drop(waits);
    }
    assert_eq!(went_off.load(Ordering::SeqCst), 3);
    drop(one);
    assert_eq!(budget.in_use(), 0);
}

struct Watcher(#[expect(dead_code)] Bomb);
impl Observer for Watcher {
    fn event(&self, _: &Event) {}
}

struct Ticks(#[expect(dead_code)] Bomb);
impl Clock for Ticks {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

#[test]
fn b53_what_a_runtime_was_built_with_is_dropped_with_it() {
    let (went_off, bomb) = bombs();
    for _ in 0..20 {
        let (start, stop) = (bomb(), bomb());
        let runtime = Runtime::builder()
            .workers(2)
            .on_start(move |_| {
                let _ = &start;
            })
            .on_stop(move |_| {
                let _ = &stop;
            })
            .observer(Arc::new(Watcher(bomb())))
            .clock(Arc::new(Ticks(bomb())))
            .build()
            .unwrap();
        runtime.spawn(|| ()).wait().unwrap();
        drop(runtime);
    }
    // The last of the threads may still be about to drop what they share.
    while went_off.load(Ordering::SeqCst) < 80 {
        std::thread::yield_now();
    }
}

#[test]
fn b113_a_long_chain_of_futures_that_await_each_other_is_cancelled_without_recursion() {
    let runtime = Runtime::builder().workers(1).io_threads(0).build().unwrap();
    for asleep in [false, true] {
        let (held, hold) = channel::<()>();
        let busy = (!asleep).then(|| runtime.spawn(move || hold.recv().unwrap_or(())));
        let length = 100_000;
        let polls = Arc::new(AtomicUsize::new(0));
        let mut last = runtime.spawn_future(std::future::pending::<()>()).cancel_on_drop();
        for _ in 0..length {
            let polls = polls.clone();
            let awaits = async move {
                polls.fetch_add(1, Ordering::SeqCst);
                let _ = last.await;
            };
            last = runtime.spawn_future(awaits).cancel_on_drop();
        }
        while asleep && polls.load(Ordering::SeqCst) < length {
            std::thread::yield_now();
        }
        if asleep {
            // The only worker has done with the last poll.
            runtime.spawn(|| ()).wait().unwrap();
        }
        std::thread::Builder::new().stack_size(256 << 10).spawn(move || drop(last)).unwrap().join().unwrap();
        assert_eq!(Arc::strong_count(&polls), 1, "every future is dropped when the call returns");
        drop(held);
        drop(busy);
    }
}
