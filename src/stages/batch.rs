//! Batches: one ticket for many members of one kind, and the handle of what was asked together.
//! It does not know what the members ask for.
#![forbid(unsafe_code)]

use super::error::StageError;
use super::host::{Host, Stage};
use super::many::{self, Pieces};
use super::request::{StageHandle, StageValue};
use super::run::After;
use super::slot::{Kind, Slot};
use super::ticket;
use crate::flight::{Handle, Killed};
use crate::runtime::Job;
use crate::sync::Arc;
use smallvec::SmallVec;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The members of a batch that ask for one stage at one priority.
struct Members<H: Host> {
    slots: Slots<H>,
    kind: Kind,
}

/// Slots that share a ticket.
type Slots<H> = Vec<Arc<Slot<H>>>;

/// Slots of one scheduler that call for tickets together: they get one for each stage and priority.
pub(crate) struct Posts<H: Host> {
    groups: SmallVec<[(Kind, Slots<H>); 1]>,
    room: usize,
}

impl<H: Host> Posts<H> {
    /// Of so many slots, as far as that is known.
    pub(crate) fn of(room: usize) -> Self {
        Self { groups: SmallVec::new(), room }
    }

    /// A slot calls for a ticket. What it stands for has been made visible before.
    #[inline]
    pub(crate) fn add(&mut self, slot: Arc<Slot<H>>, kind: Kind) {
        // Most call for the same.
        match self.groups.first_mut() {
            Some((group, slots)) if *group == kind => slots.push(slot),
            _ => self.add_to_others(slot, kind),
        }
    }

    fn add_to_others(&mut self, slot: Arc<Slot<H>>, kind: Kind) {
        match self.groups.iter_mut().find(|(group, _)| *group == kind) {
            Some((_, slots)) => slots.push(slot),
            None => {
                let mut slots = Vec::with_capacity(self.room);
                slots.push(slot);
                self.groups.push((kind, slots));
            }
        }
    }

    /// Queues the tickets. Outside every section and pin.
    pub(crate) fn queue(self) {
        for (kind, slots) in self.groups {
            match &slots[..] {
                [slot] => slot.post(kind),
                [_, ..] => many::push(Members { slots, kind }),
                [] => {}
            }
        }
    }
}

impl<H: Host> Pieces for Members<H> {
    fn queue(&self, ticket: Job) {
        self.slots[0].shared().queue(self.kind, ticket);
    }

    fn len(&self) -> usize {
        self.slots.len()
    }

    fn run(&self, at: usize, after: After) {
        ticket::look(&self.slots[at], self.kind, after);
    }

    fn end(&self, first: usize) {
        self.slots[first..].iter().for_each(|slot| slot.end(Killed::Shutdown));
    }
}

/// The result of one member.
pub type StageResult<H> = Result<StageValue<H>, StageError<H>>;

/// The handles of what was asked together, in the order in which it was asked.
///
/// It is a future of the results of all of them, in that order; awaiting costs in proportion to the members, however they end.
#[must_use = "dropping a handle detaches the work and loses its result"]
pub struct BatchHandle<H: Host> {
    members: Vec<Member<H>>,
    /// Every member before this one has its result.
    answered: usize,
}

enum Member<H: Host> {
    Waiting(StageHandle<H>),
    Answered(Stage, StageResult<H>),
}

impl<H: Host> BatchHandle<H> {
    pub(crate) fn new(handles: Vec<StageHandle<H>>) -> Self {
        Self { members: handles.into_iter().map(Member::Waiting).collect(), answered: 0 }
    }

    /// How many requests the batch had.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether the batch was empty.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Waits for every member and gives the results in the order of the requests, whatever the order in which they ended; may be
    /// asked again, and so this keeps them. Waiting is as with [`Handle::wait`](crate::Handle::wait), one member after the other.
    pub fn wait(&mut self) -> Vec<StageResult<H>> {
        self.members.iter_mut().map(Member::wait).collect()
    }

    /// Whether every member has its result.
    pub fn is_resolved(&self) -> bool {
        self.members.iter().all(|member| match member {
            Member::Waiting(handle) => handle.is_resolved(),
            Member::Answered(..) => true,
        })
    }

    /// Withdraws every member, as [`Handle::cancel`](crate::Handle::cancel) does.
    pub fn cancel(&self) {
        for member in &self.members {
            if let Member::Waiting(handle) = member {
                handle.cancel();
            }
        }
    }

    /// The members' handles, in the order of the requests. A member whose result was taken by [`wait`](Self::wait) has it still.
    pub fn into_handles(self) -> Vec<StageHandle<H>> {
        self.members.into_iter().map(Member::into_handle).collect()
    }
}

/// As [`Handle::wait_in_place`].
fn wait_in_place<H: Host>(handle: &mut StageHandle<H>) -> (StageResult<H>, bool) {
    match handle {
        StageHandle::Source(handle) => in_place(handle, StageValue::Source),
        StageHandle::Analysis(handle) => in_place(handle, StageValue::Analysis),
        StageHandle::Artifact(handle) => in_place(handle, StageValue::Artifact),
    }
}

fn in_place<T: Send + 'static, H: Host>(
    handle: &mut Handle<T, StageError<H>>,
    value: impl FnOnce(T) -> StageValue<H>,
) -> (StageResult<H>, bool) {
    let (result, is_here) = handle.wait_in_place();
    (result.map(value), is_here)
}

impl<H: Host> Member<H> {
    fn wait(&mut self) -> StageResult<H> {
        let (stage, result) = match self {
            Self::Answered(_, result) => return result.clone(),
            Self::Waiting(handle) => match wait_in_place(handle) {
                // It may be asked again.
                (result, true) => return result,
                (result, false) => (handle.stage(), result),
            },
        };
        *self = Self::Answered(stage, result.clone());
        result
    }

    fn into_result(self) -> StageResult<H> {
        match self {
            Self::Answered(_, result) => result,
            Self::Waiting(_) => unreachable!("it was answered before"),
        }
    }

    fn into_handle(self) -> StageHandle<H> {
        match self {
            Self::Waiting(handle) => handle,
            Self::Answered(stage, result) => StageHandle::ready(stage, result),
        }
    }
}

impl<H: Host> Future for BatchHandle<H> {
    type Output = Vec<StageResult<H>>;

    /// # Panics
    /// If it is polled again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        // One after the other: who is not the first that waits wakes nobody.
        while let Some(member) = this.members.get_mut(this.answered) {
            if let Member::Waiting(handle) = member {
                let Poll::Ready(result) = Pin::new(&mut *handle).poll(cx) else { return Poll::Pending };
                *member = Member::Answered(handle.stage(), result);
            }
            this.answered += 1;
        }
        assert!(this.answered < usize::MAX, "a future is ready once");
        this.answered = usize::MAX;
        Poll::Ready(std::mem::take(&mut this.members).into_iter().map(Member::into_result).collect())
    }
}

// Nothing in it is ever pinned.
impl<H: Host> Unpin for BatchHandle<H> {}

impl<H: Host> fmt::Debug for BatchHandle<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchHandle").field("len", &self.len()).finish_non_exhaustive()
    }
}
