//! What the jobs on this thread's stack hold, and lend to others while the thread sleeps in a wait inside them.
//! It does not know what that is, nor who gets it.

#![forbid(unsafe_code)]

use crate::sync::mutant;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;

/// Something that a job holds while it runs, as a permit.
pub(crate) trait Lends {
    /// The thread is about to sleep: others may have it.
    fn lend(&self);
    /// The thread has woken. May wait.
    fn take_back(&self);
    /// Where that lies of which the job holds something.
    fn source(&self) -> usize;
}

crate::sync::local! {
    static HELD: RefCell<Vec<Rc<dyn Lends>>> = RefCell::new(Vec::new());
}

/// While it lives the innermost job on this thread holds something.
#[must_use = "it is held until the scope is dropped"]
pub(crate) struct HeldScope(PhantomData<*const ()>);

impl HeldScope {
    /// Notes what the innermost job holds.
    pub(crate) fn enter(held: Rc<dyn Lends>) -> Self {
        let _ = HELD.try_with(|all| all.borrow_mut().push(held));
        Self(PhantomData)
    }
}

impl Drop for HeldScope {
    fn drop(&mut self) {
        let last = HELD.try_with(|held| held.borrow_mut().pop());
        drop(last);
    }
}

/// Whether a job on this thread holds something of what lies at `source`.
pub(crate) fn holds(source: usize) -> bool {
    HELD.try_with(|held| held.borrow().iter().any(|held| held.source() == source)).unwrap_or(false)
}

/// What a thread has lent because it sleeps: taken back when this is dropped, one by one, of each source one at most.
pub(crate) struct Lent(Vec<Rc<dyn Lends>>);

/// Lends everything that is held here.
pub(crate) fn lend() -> Lent {
    let mut held = HELD.try_with(|held| held.borrow().clone()).unwrap_or_default();
    // Who takes several back has some and waits for others: in one order everywhere, so that no two wait for each other.
    if !mutant("held.in_any_order") {
        held.sort_by_key(|held| held.source());
    }
    held.iter().for_each(|held| held.lend());
    Lent(held)
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.0.iter().for_each(|held| held.take_back());
    }
}
