//! The budget: exact, fair, and never in the way of those who would free it.

use shardrun::{Admission, Budget, BudgetError, Driver, Handle, Refused, Runtime};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

fn until(mut reached: impl FnMut() -> bool) {
    while !reached() {
        std::thread::yield_now();
    }
}

/// A small generator, so that a failing run can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(limit)) as u32
    }
}

#[test]
fn what_is_declined_changes_nothing() {
    let budget = Budget::new(3);
    let held = budget.try_acquire(2).unwrap();
    let refused = budget.try_acquire(2).unwrap_err();
    assert_eq!((refused.asked, refused.free, refused.capacity), (2, 1, 3));
    assert_eq!((budget.in_use(), budget.waiting()), (2, 0));
    assert!(matches!(budget.acquire(4), Err(BudgetError::TooMany(_))));
    let answer: Admission<u8> = Admission::Backpressured(refused);
    assert_eq!(answer.map(u16::from).into_result().unwrap_err(), refused);
    assert!(std::error::Error::source(&budget.acquire(4).unwrap_err()).unwrap().is::<Refused>());
    drop(held);
    assert_eq!(budget.in_use(), 0);
}

#[test]
fn b82_after_a_million_steps_the_whole_budget_is_there() {
    for (capacity, stripes) in [(30_u32, "none"), (100_000, "some")] {
        let budget = Budget::new(capacity);
        let start = Barrier::new(4);
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let (budget, start) = (&budget, &start);
                scope.spawn(move || {
                    let mut random = Random(seed + 99);
                    let mut held = Vec::new();
                    start.wait();
                    for _ in 0..250_000 {
                        if held.len() > 8 || random.below(2) == 0 {
                            held.pop();
                        } else if let Ok(guard) = budget.try_acquire([3, 9, 10][random.below(3) as usize]) {
                            held.push(guard);
                        }
                    }
                });
            }
        });
        assert_eq!(budget.in_use(), 0, "reserves: {stripes}");
        let whole = budget.try_acquire(capacity).expect("granted at once");
        assert_eq!((whole.units(), budget.in_use()), (capacity, u64::from(capacity)));
    }
}

#[test]
fn never_more_than_the_capacity_is_admitted() {
    for capacity in [1_u64, 5, 64, 1_000] {
        let budget = Budget::new(capacity as u32);
        let (now, most) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..6 {
                let (budget, now, most) = (&budget, &now, &most);
                scope.spawn(move || {
                    for round in 0..2_000 {
                        let guard =
                            if (thread + round) % 2 == 0 { budget.acquire(1).ok() } else { budget.try_acquire(1).ok() };
                        if let Some(guard) = guard {
                            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                            if round % 64 == 0 {
                                std::thread::yield_now();
                            }
                            now.fetch_sub(1, Ordering::SeqCst);
                            drop(guard);
                        }
                    }
                });
            }
        });
        assert!(most.load(Ordering::SeqCst) <= capacity);
        assert_eq!((budget.in_use(), budget.waiting()), (0, 0));
    }
}

#[derive(Default)]
struct Wakes(AtomicUsize);
impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn b84_when_the_head_of_the_line_gives_up_the_next_are_granted() {
    let budget = Budget::new(5);
    let held = budget.try_acquire(2).unwrap();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let mut cx = Context::from_waker(&waker);
    let mut head = Box::pin(budget.acquire_async(5));
    let mut next = [Box::pin(budget.acquire_async(1)), Box::pin(budget.acquire_async(2))];
    assert!(head.as_mut().poll(&mut cx).is_pending());
    for next in &mut next {
        assert!(next.as_mut().poll(&mut cx).is_pending(), "nobody passes the line");
    }
    assert!(budget.try_acquire(1).is_err());
    assert_eq!(budget.waiting(), 3);
    drop(head);
    assert_eq!(wakes.0.load(Ordering::SeqCst), 2, "granted at once");
    let granted: Vec<_> = next
        .iter_mut()
        .map(|next| match next.as_mut().poll(&mut cx) {
            Poll::Ready(guard) => guard.unwrap(),
            Poll::Pending => panic!("it was granted"),
        })
        .collect();
    assert_eq!(budget.in_use(), 5);
    drop((held, granted));
    assert_eq!((budget.in_use(), budget.waiting()), (0, 0));
}

#[test]
fn b43_a_waiter_that_is_granted_and_dropped_unasked_gives_its_units_back() {
    let budget = Budget::new(1);
    let held = budget.try_acquire(1).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let mut abandoned = Box::pin(budget.acquire_async(1));
    let mut active = Box::pin(budget.acquire_async(1));
    assert!(abandoned.as_mut().poll(&mut cx).is_pending() && active.as_mut().poll(&mut cx).is_pending());
    drop(held);
    drop(abandoned);
    assert!(active.as_mut().poll(&mut cx).is_ready());
    drop(active);
    drop(budget.acquire_async(1));
    assert_eq!(budget.in_use(), 0);
}

#[test]
fn waiting_ends_in_time_and_in_order() {
    let budget = Budget::new(1);
    let held = budget.try_acquire(1).unwrap();
    assert!(matches!(budget.acquire_timeout(1, Duration::from_millis(2)), Err(BudgetError::TimedOut(_))));
    assert_eq!(budget.waiting(), 0);
    let (tell, told) = channel();
    let waiters: Vec<_> = (0..3)
        .map(|number| {
            let (waiting, tell) = (budget.clone(), tell.clone());
            let waiter = std::thread::spawn(move || {
                let guard = waiting.acquire(1).unwrap();
                tell.send(number).unwrap();
                drop(guard);
            });
            until(|| budget.waiting() == number + 1);
            waiter
        })
        .collect();
    drop(held);
    for waiter in waiters {
        waiter.join().unwrap();
    }
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn b61_jobs_that_submit_jobs_under_their_own_budget_never_block() {
    fn node(
        runtime: &Runtime,
        budget: &Budget,
        left: &Arc<AtomicUsize>,
        done: &Arc<AtomicUsize>,
    ) -> Option<Handle<()>> {
        let take = |left: &AtomicUsize| {
            left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
        };
        if !take(left) {
            return None;
        }
        let guard = budget.acquire(1).unwrap();
        let (inside, budget, left, done) = (runtime.clone(), budget.clone(), left.clone(), done.clone());
        Some(runtime.spawn(move || {
            for _ in 0..3 {
                drop(node(&inside, &budget, &left, &done));
            }
            done.fetch_add(1, Ordering::SeqCst);
            drop(guard);
        }))
    }
    let runtime = Runtime::builder().workers(2).max_spares(0).build().unwrap();
    let budget = Budget::for_runtime(4, &runtime);
    let (left, done) = (Arc::new(AtomicUsize::new(10_000)), Arc::new(AtomicUsize::new(0)));
    while let Some(handle) = node(&runtime, &budget, &left, &done) {
        handle.wait().unwrap();
    }
    until(|| done.load(Ordering::SeqCst) == 10_000);
    until(|| budget.in_use() == 0);
    assert!(budget.try_acquire(4).is_ok(), "the debt is paid, and no more than that");
}

#[test]
fn on_a_runtime_without_threads_the_waiter_drives() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let budget = Budget::for_runtime(1, &runtime);
    let guard = budget.acquire(1).unwrap();
    let job = runtime.spawn(move || drop(guard));
    let again = budget.acquire(1).unwrap();
    assert!(job.is_resolved());
    assert!(matches!(budget.acquire(1), Err(BudgetError::Stalled(_))));
    drop(again);
    assert_eq!(budget.in_use(), 0);
}

#[test]
fn futures_wait_in_line_without_a_thread() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let budget = Budget::new(3);
    let busy = Arc::new(AtomicUsize::new(0));
    let jobs: Vec<_> = (0..500)
        .map(|_| {
            let (budget, busy) = (budget.clone(), busy.clone());
            runtime.spawn_future(async move {
                let guard = budget.acquire_async(1).await.unwrap();
                assert!(busy.fetch_add(1, Ordering::SeqCst) < 3);
                Yield(false).await;
                busy.fetch_sub(1, Ordering::SeqCst);
                drop(guard);
            })
        })
        .collect();
    for job in jobs {
        job.wait().unwrap();
    }
    assert_eq!((budget.in_use(), budget.waiting()), (0, 0));
}

struct Yield(bool);
impl Future for Yield {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
