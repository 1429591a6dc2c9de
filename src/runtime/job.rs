//! An erased closure of 56 bytes that runs once or is dropped once; small closures lie inside it and cost no allocation.
//! It does not know which closures it carries, nor who runs it.

use super::contain;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};

/// Room for a closure without allocation: six words.
type Payload = MaybeUninit<[usize; 6]>;

/// What to do with the closure in a payload.
#[derive(Clone, Copy)]
enum Act {
    Run,
    Drop,
}

/// A closure that runs at most once, on whatever thread. Dropping an unrun job drops the closure: that is how a shutdown
/// reaches it.
///
/// A closure of at most 48 bytes that asks for no more than word alignment lies inline; a larger one is boxed.
#[repr(C)]
pub(crate) struct Job {
    payload: Payload,
    /// Runs or drops the closure in the payload; it is the one that `new` chose for it.
    act: unsafe fn(*mut Payload, Act),
    /// What is inside need not be `Sync`.
    _inside: PhantomData<*mut ()>,
}

// SAFETY: `new` takes only closures that are `Send`.
unsafe impl Send for Job {}

const _: () = assert!(size_of::<Job>() == 56);

impl Job {
    /// Wraps a closure.
    #[inline(always)]
    pub(crate) fn new<F: FnOnce() + Send + 'static>(f: F) -> Self {
        let mut payload = Payload::uninit();
        if const { fits::<F>() } {
            // SAFETY: `fits` says that size and alignment allow it, and the payload is ours.
            unsafe { payload.as_mut_ptr().cast::<F>().write(f) };
            Self { payload, act: inline::<F>, _inside: PhantomData }
        } else {
            let boxed = Box::into_raw(Box::new(f));
            // SAFETY: a thin pointer fits into the payload, which is ours.
            unsafe { payload.as_mut_ptr().cast::<*mut F>().write(boxed) };
            Self { payload, act: boxed_closure::<F>, _inside: PhantomData }
        }
    }

    /// Runs the closure. A panic of it goes through to the caller, with everything inside dropped once.
    #[inline(always)]
    pub(crate) fn run(self) {
        let mut me = ManuallyDrop::new(self);
        // SAFETY: the payload holds the closure that `act` was chosen for, and `me` is never dropped, so it is taken once.
        unsafe { (me.act)(&raw mut me.payload, Act::Run) }
    }
}

impl Job {
    /// As `run`, with the panic caught. What a queue handed over is run where it lies; nothing is done if that is nothing.
    #[inline(always)]
    pub(crate) fn run_contained(job: Option<Self>) -> Result<(), contain::Payload> {
        let mut me = ManuallyDrop::new(job);
        let Some(job) = me.as_mut() else { return Ok(()) };
        let (act, payload) = (job.act, &raw mut job.payload);
        // SAFETY: as in `run`.
        contain::call(|| unsafe { act(payload, Act::Run) })
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // SAFETY: as in `run`: a job that was run is not dropped, so the closure is still there.
        unsafe { (self.act)(&raw mut self.payload, Act::Drop) }
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Job")
    }
}

/// Whether a closure lies inline.
const fn fits<F>() -> bool {
    size_of::<F>() <= size_of::<Payload>() && align_of::<F>() <= align_of::<Payload>()
}

/// # Safety
/// The payload holds an `F` inline, which is taken by this call.
unsafe fn inline<F: FnOnce()>(payload: *mut Payload, act: Act) {
    let slot = payload.cast::<F>();
    match act {
        // SAFETY: the caller gives the closure away.
        Act::Run => unsafe { slot.read()() },
        // SAFETY: the caller gives the closure away.
        Act::Drop => unsafe { slot.drop_in_place() },
    }
}

/// # Safety
/// The payload holds the raw pointer of a `Box<F>`, which is taken by this call.
unsafe fn boxed_closure<F: FnOnce()>(payload: *mut Payload, act: Act) {
    // SAFETY: the caller gives the box away.
    let boxed = unsafe { Box::from_raw(payload.cast::<*mut F>().read()) };
    match act {
        Act::Run => boxed(),
        Act::Drop => drop(boxed),
    }
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use super::{Job, fits};
    use crate::sync::Arc;
    use crate::sync::stat::{AtomicUsize, Ordering};

    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn runs_and_drops_once<const N: usize>() {
        let (drops, runs) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        for run in [true, false] {
            let (guard, runs, ballast) = (Counted(drops.clone()), runs.clone(), [7_u8; N]);
            let job = Job::new(move || {
                let _guard = &guard;
                runs.fetch_add(usize::from(ballast.iter().all(|b| *b == 7)), Ordering::Relaxed);
            });
            if run { job.run() } else { drop(job) }
        }
        assert_eq!((runs.load(Ordering::Relaxed), drops.load(Ordering::Relaxed)), (1, 2));
    }

    #[test]
    fn runs_or_drops_the_closure_exactly_once_inline_and_boxed() {
        runs_and_drops_once::<0>();
        runs_and_drops_once::<32>();
        runs_and_drops_once::<33>();
        runs_and_drops_once::<4096>();
    }

    #[test]
    fn small_closures_lie_inline_and_strict_alignment_is_boxed() {
        #[repr(align(16))]
        struct Wide(#[expect(dead_code)] u8);
        assert!(fits::<[u64; 6]>() && fits::<()>());
        assert!(!fits::<[u64; 7]>() && !fits::<Wide>());
        let wide = Wide(1);
        Job::new(move || assert_eq!((&raw const wide).addr() % 16, 0)).run();
    }

    #[test]
    fn a_panicking_closure_drops_its_captures_once() {
        let drops = Arc::new(AtomicUsize::new(0));
        let guard = Counted(drops.clone());
        let job = Job::new(move || {
            let _guard = guard;
            panic!("asked for");
        });
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job.run())).is_err());
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    }
}
