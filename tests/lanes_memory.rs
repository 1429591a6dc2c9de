//! What keeps an actor, and the memory of jobs that are over: nothing goes too early, and nothing stays.

use shardrun::{
    CancelOutcome, Driver, JobStatus, LaneError, LaneKind, LaneTicket, Lanes, LanesConfig, RequestContext, Runtime,
    contained_panics,
};
use std::future::poll_fn;
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Poll, Waker};

type Kept = Arc<Mutex<Option<LaneTicket>>>;

/// Where a future that sleeps has left its waker.
type Wakes = Arc<Mutex<Option<Waker>>>;

/// Sleeps until it is woken through what it leaves in `wakes`.
async fn sleeps(wakes: Wakes) {
    let mut woken = false;
    poll_fn(|task| {
        *wakes.lock().unwrap() = Some(task.waker().clone());
        if std::mem::replace(&mut woken, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

fn inline(context: &Arc<u64>) -> (Runtime, Lanes<u32, u64>) {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let lanes = Lanes::new(&runtime, LanesConfig::preset(2, 2, 1, 1)).unwrap();
    assert!(lanes.register(0, context.clone()));
    (runtime, lanes)
}

fn taken(kept: &Kept) -> LaneTicket {
    kept.lock().unwrap().take().expect("the body has left it here")
}

#[test]
fn a_ticket_that_a_body_has_made_keeps_the_actor_that_is_removed() {
    let context = Arc::new(7);
    let kept = Kept::default();
    let (runtime, lanes) = inline(&context);
    let keeps = kept.clone();
    let job = lanes.job(LaneKind::PureRead, move |cx| *keeps.lock().unwrap() = Some(cx.ticket()));
    lanes.execute(&0, job.named(5, "leaves its ticket")).unwrap();
    runtime.drive_all();
    assert!(lanes.remove(&0));
    lanes.shutdown();
    drop(lanes);
    runtime.drive_all();
    drop(runtime);
    let ticket = taken(&kept);
    assert_eq!((ticket.id(), ticket.status(), ticket.cancel()), (5, JobStatus::Finished, CancelOutcome::Finished));
    assert_eq!(Arc::strong_count(&context), 2, "the ticket keeps it");
    drop(ticket);
    assert_eq!(Arc::strong_count(&context), 1, "and nothing else does");
}

#[test]
fn a_ticket_of_a_build_keeps_the_actor_that_goes_while_the_install_is_queued() {
    let context = Arc::new(7);
    let kept = Kept::default();
    let (runtime, lanes) = inline(&context);
    let (keeps, late) = (kept.clone(), lanes.clone());
    let build = lanes.heavy(
        move |cx| {
            *keeps.lock().unwrap() = Some(cx.ticket());
            assert!(late.remove(&0));
        },
        |_, ()| panic!("the actor has gone"),
    );
    lanes.execute(&0, build).unwrap();
    runtime.drive_all();
    let ticket = taken(&kept);
    lanes.shutdown();
    drop(lanes);
    drop(runtime);
    assert_eq!((ticket.status(), ticket.cancel()), (JobStatus::Cancelled, CancelOutcome::NotFound));
    drop(ticket);
    assert_eq!(Arc::strong_count(&context), 1);
}

#[test]
fn a_future_keeps_the_actor_that_is_removed_while_it_sleeps() {
    let context = Arc::new(7);
    let (runtime, lanes) = inline(&context);
    let wakes = Wakes::default();
    let leaves = wakes.clone();
    let sleeps = lanes.future(LaneKind::PureRead, move |cx| async move {
        sleeps(leaves).await;
        assert_eq!((**cx.context(), *cx.key()), (7, 0));
    });
    lanes.execute(&0, sleeps).unwrap();
    runtime.drive_all();
    assert!(lanes.remove(&0));
    runtime.drive_all();
    assert_eq!(Arc::strong_count(&context), 2, "the future has it");
    wakes.lock().unwrap().take().unwrap().wake();
    runtime.drive_all();
    assert_eq!(Arc::strong_count(&context), 1);
    lanes.shutdown();
}

/// Panics when it is dropped.
struct Bursts;

impl Drop for Bursts {
    fn drop(&mut self) {
        panic!("asked for");
    }
}

/// The runner that comes by last lets go of the actor, with a slot in hand.
#[test]
fn a_context_that_panics_when_it_goes_takes_no_slot_along() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let lanes: Lanes<u32, Option<Bursts>> = Lanes::new(&runtime, LanesConfig::preset(2, 1, 1, 1)).unwrap();
    assert!(lanes.register(0, Some(Bursts)) && lanes.register(1, None) && lanes.register(2, None));
    let wakes = Wakes::default();
    // Both slots are taken.
    for key in [1, 2] {
        let leaves = wakes.clone();
        lanes.execute(&key, lanes.future(LaneKind::PureRead, move |_| sleeps(leaves))).unwrap();
    }
    runtime.drive_all();
    let refused = lanes.submit(&0, lanes.job(LaneKind::PureRead, |_| ()));
    let before = contained_panics();
    assert!(lanes.remove(&0));
    runtime.drive_all();
    wakes.lock().unwrap().take().expect("it sleeps").wake();
    runtime.drive_all();
    assert!(matches!(refused.wait(), Err(LaneError::Removed)));
    assert!(contained_panics() > before, "the context has gone, and its panic no further");
    let mut next = lanes.submit(&2, lanes.job(LaneKind::PureRead, |_| 5));
    runtime.drive_all();
    assert_eq!(next.try_get().expect("there is a slot for it").unwrap(), 5);
    lanes.shutdown();
}

/// What a job that was cancelled was submitted with goes when a turn lets go of the job, with another job in hand.
#[test]
fn a_request_context_that_panics_when_it_goes_keeps_no_other_job_from_its_answer() {
    let (runtime, lanes) = inline(&Arc::new(7));
    let context = RequestContext::new(Bursts);
    let cancelled = context.scope(|| lanes.submit(&0, lanes.job(LaneKind::PureRead, |_| ())));
    drop(context);
    let mut other = lanes.submit(&0, lanes.job(LaneKind::PureRead, |_| 5));
    cancelled.cancel();
    drop(cancelled);
    let before = contained_panics();
    runtime.drive_all();
    assert!(contained_panics() > before, "the context has gone, and its panic no further");
    assert_eq!(other.try_get().expect("it was admitted").unwrap(), 5);
    let mut writes = lanes.submit(&0, lanes.job(LaneKind::Mutating, |_| 6));
    runtime.drive_all();
    assert_eq!(writes.try_get().expect("no reader is left").unwrap(), 6);
    lanes.shutdown();
}

/// Jobs of several sizes, made by two threads and run by workers or by a worker for itself: each finds what it was made with, and
/// lets it go, whoever's memory it lies in.
#[test]
fn jobs_of_all_sizes_find_in_their_memory_what_they_were_made_with() {
    let token = Arc::new(());
    {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let mut config = LanesConfig::preset(2, 2, 1, 1);
        config.interactive_queue = 8_192;
        let lanes: Lanes<u32, ()> = Lanes::new(&runtime, config).unwrap();
        assert!(lanes.register(0, ()));
        let actor = lanes.actor(&0).unwrap();
        let (done, sums) = channel();
        let submit = |from: u64| {
            for number in from..from + 1_500 {
                let (held, tells) = (token.clone(), done.clone());
                let job = |held: Arc<()>, sum: u64| (Arc::strong_count(&held) > 0).then_some(sum);
                match number % 4 {
                    0 => actor.execute(lanes.job(LaneKind::PureRead, move |_| {
                        tells.send(job(held, number)).unwrap();
                    })),
                    1 => {
                        let more = [number; 8];
                        actor.execute(lanes.job(LaneKind::PureRead, move |_| {
                            tells.send(job(held, more.iter().sum::<u64>() / 8)).unwrap();
                        }))
                    }
                    2 => {
                        let more = [number; 64];
                        actor.execute(lanes.job(LaneKind::SerialLspStatus, move |_| {
                            tells.send(job(held, more.iter().sum::<u64>() / 64)).unwrap();
                        }))
                    }
                    _ => {
                        let inside = (lanes.clone(), actor.clone());
                        actor.execute(lanes.job(LaneKind::PureRead, move |_| {
                            let (lanes, actor) = inside;
                            let next = lanes.job(LaneKind::PureRead, move |_| tells.send(job(held, number)).unwrap());
                            actor.execute(next).unwrap();
                        }))
                    }
                }
                .unwrap();
            }
        };
        let together = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                together.wait();
                submit(0);
            });
            together.wait();
            submit(1_500);
        });
        let total: u64 = (0..3_000).map(|_| sums.recv().unwrap().expect("the token is there")).sum();
        assert_eq!(total, (0..3_000).sum());
        lanes.shutdown();
    }
    assert_eq!(Arc::strong_count(&token), 1, "each has let go of what it was made with");
}
