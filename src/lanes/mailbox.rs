//! The mailbox of an actor: submitters post, who has the turn takes everything, and a close seals it for good.
//! It does not know what is posted, only how one post hangs behind another.
//!
//! A post after the seal fails and comes back, so no job is left where nobody looks. The order of the exchanges is the order of
//! arrival.

use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::mutant;
use std::ptr::{self, NonNull};

/// What can be posted.
///
/// # Safety
/// `next` always gives the same word, which nobody else uses while the post hangs in a mailbox.
pub(crate) unsafe trait Posted: Sized {
    /// The post behind this one.
    fn next(&self) -> &AtomicPtr<Self>;
}

/// The mailbox.
#[derive(Debug)]
pub(crate) struct Mailbox<N> {
    head: AtomicPtr<N>,
}

fn sealed<N>() -> *mut N {
    ptr::without_provenance_mut(1)
}

impl<N: Posted> Mailbox<N> {
    pub(crate) fn new() -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()) }
    }

    fn head_for_cas(&self) -> *mut N {
        // Under loom a load would hide races with other posters' loads (trap T1): begin with the exchange itself.
        if cfg!(shardrun_loom) { ptr::null_mut() } else { self.head.load(Ordering::Acquire) }
    }

    /// Hangs `post` in, or gives it back if the mailbox is sealed.
    ///
    /// # Safety
    /// `post` is alive until it is taken out or comes back, and hangs in no mailbox.
    pub(crate) unsafe fn post(&self, post: NonNull<N>) -> Result<(), NonNull<N>> {
        let mut head = self.head_for_cas();
        loop {
            if head == sealed() {
                return Err(post);
            }
            // SAFETY: alive, says the caller, and ours until the exchange succeeds.
            // ordering: Relaxed; the exchange publishes it.
            unsafe { post.as_ref() }.next().store(head, Ordering::Relaxed);
            // ordering: Release publishes the post to who takes it; Acquire on failure, so that who finds the seal sees why.
            match self.head.compare_exchange_weak(head, post.as_ptr(), Ordering::Release, Ordering::Acquire) {
                Ok(_) => return Ok(()),
                Err(now) => head = now,
            }
        }
    }

    /// Takes everything that was posted, oldest first. For who has the turn.
    pub(crate) fn take(&self) -> Posts<N> {
        if mutant("lanes.take_by_store") {
            let head = self.head.load(Ordering::Acquire);
            self.head.swap(ptr::null_mut(), Ordering::AcqRel);
            return Posts::of(if head == sealed() { ptr::null_mut() } else { head });
        }
        // A look of its own, which the models are to see too: behind a barrier it may find nothing.
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            if head == sealed() || head.is_null() {
                return Posts::of(ptr::null_mut());
            }
            // ordering: Acquire pairs with `post`; the seal is never overwritten, since it is looked for.
            match self.head.compare_exchange_weak(head, ptr::null_mut(), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Posts::of(head),
                Err(now) => head = now,
            }
        }
    }

    /// Seals it and takes what was posted before, oldest first.
    pub(crate) fn seal(&self) -> Posts<N> {
        // ordering: AcqRel: takes the posts over, and shows those who come later why they are refused.
        let head = self.head.swap(sealed(), Ordering::AcqRel);
        Posts::of(if head == sealed() { ptr::null_mut() } else { head })
    }
}

/// Posts that were taken, oldest first. Each is the taker's.
pub(crate) struct Posts<N> {
    at: *mut N,
}

impl<N: Posted> Posts<N> {
    /// Turns the chain round, which begins with the newest.
    fn of(mut at: *mut N) -> Self {
        let mut before = ptr::null_mut();
        while let Some(post) = NonNull::new(at) {
            // SAFETY: the chain was taken, so each post in it is alive and the taker's alone.
            let next = unsafe { post.as_ref() }.next();
            at = next.load(Ordering::Relaxed);
            next.store(before, Ordering::Relaxed);
            before = post.as_ptr();
        }
        Self { at: before }
    }
}

impl<N: Posted> Iterator for Posts<N> {
    type Item = NonNull<N>;

    fn next(&mut self) -> Option<NonNull<N>> {
        let post = NonNull::new(self.at)?;
        // SAFETY: as in `of`; it has not been handed out yet.
        self.at = unsafe { post.as_ref() }.next().load(Ordering::Relaxed);
        Some(post)
    }
}
