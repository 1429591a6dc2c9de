//! One run: the section in which it is decided, the section in which it is told, and the jobs between.
//! It does not know the rules by which the machine decides, nor what bodies do.
#![forbid(unsafe_code)]

use super::course::{Course, OnCourse};
use super::ended::TaskFailure;
use super::ids::TaskId;
use super::machine::{Effect, End, Finish, Machine};
use super::observer::{Lines, RunObserver};
use super::outcome::{Ledger, RunReport, TaskOutcome};
use super::policy::{PolicyWaker, Usage};
use super::status::TaskStatus;
use super::task::{Launch, Ran, TaskCx};
use crate::flight::combine::{Left, ROUNDS_MAX, Section};
use crate::flight::{Asleep, CancellationToken, Contained, Entered, catch, spawn_future_with};
use crate::runtime::{Job, Place, Spawner, current_pool};
use crate::sync::{Arc, Weak};
use ahash::AHashMap;
use std::future::Future;
use std::time::Duration;

/// Calls the host's body.
pub(crate) trait Body<X: Send + Sync + 'static>: Send + Sync {
    /// Runs the body to its end, or makes the future that it is.
    fn run(&self, cx: &TaskCx<X>) -> Ran<X>;
}

/// What the run is told.
pub(crate) enum Message<X> {
    Begin(Option<Entered>),
    Ended(EndedMessage<X>),
    Settled(u32),
    Abort,
    ServerDied(u32),
    ServerExited(u32),
    Woken { outside: bool },
}

pub(crate) struct EndedMessage<X> {
    outcome: TaskOutcome<X>,
    end: End,
    usage: Usage,
    failure: Option<Box<TaskFailure>>,
    /// On the runtime's clock.
    at: Duration,
}

impl<X> Message<X> {
    pub(crate) fn ended(
        outcome: TaskOutcome<X>,
        end: End,
        usage: Usage,
        failure: Option<TaskFailure>,
        at: Duration,
    ) -> Self {
        Message::Ended(EndedMessage { outcome, end, usage, failure: failure.map(Box::new), at })
    }
}

/// What the host is told.
enum News {
    Finished(u32),
    Failure(u32, TaskFailure),
    Warning(String),
    Stop,
    Over,
}

/// What is inside the section of decisions.
pub(crate) struct Decider<X> {
    machine: Machine,
    /// Kept for its room.
    effects: Vec<Effect>,
    /// Outcomes of tasks that owe.
    owing: AHashMap<u32, TaskOutcome<X>>,
    aborted: bool,
    /// Until the run is over, if it may wait for its policies, with nothing of it in any queue.
    entered: Option<Entered>,
}

/// What is inside the section of telling.
struct Teller {
    lines: Lines,
    warnings: Vec<String>,
}

/// One run.
pub(crate) struct Engine<X: Send + Sync + 'static> {
    pub(crate) ledger: Arc<Ledger<X>>,
    pub(crate) body: Contained<Box<dyn Body<X>>>,
    pub(crate) course: Course<RunReport<X>>,
    /// Cancelled when bodies should stop.
    pub(crate) stop: CancellationToken,
    decide: Section<Message<X>, Decider<X>>,
    tell: Section<News, Teller>,
    observer: Contained<Box<dyn RunObserver<X>>>,
    observed: bool,
    me: Weak<Self>,
}

/// What a run is made of.
pub(crate) struct Parts<X: Send + Sync + 'static> {
    pub(crate) ledger: Arc<Ledger<X>>,
    pub(crate) body: Box<dyn Body<X>>,
    pub(crate) spawner: Spawner,
    pub(crate) place: Place,
    pub(crate) stop: CancellationToken,
    pub(crate) machine: Machine,
    pub(crate) observer: Option<Box<dyn RunObserver<X>>>,
}

impl<X: Send + Sync + 'static> Engine<X> {
    pub(crate) fn new(parts: Parts<X>) -> Arc<Self> {
        let Parts { ledger, body, spawner, place, stop, machine, observer } = parts;
        let decider = Decider { machine, effects: Vec::new(), owing: AHashMap::new(), aborted: false, entered: None };
        let teller = Teller { lines: Lines::default(), warnings: Vec::new() };
        Arc::new_cyclic(|me| Self {
            ledger,
            body: Contained::new(body),
            course: Course::new(spawner, place),
            stop,
            decide: Section::new(decider),
            tell: Section::new(teller),
            observed: observer.is_some(),
            observer: Contained::new(observer.unwrap_or_else(|| Box::new(super::observer::Nobody))),
            me: me.clone(),
        })
    }

    /// The run begins. One that `has_policies` may come to wait for them alone: then a shutdown finds it.
    pub(crate) fn begin(&self, has_policies: bool) {
        let me: Weak<dyn Asleep> = self.me.clone();
        let entered = if has_policies { Entered::enter(&self.course.spawner, me) } else { None };
        if has_policies && entered.is_none() {
            self.submit(Message::Abort);
        }
        self.submit(Message::Begin(entered));
    }

    /// Tells the run something, and decides what follows if nobody else does.
    pub(crate) fn submit(&self, message: Message<X>) {
        let mut duties = Duties::default();
        let left =
            self.decide.bring(message, ROUNDS_MAX, |decider, message| self.decide(decider, message, &mut duties));
        if !self.is_served(duties, left) {
            self.serve();
        }
    }

    /// Decides for a while, then lets somebody else go on.
    fn serve(&self) {
        loop {
            let mut duties = Duties::default();
            let left = self.decide.serve(ROUNDS_MAX, |decider, message| self.decide(decider, message, &mut duties));
            if self.is_served(duties, left) {
                return;
            }
        }
    }

    /// Does outside what was decided inside. False if the caller has to go on deciding.
    fn is_served(&self, duties: Duties, left: Left) -> bool {
        if let Some(job) = duties.hot {
            self.course.push_hot(job);
        }
        if duties.tell {
            self.tell_all();
        }
        left == Left::Nothing || self.hand_over(Baton::Decide)
    }

    /// Sends somebody else to go on serving. False after a shutdown: then few arrive, and the caller goes on.
    fn hand_over(&self, which: fn(Arc<Self>) -> Baton<X>) -> bool {
        let Some(me) = self.me.upgrade().filter(|_| !self.course.spawner.is_closed()) else { return false };
        let baton = which(me);
        // Dropped unrun, it serves where it is dropped.
        self.course.push(Job::new(move || drop(baton)));
        true
    }

    /// A body will never be run, since the runtime dropped it: the run cannot go on.
    pub(crate) fn lost(&self, task: u32) {
        let outcome = TaskOutcome::unrun(task, TaskStatus::Aborted);
        let end = End::Outcome { status: TaskStatus::Aborted, owes: false };
        self.submit(Message::Abort);
        self.submit(Message::ended(outcome, end, Usage::default(), None, self.course.spawner.now()));
    }

    /// Polls a future of the run's until it is over. Nobody waits for it by handle.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        spawn_future_with(&self.course.spawner, self.course.place, future).detach();
    }

    fn decide(&self, decider: &mut Decider<X>, message: Message<X>, duties: &mut Duties) {
        let Decider { machine, effects, owing, aborted, entered } = decider;
        let now = match &message {
            _ if !machine.is_timed() => Duration::ZERO,
            Message::Ended(ended) => ended.at.saturating_sub(self.course.began),
            _ => self.course.spawner.now().saturating_sub(self.course.began),
        };
        let mut outcome = None;
        match message {
            Message::Begin(asleep) => {
                *entered = asleep;
                machine.begin(now, &self.policy_waker());
            }
            Message::Ended(ended) => {
                let EndedMessage { outcome: of, end, usage, failure, at: _ } = ended;
                let task = of.task;
                if let Some(failure) = failure.filter(|_| !machine.is_stopping()) {
                    self.news(News::Failure(task, *failure), duties);
                }
                if matches!(end, End::Outcome { owes: true, .. }) {
                    owing.insert(task, of);
                } else {
                    outcome = Some(of);
                }
                machine.ended(task, end, usage, now);
            }
            Message::Settled(task) => {
                outcome = owing.remove(&task);
                machine.settled(task, now);
            }
            Message::Abort => {
                if !std::mem::replace(aborted, true) {
                    self.news(News::Stop, duties);
                }
                machine.abort(now);
            }
            Message::ServerDied(task) => machine.server_died(task, now),
            Message::ServerExited(task) => machine.server_exited(task, now),
            Message::Woken { outside } => machine.woken(outside, now),
        }
        machine.take_effects(effects);
        for effect in effects.drain(..) {
            self.carry_out(effect, &mut outcome, now, duties);
        }
        if duties.over {
            duties.over = false;
            *entered = None;
            machine.end();
            machine.take_effects(effects);
            for effect in effects.drain(..) {
                self.carry_out(effect, &mut outcome, now, duties);
            }
            self.news(News::Over, duties);
        }
    }

    fn carry_out(&self, effect: Effect, outcome: &mut Option<TaskOutcome<X>>, now: Duration, duties: &mut Duties) {
        match effect {
            Effect::Start { task, again, tainted } => {
                let Some(me) = self.me.upgrade() else { unreachable!("whoever decides holds the run") };
                let launch = Launch::new(me, task, again, tainted);
                let job = Job::new(move || launch.run());
                // On a worker of the pool the best one runs next there; elsewhere all are queued in order.
                if duties.hot.is_none() && current_pool(&self.course.spawner) == Some(self.course.place.pool) {
                    duties.hot = Some(job);
                } else {
                    self.course.push(job);
                }
            }
            Effect::Finish(finish) => self.finish(finish, outcome, duties),
            Effect::Kill => self.news(News::Stop, duties),
            Effect::At(at) => {
                let me = self.me.clone();
                let wake = move || {
                    if let Some(me) = me.upgrade() {
                        me.submit(Message::Woken { outside: false });
                    }
                };
                self.course.spawner.after(at.saturating_sub(now), Job::new(wake));
            }
            Effect::Warn(text) => self.news(News::Warning(text), duties),
            Effect::Over => duties.over = true,
        }
    }

    /// Writes an outcome down, once.
    fn finish(&self, finish: Finish, outcome: &mut Option<TaskOutcome<X>>, duties: &mut Duties) {
        // One that was to start and was not begun, since the run stopped meanwhile, has not run.
        let told = outcome.take_if(|outcome| finish.ran && outcome.task == finish.task);
        let mut kept = told.unwrap_or_else(|| TaskOutcome::unrun(finish.task, finish.status));
        kept.status = finish.status;
        kept.tainted = finish.tainted;
        kept.slot_wait = finish.slot_wait;
        kept.held = finish.held;
        kept.block(finish.blocked_by);
        let written = self.ledger.outcomes[finish.task as usize].set(kept);
        debug_assert!(written.is_ok(), "a task has one outcome");
        if self.observed {
            self.news(News::Finished(finish.task), duties);
        }
    }

    /// Leaves news for the host; it is told once the decision is left.
    fn news(&self, news: News, duties: &mut Duties) {
        duties.tell |= self.tell.enter(news) == Left::Serve;
    }

    pub(crate) fn tell_started(&self, task: u32) {
        if !self.observed {
            return;
        }
        if let Err(report) = catch(|| self.observer.started(&self.ledger.plan, TaskId(task))) {
            let label = self.ledger.plan.label(TaskId(task));
            let text = format!("the observer's `started` for {label} {report}");
            if self.tell.enter(News::Warning(text)) == Left::Serve {
                self.tell_all();
            }
        }
    }

    fn tell_all(&self) {
        while self.tell.serve(ROUNDS_MAX, |teller, news| self.tell(teller, news)) == Left::Serve {
            if self.hand_over(Baton::Tell) {
                return;
            }
        }
    }

    fn tell(&self, teller: &mut Teller, news: News) {
        let plan = &self.ledger.plan;
        match news {
            News::Finished(task) => {
                let Some(outcome) = self.ledger.get(task) else { return };
                if let Err(report) = catch(|| self.observer.finished(plan, outcome)) {
                    let label = plan.label(TaskId(task));
                    self.warn(teller, format!("the observer's `finished` for {label} {report}"));
                }
            }
            News::Failure(task, failure) => {
                let line = teller.lines.line(plan, TaskId(task), &failure);
                if let Err(report) = catch(|| self.observer.error_line(plan, TaskId(task), &line)) {
                    eprintln!("{line}");
                    self.warn(teller, format!("the observer's `error_line` {report}"));
                }
            }
            News::Warning(text) => self.warn(teller, text),
            News::Stop => self.stop.cancel(),
            News::Over => {
                let warnings = std::mem::take(&mut teller.warnings);
                self.course.end(|elapsed| RunReport { ledger: self.ledger.clone(), elapsed, warnings });
            }
        }
    }

    fn warn(&self, teller: &mut Teller, text: String) {
        if catch(|| self.observer.warning(&text)).is_err() {
            eprintln!("shardrun: {text}");
        }
        teller.warnings.push(text);
    }

    fn policy_waker(&self) -> PolicyWaker {
        let me = self.me.clone();
        PolicyWaker(Arc::new(move || {
            if let Some(me) = me.upgrade() {
                me.submit(Message::Woken { outside: true });
            }
        }))
    }
}

/// What a server has to do once it is outside.
#[derive(Default)]
struct Duties {
    /// To be run next on this worker.
    hot: Option<Job>,
    tell: bool,
    over: bool,
}

/// The duty to go on serving a section.
enum Baton<X: Send + Sync + 'static> {
    Decide(Arc<Engine<X>>),
    Tell(Arc<Engine<X>>),
}

impl<X: Send + Sync + 'static> Drop for Baton<X> {
    fn drop(&mut self) {
        match self {
            Baton::Decide(engine) => engine.serve(),
            Baton::Tell(engine) => engine.tell_all(),
        }
    }
}

/// A shutdown drops what lies in queues, and what is dropped ends the run. This is for a run of which nothing does.
impl<X: Send + Sync + 'static> Asleep for Engine<X> {
    fn closed(&self) {
        self.submit(Message::Abort);
    }
}

impl<X: Send + Sync + 'static> OnCourse for Engine<X> {
    type Report = RunReport<X>;

    fn course(&self) -> &Course<RunReport<X>> {
        &self.course
    }

    fn describe(&self) -> String {
        format!("run of {} tasks", self.ledger.plan.len())
    }

    fn abort(&self) {
        self.submit(Message::Abort);
    }
}
