//! A visit to an actor: takes the turn, looks at what has come, judges, and admits one job or leaves.
//! It does not know the order rules, nor who runs what was admitted.
//!
//! Each visit ends with one exchange of the admission word that was judged. If anything has changed meanwhile it fails, and the
//! visit judges again: so nothing that came before the visit left is overlooked, and nobody has to rescue a lost wake-up. No
//! host code runs in a turn: what is to be answered or thrown away is kept until it is left.

use super::actor::{Actor, Inside};
use super::held::{self, Held, Place};
use super::intake;
use super::job::{JobRef, claim};
use super::kind::{LaneClass, LaneKind};
use super::nested::Nested;
use super::order::View;
use super::outside::Outside;
use super::queue::Queues;
use super::reads::{NoRead, READ};
use super::word::{Owes, Seen};
use crate::sync::Arc;

/// What a visit brings along.
pub(super) struct Visit<'a, K, C> {
    /// The ticket that led here.
    pub(super) ticket: Option<LaneClass>,
    /// The actor's share is renewed: it has waited its turn.
    pub(super) renews: bool,
    /// Nobody else waits: no need to keep to shares.
    pub(super) alone: bool,
    /// A place for maintenance that the visitor has.
    pub(super) place: Option<Place>,
    /// About now; asked for again where anything depends on it.
    pub(super) now: u64,
    /// Queues for an actor that has none, and from one that needs them no more.
    pub(super) spare: &'a mut Option<Box<Queues<K, C>>>,
}

/// What a judgement comes to.
enum Decision<K, C> {
    /// The word was changed on the way: judge again.
    Again,
    Closed,
    Admit {
        job: JobRef<K, C>,
        class: LaneClass,
        lane: LaneKind,
        held: Held,
        nested: bool,
        again: Option<LaneClass>,
    },
    Leave {
        again: Option<LaneClass>,
    },
}

impl<K, C> Actor<K, C>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    /// Visits the actor: a job to be run, which holds its part of the actor, if one was admitted; that was at `visit.now`. A place for
    /// maintenance that was not needed is given back.
    pub(super) fn visit(self: &Arc<Self>, visit: &mut Visit<'_, K, C>) -> Option<JobRef<K, C>> {
        match self.word.begin_turn(visit.ticket) {
            Some(seen) => self.go_on(seen, visit),
            None => {
                self.give_back(visit.place);
                None
            }
        }
    }

    /// As [`visit`](Self::visit), for who has the turn.
    pub(super) fn go_on(self: &Arc<Self>, mut seen: Seen, visit: &mut Visit<'_, K, C>) -> Option<JobRef<K, C>> {
        let mut outside = Outside::new();
        // SAFETY: the turn is ours until the word is left.
        unsafe { self.with_inside(|inside| self.renew(inside, visit.renews)) };
        loop {
            let mut why = NoRead::LookAtAll;
            // SAFETY: as above.
            let next =
                unsafe { self.with_inside(|inside| self.next_read(inside, seen, visit, &mut outside, &mut why)) };
            if let Some(job) = next {
                let again = (seen.all_queued() > 1).then(|| seen.next_after(READ.0));
                if let Some(owes) = self.word.admit(seen, READ.1, READ.0, again) {
                    self.left_queue(job.meta());
                    self.leave_turn(owes, visit.place, outside);
                    return Some(job);
                }
                // SAFETY: as above.
                unsafe { self.with_inside(|inside| self.put_back(inside, visit, &mut outside, job, READ, false)) };
            } else if why == NoRead::LookAtAll {
                return self.go_on_with_all(seen, visit, outside);
            } else if let Some(owes) = self.word.leave(seen, None) {
                self.leave_turn(owes, visit.place, outside);
                return None;
            }
            seen = self.word.refresh();
        }
    }

    /// As [`go_on`](Self::go_on), where not only reads are to be looked at.
    #[inline(never)]
    fn go_on_with_all(
        self: &Arc<Self>,
        mut seen: Seen,
        visit: &mut Visit<'_, K, C>,
        mut outside: Outside<K, C>,
    ) -> Option<JobRef<K, C>> {
        let (admitted, owes) = loop {
            // SAFETY: the turn is ours until the word is left.
            let decision = unsafe { self.with_inside(|inside| self.judge(inside, seen, visit, &mut outside)) };
            match decision {
                Decision::Again => {}
                Decision::Closed => {
                    self.empty_inside(seen);
                    break (None, Owes::default());
                }
                Decision::Admit { job, class, lane, held, nested, again } => {
                    if let Some(owes) = self.word.admit(seen, lane, class, again) {
                        self.left_queue(job.meta());
                        held::note(job.meta(), held);
                        break (Some(job), owes);
                    }
                    // SAFETY: as above.
                    unsafe {
                        self.with_inside(|at| self.put_back(at, visit, &mut outside, job, (class, lane), nested));
                    }
                    self.return_held(held, visit);
                }
                Decision::Leave { again } => {
                    if let Some(owes) = self.word.leave(seen, again) {
                        break (None, owes);
                    }
                }
            }
            seen = self.word.refresh();
            // SAFETY: as above.
            unsafe { self.with_inside(|inside| self.take_in(inside, visit, &mut outside)) };
        };
        self.leave_turn(owes, visit.place, outside);
        admitted
    }

    /// Does what leaving the turn owes, and what was put off until then.
    #[inline(always)]
    fn leave_turn(self: &Arc<Self>, owes: Owes, place: Option<Place>, outside: Outside<K, C>) {
        if owes != Owes::default() {
            self.settle_at(owes, outside.front);
        }
        self.give_back(place);
        if !outside.is_empty() {
            self.after(outside);
        }
    }

    /// What was put off until the turn was left.
    #[inline(never)]
    fn after(self: &Arc<Self>, mut outside: Outside<K, C>) {
        let lists = outside.take_lists();
        if let Some(lists) = &lists {
            for job in &lists.gone {
                self.taken_along(job.meta());
            }
            for waiter in &lists.waiters {
                waiter.resolve(Ok(()));
            }
        }
        if let Some(delay) = outside.timer {
            self.shared.wake_later(self, delay);
        }
        if outside.aged {
            self.shared.queue_aged(self);
        }
        if let Some(lists) = lists.filter(|lists| !lists.drops_nothing()) {
            // Not here, where a job may have been admitted and not begun, or is over and not answered: what is dropped may wait for it.
            self.shared.drop_later(lists);
        }
    }

    fn give_back(&self, place: Option<Place>) {
        if let Some(place) = place {
            self.shared.pool.give_place(place);
        }
    }

    /// The admission failed: what it had taken along goes back.
    fn return_held(&self, held: Held, visit: &mut Visit<'_, K, C>) {
        if let Some(permit) = held.permit {
            self.shared.heavy.give(permit);
        }
        if let Some(place) = held.place {
            if visit.place.is_none() {
                visit.place = Some(place);
            } else {
                self.shared.pool.give_place(place);
            }
        }
    }

    fn put_back(
        self: &Arc<Self>,
        inside: &mut Inside<K, C>,
        visit: &mut Visit<'_, K, C>,
        outside: &mut Outside<K, C>,
        job: JobRef<K, C>,
        (class, lane): (LaneClass, LaneKind),
        nested: bool,
    ) {
        if !job.meta().state.unclaim() {
            // Cancelled in between: its room is ours, its answer is not.
            outside.lists().gone.push(job);
            return;
        }
        let queues = queues_of(inside, visit);
        queues.flood = queues.flood_before;
        if nested {
            queues.nested.push_front(job);
        } else {
            queues.put_back(class, lane, job);
        }
        inside.credit += self.price();
    }

    fn judge(
        self: &Arc<Self>,
        inside: &mut Inside<K, C>,
        seen: Seen,
        visit: &mut Visit<'_, K, C>,
        outside: &mut Outside<K, C>,
    ) -> Decision<K, C> {
        if seen.is_closed() {
            return Decision::Closed;
        }
        if inside.queues.is_some() {
            // Read inside the turn: who has it looked at since a time has come finds that it has.
            visit.now = self.shared.now();
        }
        for waiter in self.drains_asked() {
            queues_of(inside, visit).drains.asked.push(waiter);
        }
        let Some(queues) = &mut inside.queues else {
            inside.credit = inside.credit.min(0);
            return Decision::Leave { again: None };
        };
        if self.is_to_be_swept(|| queues.len()) {
            let swept = queues.sweep(&mut outside.lists().trash);
            self.forget_dead(swept);
        }
        intake::unfence(queues, outside);
        if self.has_dead() {
            let purged = queues.purge(&mut outside.lists().trash);
            self.forget_dead(purged);
        }
        if visit.now >= queues.timer {
            queues.timer = u64::MAX;
        }
        if self.drain(queues, seen, outside) {
            return Decision::Again;
        }
        let decision = self.choose(queues, &mut inside.credit, seen, visit, outside);
        outside.front = inside.credit > 0;
        if queues.is_empty() {
            inside.credit = inside.credit.min(0);
            *visit.spare = inside.queues.take();
        }
        decision
    }

    /// Begins and ends drains. True if that changed the word.
    fn drain(&self, queues: &mut Queues<K, C>, seen: Seen, outside: &mut Outside<K, C>) -> bool {
        if seen.is_draining() {
            if self.drain_left() > 0 {
                return false;
            }
            self.word.end_drain();
            outside.lists().waiters.append(&mut queues.drains.going);
            return true;
        }
        if queues.drains.asked.is_empty() {
            return false;
        }
        if seen.is_idle() {
            outside.lists().waiters.append(&mut queues.drains.asked);
            return false;
        }
        self.set_drain(seen.all_running() + seen.all_queued());
        if self.word.begin_drain(seen) {
            queues.drains.going.append(&mut queues.drains.asked);
        }
        true
    }

    fn view(&self, queues: &Queues<K, C>, seen: Seen, now: u64) -> View {
        let mut view = View {
            limits: self.shared.limits,
            order: self.options.order,
            seen,
            now,
            interactive: queues.heads(LaneClass::Interactive),
            maintenance: if seen.queued(LaneClass::Maintenance) > 0 {
                queues.heads(LaneClass::Maintenance)
            } else {
                Default::default()
            },
            reads: queues.depth(LaneClass::Interactive, LaneKind::PureRead),
            oldest_reader: None,
        };
        if view.asks_for_readers(queues.flood, !queues.nested.is_empty()) {
            let readers = self.shared.slots.all().map(|(_, job, _)| job);
            let mine = readers.filter(|job| job.incarnation == self.incarnation && job.lane.is_shared());
            view.oldest_reader = mine.map(|job| job.started).min();
        }
        view
    }

    fn choose(
        self: &Arc<Self>,
        queues: &mut Queues<K, C>,
        credit: &mut i64,
        seen: Seen,
        visit: &mut Visit<'_, K, C>,
        outside: &mut Outside<K, C>,
    ) -> Decision<K, C> {
        let view = self.view(queues, seen, visit.now);
        queues.flood_before = queues.flood;
        let builds = [view.interactive, view.maintenance].map(|heads| heads[LaneKind::HeavyInit as usize].is_some());
        self.leave_lines(&mut queues.lines, builds, view.is_free(LaneKind::HeavyInit));
        let aged = view.maintenance_is_aged();
        self.note_overdue(aged);
        let kept_out = match self.admit_nested(queues, &view, true, outside) {
            Ok(decision) => return decision,
            Err(until) => until,
        };
        if aged && let Some(decision) = self.maintenance(queues, &view, visit, outside, true) {
            return decision;
        }
        if *credit <= 0 && !visit.alone && seen.queued(LaneClass::Interactive) > 0 && visit.place.is_none() {
            self.maintenance_comes_after(&mut queues.lines, aged);
            return Decision::Leave { again: Some(LaneClass::Interactive) };
        }
        let mut flood = queues.flood;
        let found = view.interactive(&mut flood);
        queues.flood = flood;
        for lane in found.tries {
            let class = LaneClass::Interactive;
            if queues.nested_went
                && view.comes_after_reads(lane, flood)
                && let Ok(decision) = self.admit_nested(queues, &view, false, outside)
            {
                return decision;
            }
            let mut held = Held::default();
            if lane == LaneKind::HeavyInit {
                held.permit = self.shared.heavy.obtain(self, &mut queues.lines, class);
                if held.permit.is_none() {
                    continue;
                }
            }
            if let Some(decision) = self.take(queues, view.seen, (class, lane), held, outside) {
                if matches!(decision, Decision::Admit { .. }) {
                    self.maintenance_comes_after(&mut queues.lines, aged);
                    queues.nested_went = false;
                    view.admitted(lane, &mut queues.flood);
                    *credit -= self.price();
                }
                return decision;
            }
        }
        // Of those before them none may go.
        if queues.nested_went
            && let Ok(decision) = self.admit_nested(queues, &view, false, outside)
        {
            return decision;
        }
        if !view.lets_maintenance() {
            self.maintenance_comes_after(&mut queues.lines, aged);
        } else if let Some(decision) = self.maintenance(queues, &view, visit, outside, false) {
            return decision;
        }
        self.arm(queues, &view, [found.until, kept_out].into_iter().flatten().min(), outside);
        Decision::Leave { again: None }
    }

    /// Takes the first of the reads that readers have submitted, if one may go; else until when they are kept out.
    fn admit_nested(
        self: &Arc<Self>,
        queues: &mut Queues<K, C>,
        view: &View,
        others: bool,
        outside: &mut Outside<K, C>,
    ) -> Result<Decision<K, C>, Option<u64>> {
        match self.nested(queues, view, others) {
            Nested::Goes(job) if claim(&job) => {
                let (class, lane) = (job.meta().class(), job.meta().lane());
                let again = Some(LaneClass::Interactive);
                // It is one of the reads that may start before the next writer, like any other.
                view.admitted(lane, &mut queues.flood);
                Ok(Decision::Admit { job, class, lane, held: Held::default(), nested: true, again })
            }
            Nested::Goes(job) => {
                self.forget_dead(1);
                outside.lists().trash.push(job);
                Ok(Decision::Again)
            }
            Nested::KeptOut(until) => Err(until),
        }
    }

    /// Takes the head of a lane that may run, with what it needs of process-wide things. None: it was taken out just now.
    fn take(
        &self,
        queues: &mut Queues<K, C>,
        seen: Seen,
        (class, lane): (LaneClass, LaneKind),
        held: Held,
        outside: &mut Outside<K, C>,
    ) -> Option<Decision<K, C>> {
        let job = queues.pop(class, lane)?;
        if !claim(&job) {
            self.forget_dead(1);
            outside.lists().trash.push(job);
            if let Some(permit) = held.permit {
                self.shared.heavy.give(permit);
            }
            if let Some(place) = held.place {
                self.shared.pool.give_place(place);
            }
            return Some(Decision::Again);
        }
        // A writer's own end has the actor looked at again; before that nothing can start.
        let again = (lane != LaneKind::Mutating && seen.all_queued() > 1).then(|| seen.next_after(class));
        // Of two permits that came to it at once a build has one: whatever else is queued, the other is to go back.
        let keeps = lane == LaneKind::HeavyInit && !self.grants.is_empty();
        let again = again.or(keeps.then_some(LaneClass::Interactive));
        Some(Decision::Admit { job, class, lane, held, nested: false, again })
    }

    /// Takes the oldest maintenance job, if it may run. A decision also if it may, and there is no place for it.
    fn maintenance(
        self: &Arc<Self>,
        queues: &mut Queues<K, C>,
        view: &View,
        visit: &mut Visit<'_, K, C>,
        outside: &mut Outside<K, C>,
        aged: bool,
    ) -> Option<Decision<K, C>> {
        let (lane, _) = view.next_maintenance()?;
        if !view.is_free(lane) {
            self.pass_on(&mut queues.lines, LaneClass::Maintenance);
            return None;
        }
        let class = LaneClass::Maintenance;
        let mut held = Held::default();
        if lane == LaneKind::HeavyInit {
            held.permit = Some(self.shared.heavy.obtain(self, &mut queues.lines, class)?);
        }
        held.place = visit.place.take().or_else(|| self.shared.pool.take_place(aged));
        if held.place.is_none() {
            if let Some(permit) = held.permit {
                self.shared.heavy.give(permit);
            }
            outside.aged |= aged;
            return (!aged).then(|| {
                self.arm(queues, view, None, outside);
                Decision::Leave { again: Some(class) }
            });
        }
        queues.nested_went = false;
        self.take(queues, view.seen, (class, lane), held, outside)
    }

    /// Has the actor looked at when time alone changes what may run.
    fn arm(&self, queues: &mut Queues<K, C>, view: &View, until: Option<u64>, outside: &mut Outside<K, C>) {
        let at = [view.wakes_at(), until].into_iter().flatten().min();
        if let Some(at) = at.filter(|at| *at < queues.timer) {
            queues.timer = at;
            outside.timer = Some(at.saturating_sub(view.now));
        }
    }
}

/// The queues of the actor; the spare ones, or new ones, if it has none.
pub(super) fn queues_of<'a, K, C>(
    inside: &'a mut Inside<K, C>,
    visit: &mut Visit<'_, K, C>,
) -> &'a mut Box<Queues<K, C>> {
    let spare = || visit.spare.take().map_or_else(|| Box::new(Queues::new()), Queues::anew);
    inside.queues.get_or_insert_with(spare)
}
