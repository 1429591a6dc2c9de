//! Where a flight can stand, how it can end, and what its transitions answer.
//! It does not know which transitions there are.

#![forbid(unsafe_code)]

/// The bits of a word that hold the phase.
pub(super) const PHASE: u64 = 0xF;

/// Where a flight stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Not admitted: nobody has asked for it to be executed.
    Idle = 0,
    /// Admitted: claimable as soon as no gates are left.
    Waiting = 1,
    /// Somebody executes it now.
    Claimed = 2,
    /// A future that waits to be woken.
    Suspended = 3,
    /// A future that was woken and waits to be claimed again.
    Woken = 4,
    /// Somebody has the right to write the result, and is about to.
    Sealed = 5,
    /// Over: the result is there.
    Done = 6,
    /// Over: the error is there.
    Failed = 7,
    /// Over: nobody wanted it any more.
    Cancelled = 8,
    /// Over: a newer one took its place.
    Superseded = 9,
    /// Over: its scheduler or its file went away.
    Shutdown = 10,
}

impl Phase {
    const ALL: [Self; 11] = [
        Self::Idle,
        Self::Waiting,
        Self::Claimed,
        Self::Suspended,
        Self::Woken,
        Self::Sealed,
        Self::Done,
        Self::Failed,
        Self::Cancelled,
        Self::Superseded,
        Self::Shutdown,
    ];

    /// The phase that stands in the lowest bits of a word.
    #[inline]
    pub(super) fn of(word: u64) -> Self {
        Self::ALL[(word & PHASE) as usize]
    }

    /// Over: no transition leads out of it.
    #[inline]
    pub(crate) fn is_terminal(self) -> bool {
        self as u8 >= Self::Done as u8
    }

    /// Over, with a result or an error to be read.
    #[inline]
    pub(crate) fn has_result(self) -> bool {
        matches!(self, Self::Done | Self::Failed)
    }

    /// Whether what was to be executed still lies there unclaimed, so that who ends the flight must dispose of it.
    pub(crate) fn is_unclaimed(self) -> bool {
        matches!(self, Self::Idle | Self::Waiting | Self::Suspended | Self::Woken)
    }
}

/// How a flight ends with a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// With a value.
    Done,
    /// With an error.
    Failed,
}

impl Outcome {
    /// The outcome that `result` stands for.
    #[inline]
    pub(crate) fn of<T, E>(result: &Result<T, E>) -> Self {
        if result.is_ok() { Self::Done } else { Self::Failed }
    }

    pub(super) fn phase(self) -> Phase {
        match self {
            Self::Done => Phase::Done,
            Self::Failed => Phase::Failed,
        }
    }
}

/// How a flight ends without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Killed {
    /// Nobody wants it any more.
    Cancelled,
    /// A newer one takes its place.
    Superseded,
    /// Its scheduler or its file goes away.
    Shutdown,
}

impl Killed {
    pub(super) fn phase(self) -> Phase {
        match self {
            Self::Cancelled => Phase::Cancelled,
            Self::Superseded => Phase::Superseded,
            Self::Shutdown => Phase::Shutdown,
        }
    }
}

/// What became of one owner's withdrawal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Others want it still.
    StillWanted,
    /// Nobody wants it now, and it was never admitted: it stays idle.
    Unstarted,
    /// The last one out: this call has cancelled the flight, which stood in the given phase.
    Last(Phase),
    /// It was over or sealed already.
    TooLate(Phase),
}

/// What became of a suspension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suspended {
    /// It sleeps until it is woken.
    Asleep,
    /// It was woken meanwhile: it stands in Woken, and the caller must push a ticket for it.
    Again,
    /// It was ended meanwhile: the caller must drop the future.
    Over(Phase),
}

/// Why an owner or a gate was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The flight stands in a phase that allows no more of them.
    Phase(Phase),
    /// The count is at its limit (2^28 - 1 owners, 2^24 - 1 gates).
    Full,
}

/// What an admission found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admitted {
    /// Nothing stands before it: the caller must push a ticket.
    Ready,
    /// The last gate will push it.
    Gated,
}
