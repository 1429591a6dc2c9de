//! What a worker pushes: into its own queues, as its next continuation, or beyond its own queues where those are long.
//! It does not know in which order the worker takes what it has.
#![forbid(unsafe_code)]

use super::job::Job;
use super::worker::Worker;
use crate::sync::atomic::Ordering;
use crate::sync::mutant;

/// Jobs of one level that a worker keeps in its own queue. Beyond that they go to the shared queue, which grows by blocks and
/// copies nothing, until the own queue has run empty: so both are served in the order of arrival.
const OWN_MAX: u32 = 1024;
impl Worker {
    /// Pushes to the worker's own queue, if that is not too long. Refusing is the caller's affair.
    #[inline]
    pub(crate) fn push(&self, level: usize, job: Job) {
        if self.has_room(level) {
            self.queues[level].push(job);
            self.mark(level);
            self.crew().pushed(None, Some(self.index));
        } else {
            self.crew().inject(level, std::iter::once(job));
        }
    }

    /// Pushes many with one look for somebody to help.
    pub(crate) fn push_all(&self, level: usize, jobs: impl Iterator<Item = Job>) {
        let mut jobs = jobs.peekable();
        while jobs.peek().is_some() && self.has_room(level) {
            if let Some(job) = jobs.next() {
                self.queues[level].push(job);
            }
        }
        self.mark(level);
        if jobs.peek().is_some() {
            self.crew().inject(level, jobs);
        } else {
            self.crew().pushed(None, Some(self.index));
        }
    }

    #[inline(always)]
    fn has_room(&self, level: usize) -> bool {
        let pushes = self.pushes[level].get();
        if pushes < OWN_MAX {
            self.pushes[level].set(pushes + 1);
            return true;
        }
        self.makes_room(level)
    }

    /// Whether the own queue of a level is short, although there were many pushes.
    #[cold]
    fn makes_room(&self, level: usize) -> bool {
        let long = self.pushes[level].get() > OWN_MAX || self.queues[level].len() >= OWN_MAX as usize / 2;
        // One more than the limit says that jobs stand in the shared queue behind those here.
        self.pushes[level].set(if long { OWN_MAX + 1 } else { 1 });
        !long
    }

    /// Makes `job` the next continuation, seen by thieves. The one that was there goes to its queue.
    pub(crate) fn push_hot(&self, level: usize, job: Job) {
        let slot = self.slot();
        if let Some((level, older)) = slot.hot.take() {
            self.queues[level].push(older);
            self.mark(level);
        }
        if let Err(job) = slot.hot.put(level, job) {
            self.queues[level].push(job);
            self.mark(level);
        }
        self.crew().pushed(None, Some(self.index));
    }

    /// Makes `job` the next continuation, unseen by thieves until the worker does something else first.
    #[inline]
    pub(crate) fn push_next(&self, level: usize, job: Job) {
        if self.next_bit.get() != 0 {
            self.expose();
        }
        self.next.set(Some(job));
        self.next_bit.set(1 << level);
    }

    /// Shows the unseen continuation to thieves.
    #[cold]
    pub(crate) fn expose(&self) {
        let bit = self.next_bit.replace(0);
        if let Some(job) = self.next.take() {
            self.push_hot(bit.trailing_zeros() as usize, job);
        }
    }

    /// Notes that the own queue of a level may hold jobs.
    #[inline(always)]
    pub(super) fn mark(&self, level: usize) {
        let levels = &self.slot().levels;
        let known = levels.load(Ordering::Relaxed);
        if known & (1 << level) == 0 {
            // ordering: the push that follows or precedes it is published by the queue; `pushed`'s barrier stands behind both.
            levels.store(known | 1 << level, Ordering::Relaxed);
        }
    }

    pub(super) fn unmark(&self, level: usize) {
        let levels = &self.slot().levels;
        levels.store(levels.load(Ordering::Relaxed) & !(1 << level), Ordering::Relaxed);
    }

    /// Jobs may have come along into the own queue. While they were on their way nobody saw them, so whoever then looked at all
    /// queues may sleep by now: this is a push like any other.
    #[inline]
    pub(super) fn brought(&self, level: usize) {
        if !self.queues[level].is_empty() {
            self.mark(level);
            if !mutant("park.moved_in_silence") {
                self.crew().pushed(None, Some(self.index));
            }
        }
    }
}
