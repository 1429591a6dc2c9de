//! A value that is awaited: by one who stands in line for the budget, and then by an owner of the computation.
//! It does not know how a request is answered.
#![forbid(unsafe_code)]

use super::cache::CacheHandle;
use super::error::CacheError;
use crate::flight::CancelOnDrop;
use crate::sync::Arc;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

type InLine<V, E> = Pin<Box<dyn Future<Output = CacheHandle<V, E>> + Send>>;

/// A value to come: from [`Cache::get_or_build_async`](super::Cache::get_or_build_async) and
/// [`SingleFlight::get_async`](super::SingleFlight::get_async). Dropping it withdraws, or gives up its place in line.
///
/// # Panics
/// Polled again after it gave the value away, it panics, like any future.
#[must_use = "dropping it withdraws the request"]
pub struct CacheAsking<V: Send + Sync + 'static, E: Send + Sync + 'static> {
    state: State<V, E>,
}

enum State<V: Send + Sync + 'static, E: Send + Sync + 'static> {
    InLine(InLine<V, E>),
    Owner(CancelOnDrop<Arc<V>, CacheError<E>>),
}

impl<V: Send + Sync + 'static, E: Send + Sync + 'static> CacheAsking<V, E> {
    pub(crate) fn owner(handle: CacheHandle<V, E>) -> Self {
        Self { state: State::Owner(handle.cancel_on_drop()) }
    }

    pub(crate) fn in_line(handle: impl Future<Output = CacheHandle<V, E>> + Send + 'static) -> Self {
        Self { state: State::InLine(Box::pin(handle)) }
    }
}

impl<V: Send + Sync + 'static, E: Send + Sync + 'static> Future for CacheAsking<V, E> {
    type Output = Result<Arc<V>, CacheError<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::InLine(line) = &mut self.state {
            match line.as_mut().poll(cx) {
                Poll::Ready(handle) => self.state = State::Owner(handle.cancel_on_drop()),
                Poll::Pending => return Poll::Pending,
            }
        }
        match &mut self.state {
            State::Owner(owner) => Pin::new(owner).poll(cx),
            State::InLine(_) => unreachable!("it has left the line"),
        }
    }
}

impl<V: Send + Sync + 'static, E: Send + Sync + 'static> fmt::Debug for CacheAsking<V, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_line = matches!(self.state, State::InLine(_));
        f.debug_struct("CacheAsking").field("in_line", &in_line).finish_non_exhaustive()
    }
}
