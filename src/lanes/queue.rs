//! What lies inside an actor's turn: the queued jobs by class and lane in order of arrival, and what the order rules remember.
//! It does not know the rules, nor the word that says who has the turn.

#![forbid(unsafe_code)]

use super::cell::JobPhase;
use super::heavy::Lines;
use super::job::JobRef;
use super::kind::{LANES, LaneClass, LaneKind};
use super::order::{Flood, Head};
use super::room::Waiter;
use crate::sync::Arc;
use std::collections::VecDeque;

/// A job that waits for another to be over.
pub(super) struct Fenced<K, C> {
    job: JobRef<K, C>,
    fence: JobRef<K, C>,
}

/// A job that has come and waits for no other.
pub(super) struct Free<K, C> {
    pub(super) job: JobRef<K, C>,
    /// What it has waited for.
    pub(super) over: Option<JobRef<K, C>>,
}

impl<K, C> Fenced<K, C> {
    fn is_free(&self) -> bool {
        self.fence.meta().state.is_over()
    }
}

/// Who asked for a drain, and which jobs are still counted.
pub(super) struct Drains {
    /// Asked, and not begun.
    pub(super) asked: Vec<Arc<Waiter>>,
    /// Told at the end of the one that goes on.
    pub(super) going: Vec<Arc<Waiter>>,
}

/// The queues of an actor that is not idle.
pub(super) struct Queues<K, C> {
    lanes: [[VecDeque<JobRef<K, C>>; LANES]; 2],
    /// A bit a lane that holds anything, see `bit`.
    filled: u16,
    /// Reads that run under the share of the job that submitted them.
    pub(super) nested: VecDeque<JobRef<K, C>>,
    /// Jobs that wait for another to be over.
    fenced: Vec<Fenced<K, C>>,
    arrivals: u64,
    pub(super) flood: Flood,
    /// A read that a reader has submitted and does not wait for was the last to go in: it is the others' turn.
    pub(super) nested_went: bool,
    /// What it was before the last admission, which may fail.
    pub(super) flood_before: Flood,
    pub(super) lines: Lines,
    pub(super) drains: Drains,
    /// When the actor's timer fires, if it is armed.
    pub(super) timer: u64,
}

fn bit(class: LaneClass, lane: LaneKind) -> u16 {
    1 << (class as usize * LANES + lane as usize)
}

impl<K, C> Queues<K, C> {
    pub(super) fn new() -> Self {
        Self {
            lanes: std::array::from_fn(|_| std::array::from_fn(|_| VecDeque::new())),
            filled: 0,
            nested: VecDeque::new(),
            fenced: Vec::new(),
            arrivals: 0,
            flood: Flood::default(),
            flood_before: Flood::default(),
            nested_went: false,
            lines: Lines::default(),
            drains: Drains { asked: Vec::new(), going: Vec::new() },
            timer: u64::MAX,
        }
    }

    /// Empty ones for an actor: what they remember may be of another.
    pub(super) fn anew(mut self: Box<Self>) -> Box<Self> {
        (self.flood, self.flood_before, self.nested_went) = (Flood::default(), Flood::default(), false);
        self
    }

    /// Whether nothing would be lost with it.
    pub(super) fn is_empty(&self) -> bool {
        self.filled == 0
            && self.nested.is_empty()
            && self.fenced.is_empty()
            && self.lines.is_empty()
            && self.drains.asked.is_empty()
            && self.drains.going.is_empty()
            && self.timer == u64::MAX
    }

    /// Whether nothing but interactive reads is queued, which is so most of the time, and none of them waits for anything else.
    pub(super) fn only_reads(&self) -> bool {
        self.filled == bit(LaneClass::Interactive, LaneKind::PureRead)
            && self.timer == u64::MAX
            && self.nested.is_empty()
            && self.fenced.is_empty()
            && self.lines.is_empty()
    }

    /// Notes which lanes hold anything, after some were emptied one by one.
    fn note_filled(&mut self) {
        let bits = LaneClass::ALL.into_iter().flat_map(|class| LaneKind::ALL.map(|lane| (class, lane)));
        self.filled = bits
            .filter(|(class, lane)| !self.lanes[*class as usize][*lane as usize].is_empty())
            .fold(0, |filled, (class, lane)| filled | bit(class, lane));
    }

    #[inline(always)]
    fn number(&mut self, job: &JobRef<K, C>) {
        self.arrivals += 1;
        job.meta().note_arrival(self.arrivals);
    }

    /// A job has come that waits for no other.
    #[inline(always)]
    pub(super) fn arrive(&mut self, job: JobRef<K, C>) {
        self.number(&job);
        let meta = job.meta();
        if meta.is_nested() {
            self.nested.push_back(job);
        } else {
            let (class, lane) = (meta.class(), meta.lane());
            self.filled |= bit(class, lane);
            self.lanes[class as usize][lane as usize].push_back(job);
        }
    }

    /// Keeps a job that has come, if it waits for another. Else it comes back.
    pub(super) fn keep_fenced(&mut self, job: JobRef<K, C>) -> Option<Free<K, C>> {
        match job.meta().fence() {
            Some(fence) if !fence.meta().state.is_over() => {
                self.number(&job);
                self.fenced.push(Fenced { job, fence });
                None
            }
            over => Some(Free { job, over }),
        }
    }

    /// The jobs that waited for others which are over, the oldest first.
    pub(super) fn unfenced(&mut self, trash: &mut Vec<JobRef<K, C>>) -> Vec<JobRef<K, C>> {
        let (free, waits) = std::mem::take(&mut self.fenced).into_iter().partition::<Vec<_>, _>(Fenced::is_free);
        self.fenced = waits;
        let parts = free.into_iter().map(|Fenced { job, fence }| {
            trash.push(fence);
            job
        });
        parts.collect()
    }

    /// Whether a job waits for another that is over.
    pub(super) fn has_unfenced(&self) -> bool {
        self.fenced.iter().any(Fenced::is_free)
    }

    /// The queued job that a later one of this key may follow.
    pub(super) fn leader(&self, bit: u64) -> Option<&JobRef<K, C>> {
        let mut queued = self.lanes[LaneClass::Maintenance as usize].iter().flatten();
        queued.find(|job| {
            let meta = job.meta();
            meta.key().is_some_and(|key| key.bit() == bit) && meta.state.phase() == JobPhase::Queued
        })
    }

    /// Throws away what was taken out and stands at the head of its lane; how many.
    pub(super) fn purge(&mut self, trash: &mut Vec<JobRef<K, C>>) -> usize {
        let before = trash.len();
        let purge = |queue: &mut VecDeque<JobRef<K, C>>, trash: &mut Vec<JobRef<K, C>>| {
            while queue.front().is_some_and(|job| job.meta().state.phase() != JobPhase::Queued) {
                trash.extend(queue.pop_front());
            }
        };
        for queue in self.lanes.iter_mut().flatten() {
            purge(queue, trash);
        }
        purge(&mut self.nested, trash);
        self.note_filled();
        trash.len() - before
    }

    /// Throws away all that was taken out, wherever it stands; how many.
    pub(super) fn sweep(&mut self, trash: &mut Vec<JobRef<K, C>>) -> usize {
        let mut swept = 0;
        let mut keep = |job: &JobRef<K, C>| {
            let queued = job.meta().state.phase() == JobPhase::Queued;
            if !queued {
                swept += 1;
                trash.push(job.clone());
            }
            queued
        };
        for queue in self.lanes.iter_mut().flatten() {
            queue.retain(&mut keep);
        }
        self.nested.retain(&mut keep);
        let (waits, gone) =
            std::mem::take(&mut self.fenced).into_iter().partition::<Vec<_>, _>(|fenced| keep(&fenced.job));
        self.fenced = waits;
        // What they waited for may be known to nobody else.
        trash.extend(gone.into_iter().map(|Fenced { fence, .. }| fence));
        self.note_filled();
        swept
    }

    /// The jobs of a class, in order of arrival.
    pub(super) fn of_class(&self, class: LaneClass) -> Vec<JobRef<K, C>> {
        let lanes = self.lanes[class as usize].iter().flatten();
        let fenced = self.fenced.iter().map(|fenced| &fenced.job);
        let apart = self.nested.iter().chain(fenced).filter(|job| job.meta().class() == class);
        let mut all: Vec<JobRef<K, C>> = lanes.chain(apart).cloned().collect();
        all.sort_by_key(|job| job.meta().arrival());
        all
    }

    /// Jobs that lie here, those that were taken out too.
    pub(super) fn len(&self) -> usize {
        self.lanes.iter().flatten().map(VecDeque::len).sum::<usize>() + self.nested.len() + self.fenced.len()
    }

    /// The head of a lane.
    pub(super) fn head(&self, class: LaneClass, lane: LaneKind) -> Option<Head> {
        let meta = self.lanes[class as usize][lane as usize].front()?.meta();
        Some(Head { arrival: meta.arrival(), at: meta.at() })
    }

    /// The heads of all lanes of a class.
    pub(super) fn heads(&self, class: LaneClass) -> [Option<Head>; LANES] {
        std::array::from_fn(|lane| self.head(class, LaneKind::ALL[lane]))
    }

    pub(super) fn depth(&self, class: LaneClass, lane: LaneKind) -> usize {
        self.lanes[class as usize][lane as usize].len()
    }

    /// Takes the head of a lane.
    #[inline]
    pub(super) fn pop(&mut self, class: LaneClass, lane: LaneKind) -> Option<JobRef<K, C>> {
        let queue = &mut self.lanes[class as usize][lane as usize];
        let job = queue.pop_front();
        if queue.is_empty() {
            self.filled &= !bit(class, lane);
        }
        job
    }

    /// Puts back what was just taken.
    pub(super) fn put_back(&mut self, class: LaneClass, lane: LaneKind, job: JobRef<K, C>) {
        self.filled |= bit(class, lane);
        self.lanes[class as usize][lane as usize].push_front(job);
    }

    /// Takes everything out, in order of arrival.
    pub(super) fn take_all(&mut self, trash: &mut Vec<JobRef<K, C>>) -> Vec<JobRef<K, C>> {
        let mut all: Vec<JobRef<K, C>> = self.lanes.iter_mut().flatten().flat_map(VecDeque::drain_all).collect();
        self.filled = 0;
        all.extend(self.nested.drain(..));
        all.extend(self.fenced.drain(..).map(|Fenced { job, fence }| {
            trash.push(fence);
            job
        }));
        all.sort_by_key(|job| job.meta().arrival());
        all
    }
}

/// Emptying a queue without naming a range.
trait DrainAll<T> {
    fn drain_all(&mut self) -> std::collections::vec_deque::Drain<'_, T>;
}

impl<T> DrainAll<T> for VecDeque<T> {
    fn drain_all(&mut self) -> std::collections::vec_deque::Drain<'_, T> {
        self.drain(..)
    }
}
