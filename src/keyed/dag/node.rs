//! A node of a graph that runs: its word, its job until that is taken, and why it failed once it has.
//! It does not know its edges, nor who runs it.

use super::super::kind::{Disposition, TaskKind};
use super::super::semaphore;
use super::body::Body;
use super::builder::{Job, NONE};
use super::error::DagFailure;
use super::joined::{Joined, Turn};
use super::limited::InLine;
use super::links::More;
use super::word::{Cancel, Seen, Word};
use crate::flight::{CancellationToken, Interrupt, drop_contained, trampoline};
use crate::runtime::Priority;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::cell::UnsafeCell;
use crate::sync::{Arc, OnceLock, Weak};

/// In a number of a node: it was interrupted. So a failure of its own goes before.
const INTERRUPTED: u32 = 1 << 31;

/// What lies in a node.
enum Inside {
    /// What it is to do.
    Job(Job),
    /// Nothing: it runs, or has ended well.
    Nothing,
    /// Why it failed.
    Failure(Arc<DagFailure>),
}

/// What few nodes have.
#[derive(Default)]
pub(super) struct Cold {
    /// What its job asked for to hand on.
    pub(super) token: OnceLock<CancellationToken>,
    /// Edges that were added while it ran.
    pub(super) more: OnceLock<Box<More>>,
    /// The computation that it waits for.
    pub(super) joined: OnceLock<Weak<Joined>>,
    /// The line for a permit that it stands in.
    pub(super) line: OnceLock<Weak<semaphore::InLine>>,
}

pub(crate) struct Node {
    word: Word,
    /// The node whose edge into this one stayed shut: of several one that failed by itself, and of those the first by number.
    shut_by: AtomicU32,
    /// Its place among the extras, or `NONE`.
    pub(crate) extra: u32,
    pub(crate) kind: TaskKind,
    cold: OnceLock<Box<Cold>>,
    inside: UnsafeCell<Inside>,
}

// SAFETY: what lies inside is touched by who has the node (`Held`, one thread at a time, handed on by the word), and is only read
// once the word says that it is over. Jobs are Send, and only their holder touches them; failures are Send and Sync.
unsafe impl Sync for Node {}

/// The right to queue or to start a node: who took its last gate has it.
#[must_use = "a ready node is queued or started by who made it ready"]
pub(crate) struct Ready<'a> {
    node: &'a Node,
    pub(crate) seen: Seen,
}

/// The right to run a node, or to end it without.
#[must_use = "a node that was started must be ended"]
pub(crate) struct Held<'a> {
    node: &'a Node,
    pub(crate) seen: Seen,
}

impl Node {
    pub(crate) fn new(job: Job, kind: TaskKind, extra: u32, word: Word) -> Self {
        let (shut_by, cold) = (AtomicU32::new(NONE), OnceLock::new());
        Self { word, shut_by, extra, kind, cold, inside: UnsafeCell::new(Inside::Job(job)) }
    }

    #[inline]
    pub(crate) fn load(&self) -> Seen {
        self.word.load()
    }

    /// What few nodes have, made now if it has nothing of that yet.
    pub(super) fn cold(&self) -> &Cold {
        self.cold.get_or_init(Box::default)
    }

    /// The same, if it has.
    #[inline]
    pub(super) fn has_cold(&self) -> Option<&Cold> {
        self.cold.get().map(|cold| &**cold)
    }

    fn ready(&self, seen: Option<Seen>) -> Option<Ready<'_>> {
        seen.map(|seen| Ready { node: self, seen })
    }

    /// An edge into it opens; see [`Word::open`].
    #[inline]
    pub(crate) fn open(&self) -> Option<Ready<'_>> {
        self.ready(self.word.open())
    }

    /// An edge into it opens behind a node that was cancelled.
    pub(crate) fn pass(&self) -> Option<Ready<'_>> {
        self.ready(self.word.pass())
    }

    /// The edge from `by` stays shut, which was perhaps only interrupted.
    pub(crate) fn shut(&self, by: u32, interrupted: bool) -> Option<Ready<'_>> {
        let by = if interrupted { by | INTERRUPTED } else { by };
        // ordering: read by who takes the last gate, after this one's subtraction.
        self.shut_by.fetch_min(by, Ordering::Relaxed);
        self.ready(self.word.shut())
    }

    /// Goes on with it after [`Held::put_down`]: whoever has a turn is the only one.
    pub(super) fn unpark(&self, _turn: Turn) -> Held<'_> {
        Held { node: self, seen: self.load() }
    }

    /// As `unpark`, for who stood in line.
    pub(super) fn unpark_in_line(&self, _turn: InLine) -> Held<'_> {
        Held { node: self, seen: self.load() }
    }

    /// One edge more leads into it, unless it is ready or further.
    pub(super) fn add_gate(&self) -> bool {
        self.word.add_gate()
    }

    /// Somebody adds to the graph behind it; see [`Word::grow`].
    pub(super) fn grow(&self) -> Result<(), Seen> {
        self.word.grow()
    }

    /// One of those is done; see [`Word::ungrow`].
    pub(super) fn ungrow(&self) -> Option<Seen> {
        self.word.ungrow()
    }

    /// Makes it as urgent as `priority`; see [`Word::urge`].
    pub(super) fn urge(&self, priority: Priority) -> Option<Seen> {
        self.word.urge(priority)
    }

    /// Takes it, if nobody has.
    pub(crate) fn claim(&self) -> Option<Held<'_>> {
        self.word.claim().map(|seen| Held { node: self, seen })
    }

    /// Cancels it, unless it is over.
    pub(crate) fn cancel(&self) -> Cancel {
        self.word.cancel()
    }

    /// The node whose edge into this one stayed shut, if one has. For who holds it.
    pub(crate) fn shut_by(&self) -> Option<u32> {
        let by = self.shut_by.load(Ordering::Relaxed);
        (by != NONE).then_some(by & !INTERRUPTED)
    }

    /// Why it failed, if it is over and has.
    pub(crate) fn failure(&self) -> Option<Arc<DagFailure>> {
        let seen = self.load();
        if !seen.is_over() || seen.disposition() != Disposition::Failed {
            return None;
        }
        if seen.is_cancelled() {
            return Some(Arc::new(DagFailure::Interrupted(Interrupt::Cancelled)));
        }
        self.inside.with(|inside| {
            // SAFETY: it is over, which was read with Acquire, and nobody writes after that.
            match unsafe { &*inside } {
                Inside::Failure(failure) => Some(failure.clone()),
                Inside::Job(_) | Inside::Nothing => None,
            }
        })
    }
}

impl<'a> Ready<'a> {
    pub(crate) fn node(&self) -> &'a Node {
        self.node
    }

    /// Says that a ticket of it goes out, for the priority that is returned.
    #[inline]
    pub(crate) fn queue(self) -> Priority {
        self.node.word.queue().priority()
    }

    /// Starts it at once.
    #[inline]
    pub(crate) fn start(self) -> Held<'a> {
        Held { node: self.node, seen: self.node.word.start() }
    }
}

impl<'a> Held<'a> {
    pub(crate) fn node(&self) -> &'a Node {
        self.node
    }

    /// Puts a job back that was not begun.
    pub(super) fn put_job(&mut self, job: Job) {
        self.node.inside.with_mut(|inside| {
            // SAFETY: as in `take_job`.
            unsafe { *inside = Inside::Job(job) };
        });
    }

    /// Its job, once.
    #[inline]
    pub(crate) fn take_job(&mut self) -> Option<Job> {
        let inside = self.node.inside.with_mut(|inside| {
            // SAFETY: the node is held, by us alone.
            std::mem::replace(unsafe { &mut *inside }, Inside::Nothing)
        });
        match inside {
            Inside::Job(job) => Some(job),
            Inside::Nothing | Inside::Failure(_) => None,
        }
    }

    /// Its job, once, if that is a call.
    #[inline]
    pub(crate) fn take_call(&mut self) -> Option<Body> {
        self.node.inside.with_mut(|inside| {
            // SAFETY: as in `take_job`.
            let inside = unsafe { &mut *inside };
            if !matches!(inside, Inside::Job(Job::Call(_))) {
                return None;
            }
            match std::mem::replace(inside, Inside::Nothing) {
                Inside::Job(Job::Call(body)) => Some(body),
                _ => None,
            }
        })
    }

    /// Leaves it to whoever gets the one turn at it that there is.
    pub(super) fn put_down(self) {}

    /// It is over: so it ended, or the cancel that came before is its outcome. The word as it is now.
    #[inline]
    pub(crate) fn end(self, result: Result<Disposition, DagFailure>) -> Seen {
        match result {
            Ok(disposition) => self.node.word.end(disposition),
            Err(failure) => self.fail(failure),
        }
    }

    #[cold]
    fn fail(mut self, failure: DagFailure) -> Seen {
        if let Some(job) = self.take_job() {
            // It was not run: the host's, before anybody hears of the end.
            trampoline::dispose(job);
        }
        self.node.inside.with_mut(|inside| {
            // SAFETY: as in `take_job`.
            unsafe { *inside = Inside::Failure(Arc::new(failure)) };
        });
        self.node.word.end(Disposition::Failed)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let inside = self.inside.with_mut(|inside| {
            // SAFETY: nobody else has it any more.
            std::mem::replace(unsafe { &mut *inside }, Inside::Nothing)
        });
        if !matches!(inside, Inside::Nothing) {
            drop_contained(inside);
        }
    }
}
