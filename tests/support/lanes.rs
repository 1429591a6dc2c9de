//! An executor on a runtime without threads and a clock that stands still, and gated jobs that a test opens one by one.

use shardrun::{Driver, LaneClass, LaneError, LaneHandle, LaneKind, LaneTicket, Lanes, LanesConfig, Runtime};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A gate that a future waits at.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<Mutex<(bool, Vec<Waker>)>>);

impl Gate {
    pub(crate) fn open(&self) {
        let wakers = {
            let mut state = self.0.lock().unwrap();
            state.0 = true;
            std::mem::take(&mut state.1)
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Future for Gate {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock().unwrap();
        if state.0 {
            return Poll::Ready(());
        }
        state.1.push(cx.waker().clone());
        Poll::Pending
    }
}

/// What an actor's jobs leave behind.
#[derive(Default)]
pub(crate) struct Log(pub(crate) Mutex<Vec<String>>);

/// A job that has been submitted, and the gate that it waits at once it has begun.
pub(crate) struct Gated {
    pub(crate) gate: Gate,
    pub(crate) handle: LaneHandle<&'static str>,
}

impl Gated {
    pub(crate) fn ticket(&self) -> LaneTicket {
        self.handle.ticket().expect("it was not refused").clone()
    }
}

pub(crate) struct Bench {
    pub(crate) runtime: Runtime,
    pub(crate) lanes: Lanes<u32, Log>,
    /// What began and ended, in order.
    pub(crate) log: Arc<Mutex<Vec<String>>>,
}

/// A preset: pool, reads, actor, heavy.
pub(crate) type Preset = (usize, usize, usize, usize);

impl Bench {
    pub(crate) fn new(preset: Preset) -> Self {
        let (pool, reads, actor, heavy) = preset;
        Self::with(Driver::Inline, LanesConfig::preset(pool, reads, actor, heavy))
    }

    pub(crate) fn with(driver: Driver, config: LanesConfig) -> Self {
        let runtime = Runtime::builder().driver(driver).build().unwrap();
        let lanes = Lanes::new(&runtime, config).unwrap();
        let bench = Self { runtime, lanes, log: Arc::default() };
        for key in 0..8 {
            assert!(bench.lanes.register(key, Log::default()));
        }
        bench
    }

    /// Drives until nothing moves.
    pub(crate) fn settle(&self) {
        self.runtime.drive_all();
    }

    pub(crate) fn pass(&self, time: Duration) {
        assert!(self.runtime.advance(time));
        self.settle();
    }

    /// Submits a gated job, and does not drive.
    pub(crate) fn post(&self, key: u32, lane: LaneKind, class: LaneClass, name: &'static str) -> Gated {
        let gate = Gate::default();
        let (log, at) = (self.log.clone(), gate.clone());
        let job = self.lanes.future(lane, move |_| async move {
            log.lock().unwrap().push(format!("+{name}"));
            at.await;
            log.lock().unwrap().push(format!("-{name}"));
            name
        });
        let job = if class == LaneClass::Maintenance { job.maintenance() } else { job };
        Gated { gate, handle: self.lanes.submit(&key, job.named(0, name)) }
    }

    /// Submits a gated job and lets everything move.
    pub(crate) fn gated(&self, key: u32, lane: LaneKind, class: LaneClass, name: &'static str) -> Gated {
        let gated = self.post(key, lane, class, name);
        self.settle();
        gated
    }

    pub(crate) fn read(&self, key: u32, name: &'static str) -> Gated {
        self.gated(key, LaneKind::PureRead, LaneClass::Interactive, name)
    }

    pub(crate) fn write(&self, key: u32, name: &'static str) -> Gated {
        self.gated(key, LaneKind::Mutating, LaneClass::Interactive, name)
    }

    pub(crate) fn commit(&self, key: u32, name: &'static str) -> Gated {
        self.gated(key, LaneKind::MaintenanceCommit, LaneClass::Maintenance, name)
    }

    /// Opens gates, and lets everything move.
    pub(crate) fn open(&self, gated: &[&Gated]) {
        gated.iter().for_each(|gated| gated.gate.open());
        self.settle();
    }

    /// What began and ended since the last look.
    pub(crate) fn seen(&self) -> String {
        std::mem::take(&mut *self.log.lock().unwrap()).join(" ")
    }

    pub(crate) fn refused<T: Send + 'static>(&self, mut handle: LaneHandle<T>) -> LaneError {
        match handle.try_get() {
            Some(Err(error)) => error,
            Some(Ok(_)) => panic!("it gave a result"),
            None => panic!("it is not answered"),
        }
    }
}
