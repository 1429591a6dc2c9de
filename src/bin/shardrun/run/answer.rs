//! The answer that a task's body waits for: given once, by the thread that minds the commands.
//! It does not know what commands are.
#![forbid(unsafe_code)]

use shardrun::{Ended, TaskFailure};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// How a body ends.
pub(super) type Answer = Result<Ended, TaskFailure>;

#[derive(Default)]
struct Slot {
    answer: Option<Answer>,
    waker: Option<Waker>,
    lost: bool,
}

/// The duty to answer. Dropped without, the body ends as aborted.
pub(super) struct Promise(Arc<Mutex<Slot>>);

/// What the body awaits.
pub(super) struct Promised(Arc<Mutex<Slot>>);

/// Both sides of one answer.
pub(super) fn promise() -> (Promise, Promised) {
    let slot = Arc::new(Mutex::new(Slot::default()));
    (Promise(slot.clone()), Promised(slot))
}

impl Promise {
    pub(super) fn keep(self, answer: Answer) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).answer = Some(answer);
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        let waker = {
            let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            slot.lost = true;
            slot.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Future for Promised {
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None if slot.lost => Poll::Ready(Ok(Ended::aborted())),
            None => {
                slot.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
