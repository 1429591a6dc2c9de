//! Who asked first for an execution: by what name, in which context it runs, and whether a unit of the budget is held for it.
//! It does not know what is executed, nor what a context carries.

use crate::admission::RequestContext;
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::{epoch, mutant};
use std::ptr;

/// Who asks. Aligned, so that the lowest bits of its address are free.
#[derive(Clone, Debug, Default)]
#[repr(align(16))]
pub(crate) struct Asker {
    /// The request's name, which joiners are told.
    pub(crate) name: Option<u64>,
    /// The context in which the execution runs.
    pub(crate) context: Option<RequestContext>,
}

impl Asker {
    fn is_nobody(&self) -> bool {
        self.name.is_none() && self.context.is_none()
    }
}

/// What became of an asker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The first: the winner, whom later ones join.
    First,
    /// One that came after the winner, who may have had no name.
    After(Option<u64>),
}

/// The first asker of one execution: none, one of whom nothing is known, or a box, which is forgotten only together with the
/// whole demand and then outlives the pins of readers. The lowest bit says that a unit of the budget is held.
///
/// Whoever comes to own an execution that nobody owned is the first, whatever stands here: an asker that has withdrawn, or one that is
/// about to own it and was slower. So the first is decided by the word of the execution, and this only says who it is. The bits between
/// count turns, modulo 8: the first that finds somebody else here begins a new one, and the last owner ends the turn that it has seen,
/// but not the next.
#[derive(Debug)]
pub(crate) struct Origin(AtomicPtr<Asker>);

/// The first askers of a revision's two stages of which there is one.
#[derive(Debug)]
pub(crate) struct Origins {
    pub(crate) source: Origin,
    pub(crate) analysis: Origin,
}

impl Origins {
    pub(crate) fn new() -> Self {
        Self { source: Origin::new(), analysis: Origin::new() }
    }
}

/// The turn that somebody has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn(usize);

/// What the end of a turn leaves to the one who ended it: a box that waits for readers' pins to end, and whether a unit of the budget
/// was held.
#[derive(Debug, Default)]
pub(crate) struct Forgotten {
    pub(crate) asker: Option<Box<Asker>>,
    pub(crate) charged: bool,
}

/// What the first owner of a new turn has replaced.
#[derive(Debug)]
pub(crate) struct TakeOver {
    /// Whether its own unit of the budget is held now. One that was held before goes on being held instead.
    pub(crate) charged: bool,
    pub(crate) before: Option<Box<Asker>>,
}

const CHARGED: usize = 1;
/// One turn; the bits above it up to the alignment count them.
const TURN: usize = 2;
const TURNS: usize = align_of::<Asker>() - TURN;

fn nobody() -> *mut Asker {
    ptr::without_provenance_mut(align_of::<Asker>())
}

/// The asker alone.
#[inline]
fn plain(word: *mut Asker) -> *mut Asker {
    word.map_addr(|address| address & !(TURNS | CHARGED))
}

fn turn(word: *mut Asker) -> usize {
    word.addr() & TURNS
}

fn with(asker: *mut Asker, turn: usize, charged: bool) -> *mut Asker {
    asker.map_addr(|address| address | turn | usize::from(charged))
}

/// The turn after that of `word`.
fn next_turn(word: *mut Asker) -> usize {
    (word.addr() + TURN) & TURNS
}

fn is_charged(word: *mut Asker) -> bool {
    word.addr() & CHARGED != 0
}

#[inline]
fn is_free(word: *mut Asker) -> bool {
    plain(word).is_null()
}

#[inline]
fn is_box(word: *mut Asker) -> bool {
    !is_free(word) && plain(word) != nobody()
}

/// # Safety
/// The caller has taken `word` out of the one place where it stood.
#[inline]
unsafe fn boxed(word: *mut Asker) -> Option<Box<Asker>> {
    // SAFETY: promised by the caller.
    is_box(word).then(|| unsafe { Box::from_raw(plain(word)) })
}

#[inline]
fn fresh(asker: &Asker) -> *mut Asker {
    if asker.is_nobody() { nobody() } else { Box::into_raw(Box::new(asker.clone())) }
}

impl Origin {
    pub(crate) fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// With a first asker, before anybody else sees the execution.
    #[inline]
    pub(crate) fn first(asker: &Asker, charged: bool) -> Self {
        Self(AtomicPtr::new(with(fresh(asker), 0, charged)))
    }

    /// Whether nobody has asked yet.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        is_free(self.load())
    }

    #[inline]
    fn load(&self) -> *mut Asker {
        // ordering: pairs with the exchanges. If one came first, its asker is visible; else it finds what stands here.
        self.0.load(Ordering::Acquire)
    }

    fn exchange(&self, old: *mut Asker, new: *mut Asker) -> Result<*mut Asker, *mut Asker> {
        // ordering: pairs with itself and with `load`. If another asker's exchange came first, this fails and sees its name; else that
        // sees ours.
        self.0.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Enters `asker` if there is none, with or without a unit of the budget. To be called before it owns the execution. A joiner's context is taken over if the first had neither name nor context. The turn that was found.
    #[inline]
    pub(crate) fn ask(&self, asker: &Asker, charged: bool) -> (Asked, Turn) {
        let mut seen = self.load();
        if is_free(seen) {
            let raw = fresh(asker);
            while is_free(seen) {
                match self.exchange(seen, with(raw, turn(seen), charged)) {
                    Ok(_) => return (Asked::First, Turn(turn(seen))),
                    Err(now) => seen = now,
                }
            }
            // SAFETY: it was made above and shown to nobody.
            unsafe { free(raw) };
        }
        if plain(seen) == nobody() && asker.context.is_some() {
            self.lend_context(asker, seen);
        }
        (Asked::After(self.known(|asker| asker.name)), Turn(turn(seen)))
    }

    /// Gives a nameless first asker the context of one that joins it.
    #[cold]
    fn lend_context(&self, asker: &Asker, mut seen: *mut Asker) {
        let lent = Box::into_raw(Box::new(Asker { name: None, context: asker.context.clone() }));
        while plain(seen) == nobody() {
            match self.exchange(seen, with(lent, turn(seen), is_charged(seen))) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
        // SAFETY: it was made above and shown to nobody.
        unsafe { free(lent) };
    }

    /// The context in which the execution runs.
    #[inline]
    pub(crate) fn context(&self) -> Option<RequestContext> {
        self.known(|asker| asker.context.clone())
    }

    /// Asks the first asker, if one is known.
    #[inline]
    fn known<R>(&self, f: impl FnOnce(&Asker) -> Option<R>) -> Option<R> {
        if !is_box(self.load()) {
            return None;
        }
        let _pinned = epoch::pin();
        let word = self.load();
        // SAFETY: a box that is forgotten outlives the pins of that time, and one that is not is freed with `self`.
        if is_box(word) { f(unsafe { &*plain(word) }) } else { None }
    }

    /// The turn that goes on, to be ended by an owner if it turns out to have been the last.
    #[inline]
    pub(crate) fn seen(&self) -> Turn {
        Turn(turn(self.load()))
    }

    /// Nobody wants the execution any more, and nobody has begun it: ends the turn that the last owner saw before it withdrew, unless
    /// the next owner has. The next asker is the first again.
    pub(crate) fn forget(&self, Turn(ended): Turn) -> Forgotten {
        let mut seen = self.load();
        while !is_free(seen) && (turn(seen) == ended || mutant("origin.forget_any")) {
            match self.exchange(seen, with(ptr::null_mut(), next_turn(seen), false)) {
                // SAFETY: the exchange has taken it out.
                Ok(_) => return Forgotten { asker: unsafe { boxed(seen) }, charged: is_charged(seen) },
                Err(now) => seen = now,
            }
        }
        Forgotten::default()
    }

    /// The name of the first, as far as it is known.
    #[inline]
    pub(crate) fn name(&self) -> Option<u64> {
        self.known(|asker| asker.name)
    }

    /// The caller has come to own the execution, which nobody owned: so it is the first, and whoever stands here has withdrawn, or
    /// will find that another one was faster. `needs_unit`: it must not be the first where no unit is held.
    #[inline]
    pub(crate) fn take_over(&self, asker: &Asker, charged: bool, needs_unit: bool) -> Option<TakeOver> {
        let mut seen = self.load();
        let raw = fresh(asker);
        while (!needs_unit || is_charged(seen)) && !mutant("origin.no_take_over") {
            let next = if is_free(seen) { turn(seen) } else { next_turn(seen) };
            match self.exchange(seen, with(raw, next, charged || is_charged(seen))) {
                Ok(_) => {
                    // SAFETY: the exchange has taken it out.
                    let before = unsafe { boxed(seen) };
                    return Some(TakeOver { charged: charged && !is_charged(seen), before });
                }
                Err(now) => seen = now,
            }
        }
        // SAFETY: it was made above and shown to nobody.
        unsafe { free(raw) };
        None
    }

    /// Takes back the unit of the budget that is held for the execution: true for one caller, who releases it.
    #[inline]
    pub(crate) fn uncharge(&self) -> bool {
        let mut seen = self.load();
        while is_charged(seen) {
            // Who clears the bit releases the unit.
            match self.exchange(seen, with(plain(seen), turn(seen), false)) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }
}

/// # Safety
/// `word` is null, the mark, or a box that nobody else can reach.
#[inline]
unsafe fn free(word: *mut Asker) {
    // SAFETY: promised by the caller.
    if let Some(asker) = unsafe { boxed(word) } {
        crate::flight::drop_contained(asker);
    }
}

impl Drop for Origin {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: nobody shares the origin any more.
        unsafe { free(self.0.load(Ordering::Acquire)) };
    }
}
