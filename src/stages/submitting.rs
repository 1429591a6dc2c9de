//! A request that waits for the budget as a future, until it is its turn or its time is over.
//! It does not know how the budget counts, nor how the request is answered.
#![forbid(unsafe_code)]

use super::host::Host;
use super::request::Request;
use super::scheduler::{StageHandleOf, Stages, picked};
use super::submit::Submission;
use super::target::Target;
use crate::admission::Acquiring;
use crate::flight::{Contained, Until};
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A request that waits for the budget: from [`Stages::submit_request_async`].
///
/// Dropping it before it is ready withdraws it, and nothing has been changed.
#[must_use = "a future does nothing until it is polled"]
pub struct Submitting<H: Host, T: Target<H>> {
    stages: Stages<H>,
    request: Option<Request<H>>,
    waiting: Option<Acquiring>,
    /// It has been polled, and stands in line.
    in_line: bool,
    /// Wakes who polled last if the request is over before its turn.
    heard: Option<Until>,
    target: PhantomData<fn() -> T>,
}

// Nothing in it is ever pinned.
impl<H: Host, T: Target<H>> Unpin for Submitting<H, T> {}

impl<H: Host, T: Target<H>> Submitting<H, T> {
    pub(crate) fn new(stages: Stages<H>, request: Request<H, T>) -> Self {
        let waiting = stages.core().shared.budget.as_ref().map(|budget| budget.acquire_async(1));
        let request = Some(request.any());
        Self { stages, request, waiting, in_line: false, heard: None, target: PhantomData }
    }

    /// The answer of a request that has no need to stand in line.
    fn without_waiting(&mut self) -> Option<StageHandleOf<H, T>> {
        let request = self.request.as_mut()?;
        let mut submission = Submission::new(self.stages.core(), false);
        let handle = submission.join_without_waiting(request);
        submission.call_joiners();
        let handle = handle?;
        // What the host gave is dropped each by itself: its destructors may panic.
        let Request { file, target, text, rehomes: _, ask } = self.request.take()?;
        let _given = (Contained::new(file), Contained::new(target), Contained::new(text), Contained::new(ask));
        Some(picked::<H, T>(handle))
    }

    /// Whether the request waits on: it is neither over nor its turn. A granted unit is in its hands then.
    fn waits(&mut self, cx: &mut Context<'_>) -> bool {
        let (Some(waiting), Some(request)) = (&mut self.waiting, &mut self.request) else { return false };
        let spawner = &self.stages.core().shared.spawner;
        if request.ask.is_over(spawner).is_some() {
            return false;
        }
        if let Poll::Ready(granted) = Pin::new(waiting).poll(cx) {
            self.waiting = None;
            if let Ok(unit) = granted {
                unit.keep();
                request.ask.charged = true;
            }
            return false;
        }
        let (token, deadline) = (request.ask.token.as_ref(), request.ask.deadline);
        if deadline.is_some() && spawner.may_wait().is_err() {
            // A deadline that nobody would wait for has passed.
            request.ask.deadline = Some(spawner.now());
            return false;
        }
        if token.is_some() || deadline.is_some() {
            self.heard = Some(Until::wakes(cx.waker(), spawner, token, deadline));
        }
        true
    }
}

impl<H: Host, T: Target<H>> Future for Submitting<H, T> {
    type Output = StageHandleOf<H, T>;

    /// # Panics
    /// If it is polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if this.waiting.is_some() && !std::mem::replace(&mut this.in_line, true) {
            let is_over = |request: &Request<H>| request.ask.is_over(&this.stages.core().shared.spawner).is_some();
            if !this.request.as_ref().is_some_and(is_over)
                && let Some(handle) = this.without_waiting()
            {
                this.waiting = None;
                return Poll::Ready(handle);
            }
        }
        if this.waits(cx) {
            return Poll::Pending;
        }
        // Its place in line, or a unit that was granted too late, is given up before the request is answered.
        (this.heard, this.waiting) = (None, None);
        let request = this.request.take().expect("a future is ready once");
        Poll::Ready(picked::<H, T>(this.stages.core().submit(request)))
    }
}

impl<H: Host, T: Target<H>> fmt::Debug for Submitting<H, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submitting").field("waits", &self.waiting.is_some()).finish_non_exhaustive()
    }
}
