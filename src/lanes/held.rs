//! What a running job holds: its slot, a heavy permit, a place among the maintenance jobs.
//! It does not know where these come from, nor who gives them back.

#![forbid(unsafe_code)]

use super::meta::Meta;
use crate::sync::stat::Ordering;

/// The place among the maintenance jobs that a job holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Under the cap and above the reserve.
    Capped,
    /// The one for maintenance that has waited its age.
    Aged,
}

/// A heavy permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permit {
    /// For everybody.
    Common,
    /// For interactive builds.
    Reserved,
}

/// What a job holds beside its slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) place: Option<Place>,
    pub(super) permit: Option<Permit>,
}

const SLOT: u64 = u32::MAX as u64;
const CAPPED: u64 = 1 << 32;
const AGED: u64 = 1 << 33;
const COMMON: u64 = 1 << 34;
const RESERVED: u64 = 1 << 35;

/// Notes what a job holds, for who has it admitted.
pub(super) fn note<K, C>(meta: &Meta<K, C>, held: Held) {
    let place = match held.place {
        None => 0,
        Some(Place::Capped) => CAPPED,
        Some(Place::Aged) => AGED,
    };
    let permit = match held.permit {
        None => 0,
        Some(Permit::Common) => COMMON,
        Some(Permit::Reserved) => RESERVED,
    };
    meta.held.store(place | permit, Ordering::Relaxed);
}

/// Notes the slot that an admitted job is to run in, before it is started: the start publishes it. True if that is all it holds.
#[inline]
pub(super) fn note_slot<K, C>(meta: &Meta<K, C>, slot: usize) -> bool {
    let held = meta.held.load(Ordering::Relaxed);
    meta.held.store(held | slot as u64, Ordering::Relaxed);
    held == 0
}

/// The slot of a job that runs.
pub(super) fn slot<K, C>(meta: &Meta<K, C>) -> usize {
    (meta.held.load(Ordering::Relaxed) & SLOT) as usize
}

/// What it holds beside that.
pub(super) fn of<K, C>(meta: &Meta<K, C>) -> Held {
    let word = meta.held.load(Ordering::Relaxed);
    if word & !SLOT == 0 {
        return Held::default();
    }
    let either = |one, two, first, second| {
        if word & one != 0 {
            Some(first)
        } else if word & two != 0 {
            Some(second)
        } else {
            None
        }
    };
    Held {
        place: either(CAPPED, AGED, Place::Capped, Place::Aged),
        permit: if word & COMMON != 0 {
            Some(Permit::Common)
        } else if word & RESERVED != 0 {
            Some(Permit::Reserved)
        } else {
            None
        },
    }
}
