//! Who asked first for an execution: by what name, in which context it runs, and whether a unit of the budget is held for it.
//! It does not know what is executed, nor what a context carries.

use crate::admission::RequestContext;
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::epoch;
use std::ptr;

/// Who asks.
#[derive(Clone, Debug, Default)]
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

/// Whom an owner saw here before it withdrew.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen(*mut Asker);

const CHARGED: usize = 1;

fn nobody() -> *mut Asker {
    ptr::without_provenance_mut(align_of::<Asker>())
}

fn plain(word: *mut Asker) -> *mut Asker {
    word.map_addr(|address| address & !CHARGED)
}

fn is_box(word: *mut Asker) -> bool {
    let plain = plain(word);
    !plain.is_null() && plain != nobody()
}

impl Origin {
    pub(crate) fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// With a first asker, before anybody else sees the execution.
    pub(crate) fn first(asker: &Asker, charged: bool) -> Self {
        let raw = if asker.is_nobody() { nobody() } else { Box::into_raw(Box::new(asker.clone())) };
        Self(AtomicPtr::new(raw.map_addr(|address| address | if charged { CHARGED } else { 0 })))
    }

    /// Whether nobody has asked yet.
    pub(crate) fn is_free(&self) -> bool {
        self.0.load(Ordering::Acquire).is_null()
    }

    /// Makes `asker` the first, if there is none, with or without a unit of the budget. To be called before it has the
    /// execution admitted. A joiner's context is taken over if the first had neither name nor context.
    pub(crate) fn ask(&self, asker: &Asker, charged: bool) -> Asked {
        // ordering: pairs with itself. If another asker's exchange came first, this sees its name; else that sees ours.
        let mut seen = self.0.load(Ordering::Acquire);
        let fresh = || if asker.is_nobody() { nobody() } else { Box::into_raw(Box::new(asker.clone())) };
        if seen.is_null() {
            let raw = fresh();
            let word = raw.map_addr(|address| address | if charged { CHARGED } else { 0 });
            match self.0.compare_exchange(ptr::null_mut(), word, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Asked::First,
                Err(now) => {
                    seen = now;
                    // SAFETY: it was made above and shown to nobody.
                    unsafe { free(raw) };
                }
            }
        }
        if plain(seen) == nobody() && asker.context.is_some() {
            self.lend_context(asker, seen);
        }
        Asked::After(self.known(|asker| asker.name))
    }

    /// Gives a nameless first asker the context of one that joins it.
    #[cold]
    fn lend_context(&self, asker: &Asker, mut seen: *mut Asker) {
        let lent = Box::into_raw(Box::new(Asker { name: None, context: asker.context.clone() }));
        while plain(seen) == nobody() {
            let word = lent.map_addr(|address| address | (seen.addr() & CHARGED));
            match self.0.compare_exchange(seen, word, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
        // SAFETY: it was made above and shown to nobody.
        unsafe { free(lent) };
    }

    /// The context in which the execution runs.
    pub(crate) fn context(&self) -> Option<RequestContext> {
        self.known(|asker| asker.context.clone())
    }

    /// Asks the first asker, if one is known.
    fn known<R>(&self, f: impl FnOnce(&Asker) -> Option<R>) -> Option<R> {
        if !is_box(self.0.load(Ordering::Acquire)) {
            return None;
        }
        let _pinned = epoch::pin();
        let word = self.0.load(Ordering::Acquire);
        // SAFETY: a box that is forgotten outlives the pins of that time, and one that is not is freed with `self`.
        if is_box(word) { f(unsafe { &*plain(word) }) } else { None }
    }

    /// What stands here now, to be forgotten if nothing else has taken its place.
    pub(crate) fn seen(&self) -> Seen {
        Seen(plain(self.0.load(Ordering::Acquire)))
    }

    /// Nobody wants the execution any more, and nobody has begun it: the next asker is the first again. What is put out waits
    /// for readers' pins to end, so the caller hands it to the limbo.
    pub(crate) fn forget(&self, seen: Seen) -> Option<Box<Asker>> {
        let gone = self.0.compare_exchange(seen.0, ptr::null_mut(), Ordering::AcqRel, Ordering::Acquire).is_ok();
        // SAFETY: a box whose pointer the exchange took out of the one place where it stood.
        (gone && is_box(seen.0)).then(|| unsafe { Box::from_raw(seen.0) })
    }

    /// Takes back the unit of the budget that is held for the execution: true for one caller, who releases it.
    pub(crate) fn uncharge(&self) -> bool {
        let mut seen = self.0.load(Ordering::Acquire);
        while seen.addr() & CHARGED != 0 {
            // ordering: AcqRel among those that end one execution; who clears the bit releases the unit.
            match self.0.compare_exchange(seen, plain(seen), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }
}

/// # Safety
/// `word` is null, the mark, or a box that nobody else can reach.
unsafe fn free(word: *mut Asker) {
    let plain = plain(word);
    if !plain.is_null() && plain != nobody() {
        // SAFETY: promised by the caller.
        crate::flight::drop_contained(unsafe { Box::from_raw(plain) });
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        // SAFETY: nobody shares the origin any more.
        unsafe { free(self.0.load(Ordering::Acquire)) };
    }
}
