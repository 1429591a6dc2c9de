//! A job's closure with its type forgotten: a small one lies inside, so that a node costs no allocation of its own.
//! It does not know what it does, nor when it is called. As the runtime's own jobs, but called with the node's context.

use super::super::joint::Ended;
use super::cx::DagCx;
use super::error::DagEnd;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};

/// Room for a closure without allocation: three words.
type Payload = MaybeUninit<[usize; 3]>;

/// What can be done with the closure in a payload.
struct Acts {
    call: unsafe fn(*mut Payload, &DagCx<'_>) -> Ended,
    drop: unsafe fn(*mut Payload),
}

/// A closure that is called at most once, on whatever thread. One of at most three words that asks for no more than word alignment lies
/// inline; a larger one is boxed.
pub(crate) struct Body {
    payload: Payload,
    /// Of the closure in the payload; it is the one that `new` chose for it.
    acts: &'static Acts,
    /// What is inside need not be `Sync`.
    _inside: PhantomData<*mut ()>,
}

// SAFETY: `new` takes only closures that are `Send`.
unsafe impl Send for Body {}

struct Of<F>(PhantomData<F>);

impl<F: FnOnce(&DagCx<'_>) -> Ended> Of<F> {
    const FITS: bool = size_of::<F>() <= size_of::<Payload>() && align_of::<F>() <= align_of::<Payload>();
    const ACTS: &'static Acts = &Acts { call: Self::call, drop: Self::drop };

    /// # Safety
    /// The payload holds an `F`, which is taken by this call.
    unsafe fn call(payload: *mut Payload, cx: &DagCx<'_>) -> Ended {
        // SAFETY: the caller gives the closure away.
        unsafe { payload.cast::<F>().read()(cx) }
    }

    /// # Safety
    /// As `call`.
    unsafe fn drop(payload: *mut Payload) {
        // SAFETY: the caller gives the closure away.
        unsafe { payload.cast::<F>().drop_in_place() }
    }
}

impl Body {
    pub(crate) fn new<R: DagEnd>(job: impl FnOnce(&DagCx<'_>) -> R + Send + 'static) -> Self {
        Self::of(move |cx: &DagCx<'_>| job(cx).end())
    }

    fn of<F: FnOnce(&DagCx<'_>) -> Ended + Send + 'static>(job: F) -> Self {
        if const { Of::<F>::FITS } {
            return Self::inline(job);
        }
        let boxed: Box<dyn FnOnce(&DagCx<'_>) -> Ended + Send> = Box::new(job);
        Self::inline(move |cx: &DagCx<'_>| boxed(cx))
    }

    fn inline<F: FnOnce(&DagCx<'_>) -> Ended + Send + 'static>(job: F) -> Self {
        const { assert!(size_of::<Box<dyn Fn()>>() <= size_of::<Payload>()) };
        let mut payload = Payload::uninit();
        assert!(Of::<F>::FITS);
        // SAFETY: size and alignment allow it, and the payload is ours.
        unsafe { payload.as_mut_ptr().cast::<F>().write(job) };
        Self { payload, acts: Of::<F>::ACTS, _inside: PhantomData }
    }

    /// Calls it. A panic goes through to the caller, with everything inside dropped once.
    #[inline]
    pub(crate) fn call(self, cx: &DagCx<'_>) -> Ended {
        let mut me = ManuallyDrop::new(self);
        // SAFETY: the payload holds the closure of these acts, and `me` is never dropped, so it is taken once.
        unsafe { (me.acts.call)(&raw mut me.payload, cx) }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        // SAFETY: as in `call`: a body that was called is not dropped, so the closure is still there.
        unsafe { (self.acts.drop)(&raw mut self.payload) }
    }
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use super::Body;
    use crate::keyed::{Dag, Dags, TaskKind};
    use crate::runtime::{Driver, Runtime};
    use crate::sync::Arc;

    /// Bodies of any size run or are dropped, with what they hold, once.
    fn runs_or_is_dropped<const N: usize>() {
        let alive = Arc::new(());
        let body = |panics: bool| {
            let (alive, ballast) = (alive.clone(), [7_u8; N]);
            move |_: &crate::keyed::DagCx<'_>| {
                assert!(ballast.iter().all(|byte| *byte == 7) && Arc::strong_count(&alive) > 1);
                assert!(!panics, "as planned");
            }
        };
        drop(Body::new(body(false)));
        assert_eq!(Arc::strong_count(&alive), 1);
        let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
        let mut dag = Dag::builder();
        let good = dag.node(TaskKind::Parse, body(false)).id();
        let bad = dag.node(TaskKind::Parse, body(true)).id();
        let report = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap().wait().unwrap();
        assert!(report.failure(good).is_none() && report.failure(bad).is_some());
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[test]
    fn a_body_runs_or_is_dropped_once_inline_and_boxed() {
        runs_or_is_dropped::<0>();
        runs_or_is_dropped::<8>();
        runs_or_is_dropped::<16>();
        runs_or_is_dropped::<17>();
        runs_or_is_dropped::<4096>();
    }

    #[test]
    fn what_asks_for_more_alignment_is_boxed() {
        #[repr(align(16))]
        struct Wide(u8);
        let wide = Wide(1);
        drop(Body::new(move |_| assert_eq!((&raw const wide).addr() % 16 + usize::from(wide.0), 1)));
    }
}
