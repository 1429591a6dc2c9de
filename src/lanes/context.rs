//! What a lane job sees while it runs: its actor's context, its ticket, and whether it should end or step aside.
//! It does not know how the job came to run.

#![forbid(unsafe_code)]

use super::answer::LaneError;
use super::cancel::LaneTicket;
use super::job::JobRef;
use crate::flight::CancellationToken;
use crate::sync::Arc;
use std::fmt;

/// What a job sees of its actor and of itself. Clones are the same.
pub struct LaneCx<K, C> {
    pub(super) job: JobRef<K, C>,
}

impl<K, C> Clone for LaneCx<K, C> {
    fn clone(&self) -> Self {
        Self { job: self.job.clone() }
    }
}

impl<K, C> fmt::Debug for LaneCx<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneCx").field("lane", &self.job.meta().lane()).finish_non_exhaustive()
    }
}

impl<K, C> LaneCx<K, C> {
    /// The context that the actor was registered with.
    #[must_use]
    pub fn context(&self) -> &Arc<C> {
        &self.job.meta().actor().context
    }

    /// The actor's key.
    #[must_use]
    pub fn key(&self) -> &K {
        &self.job.meta().actor().key
    }

    /// The number of this registration of the actor, never used again.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.job.meta().actor().incarnation
    }

    /// The number that the job was submitted with.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.job.meta().brought.id
    }

    /// Whether a cancel has won: the job should end as soon as it can.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.job.meta().state.is_signalled()
    }

    /// A checkpoint.
    ///
    /// # Errors
    /// [`LaneError::Cancelled`] once a cancel has won.
    pub fn check(&self) -> Result<(), LaneError> {
        if self.is_cancelled() { Err(LaneError::Cancelled) } else { Ok(()) }
    }

    /// The job says that it is past its point of no return. True: the commit is its own, and no cancel is seen any more. False,
    /// for ever: a cancel has won, and nothing may be changed.
    #[must_use = "if it is false nothing may be changed"]
    pub fn seal(&self) -> bool {
        self.job.meta().state.seal()
    }

    /// Whether a writer of the actor is queued: long maintenance should step aside, and queue itself again.
    #[must_use]
    pub fn writer_waiting(&self) -> bool {
        self.job.meta().actor().writer_waiting()
    }
}

impl<K: Send + Sync + 'static, C: Send + Sync + 'static> LaneCx<K, C> {
    /// The job's ticket.
    #[must_use]
    pub fn ticket(&self) -> LaneTicket {
        LaneTicket::of(self.job.clone())
    }

    /// A token that is cancelled when a cancel of the job wins: to be handed to what the job starts elsewhere.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.job.meta().token().clone()
    }
}
