//! Refused tasks in the lists of what they wait for, so that a wake looks at one task per list and not at all of them.
//! It does not know who refused them, nor why.
#![forbid(unsafe_code)]

use super::super::policy::{Axis, Covers, Wake};
use super::heap::{Entry, Heap};
use ahash::AHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// A policy and what it waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Cause {
    pub(crate) policy: u16,
    pub(crate) wake: Waking,
}

/// What wakes a list. Lists that wait for a time are woken from outside too.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Waking {
    Completion,
    Axis(Axis),
    Idle,
    Outside,
}

impl Waking {
    pub(crate) fn of(wake: Wake) -> Self {
        match wake {
            Wake::Completion => Waking::Completion,
            Wake::Axis(axis) => Waking::Axis(axis),
            Wake::Idle => Waking::Idle,
            Wake::After(_) | Wake::Outside => Waking::Outside,
        }
    }
}

/// Tasks that were refused for the same cause; with a class, whoever refuses the first of them refuses all.
#[derive(Debug)]
struct List {
    heap: BinaryHeap<Reverse<Entry>>,
    class: Option<u64>,
    awake: bool,
    /// The earliest time that it is to wake at: it needs no later one, since whoever is refused again says a new one.
    until: Option<Duration>,
}

impl List {
    fn head(&self) -> Option<Entry> {
        self.heap.peek().map(|entry| entry.0)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Holds {
    lists: Vec<List>,
    by_key: AHashMap<(Cause, Option<u64>), usize>,
    by_cause: AHashMap<Cause, Vec<usize>>,
    /// Heads of lists that are awake; an entry counts only while it is its list's head.
    awake: BinaryHeap<Reverse<(Entry, usize)>>,
    /// Lists without a class that are awake: all of their tasks are ready to be asked again.
    loose: Vec<usize>,
    /// Set aside so that a starving task gets what they would take.
    drained: Vec<Entry>,
    timers: BinaryHeap<Reverse<(Duration, usize)>>,
}

impl Holds {
    /// Keeps a refused task. What is in its list was refused with it.
    pub(crate) fn keep(&mut self, entry: Entry, cause: Cause, covers: Covers, until: Option<Duration>) {
        let class = match covers {
            Covers::Class(class) => Some(class),
            Covers::Task | Covers::All => None,
        };
        let at = *self.by_key.entry((cause, class)).or_insert_with(|| {
            self.lists.push(List { heap: BinaryHeap::new(), class, awake: false, until: None });
            self.by_cause.entry(cause).or_default().push(self.lists.len() - 1);
            self.lists.len() - 1
        });
        let list = &mut self.lists[at];
        list.heap.push(Reverse(entry));
        if class.is_some() {
            list.awake = false;
        }
        if let Some(until) = until.filter(|until| list.until.is_none_or(|earliest| *until < earliest)) {
            list.until = Some(until);
            self.timers.push(Reverse((until, at)));
            self.tidy_timers();
        }
    }

    /// Forgets the times in whose place earlier ones have come, once they are the most.
    fn tidy_timers(&mut self) {
        if self.timers.len() > 2 * self.lists.len() + 8 {
            let standing = self.lists.iter().enumerate();
            self.timers = standing.filter_map(|(at, list)| list.until.map(|until| Reverse((until, at)))).collect();
        }
    }

    /// Sets a task aside until no task starves any more.
    pub(crate) fn set_aside(&mut self, entry: Entry) {
        self.drained.push(entry);
    }

    /// What waited for this cause is to be asked again.
    pub(crate) fn wake(&mut self, cause: Cause) {
        // Most wakes are for nobody.
        if self.lists.is_empty() {
            return;
        }
        if let Some(lists) = self.by_cause.get_mut(&cause) {
            let mut taken = std::mem::take(lists);
            taken.iter().for_each(|at| self.wake_list(*at));
            if let Some(lists) = self.by_cause.get_mut(&cause) {
                std::mem::swap(lists, &mut taken);
            }
        }
    }

    fn wake_list(&mut self, at: usize) {
        let list = &mut self.lists[at];
        let Some(head) = list.head().filter(|_| !list.awake) else { return };
        list.awake = true;
        match list.class {
            Some(_) => self.awake.push(Reverse((head, at))),
            None => self.loose.push(at),
        }
    }

    /// Wakes lists whose time has come.
    pub(crate) fn wake_by_time(&mut self, now: Duration) {
        while self.timers.peek().is_some_and(|timer| timer.0.0 <= now) {
            if let Some(Reverse((until, at))) = self.timers.pop()
                && self.lists[at].until == Some(until)
            {
                self.lists[at].until = None;
                self.wake_list(at);
            }
        }
    }

    /// The next time at which something is to wake.
    pub(crate) fn next_time(&self) -> Option<Duration> {
        self.timers.peek().map(|timer| timer.0.0)
    }

    /// What this policy refused is to be asked again.
    pub(crate) fn wake_policy(&mut self, policy: u16) {
        let of_policy = |(cause, lists): (&Cause, &Vec<usize>)| (cause.policy == policy).then(|| lists.clone());
        let lists: Vec<_> = self.by_cause.iter().filter_map(of_policy).flatten().collect();
        lists.into_iter().for_each(|at| self.wake_list(at));
    }

    /// Gives tasks that are to be asked one by one, and those that were set aside if `aside`, back to the ready ones.
    pub(crate) fn give_back(&mut self, ready: &mut Heap, aside: bool) {
        while let Some(at) = self.loose.pop() {
            let list = &mut self.lists[at];
            list.awake = false;
            list.heap.drain().for_each(|entry| ready.put_back(entry.0));
        }
        if aside {
            self.drained.drain(..).for_each(|entry| ready.put_back(entry));
        }
    }

    /// The best task of those that are awake, and its list.
    pub(crate) fn best(&mut self, queued: &impl Fn(u32) -> bool) -> Option<(Entry, usize)> {
        while let Some(Reverse((entry, at))) = self.awake.peek().copied() {
            let list = &mut self.lists[at];
            if !list.awake || list.head() != Some(entry) {
                self.awake.pop();
            } else if queued(entry.1) {
                return Some((entry, at));
            } else {
                self.awake.pop();
                self.take(at);
            }
        }
        None
    }

    /// Takes a list's head; the next one is to be asked too.
    pub(crate) fn take(&mut self, at: usize) {
        let list = &mut self.lists[at];
        list.heap.pop();
        match list.head() {
            Some(head) if list.awake => self.awake.push(Reverse((head, at))),
            Some(_) => {}
            None => list.awake = false,
        }
    }

    /// Whether something waits for a time or for a word from outside.
    pub(crate) fn waits_for_outside(&self, queued: &impl Fn(u32) -> bool) -> bool {
        let waits = |cause: &Cause| cause.wake == Waking::Outside;
        self.by_cause
            .iter()
            .filter(|(cause, _)| waits(cause))
            .flat_map(|(_, lists)| lists)
            .any(|at| self.lists[*at].heap.iter().any(|entry| queued(entry.0.1)))
    }

    /// Gives everything back, asleep or not. Only when nothing runs.
    pub(crate) fn give_all_back(&mut self, ready: &mut Heap) {
        for list in &mut self.lists {
            list.awake = false;
            list.heap.drain().for_each(|entry| ready.put_back(entry.0));
        }
        self.loose.clear();
        self.awake.clear();
        self.drained.drain(..).for_each(|entry| ready.put_back(entry));
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use super::*;

    const CAUSE: Cause = Cause { policy: 0, wake: Waking::Outside };

    #[test]
    fn refusals_of_one_cause_leave_one_timer_and_it_wakes_them_all() {
        let at = Duration::from_millis;
        for falls in [false, true] {
            let (mut holds, mut ready) = (Holds::default(), Heap::default());
            (0..3).for_each(|task| ready.push(0, task));
            let entries: Vec<Entry> = std::iter::from_fn(|| ready.pop()).collect();
            for round in 0..1_000 {
                for entry in &entries {
                    let until = if falls { 9_000 - round } else { 8_001 + round };
                    holds.keep(*entry, CAUSE, Covers::Task, Some(at(until)));
                }
                // Something has ended: all are asked again, and refused again.
                holds.wake(CAUSE);
                holds.give_back(&mut ready, false);
                assert_eq!(std::iter::from_fn(|| ready.pop()).count(), 3);
            }
            assert!(holds.timers.len() <= 10, "{} timers", holds.timers.len());
            holds.keep(entries[0], CAUSE, Covers::Task, Some(at(9_500)));
            assert_eq!(holds.next_time(), Some(at(8_001)));
            holds.wake_by_time(at(8_000));
            holds.give_back(&mut ready, false);
            assert!(ready.peek().is_none());
            holds.wake_by_time(at(8_001));
            holds.give_back(&mut ready, false);
            assert_eq!(ready.pop(), Some(entries[0]));
        }
    }
}
