//! A combining section: whoever brings a request while nobody serves, serves; everybody else leaves theirs and goes.
//! It does not know what is decided inside. No call waits; what is inside is plain data.
//!
//! Protocol 7. A request is pushed, then counted; who raises the count from zero is the server. A server reads the count
//! *before* it takes that many requests, and subtracts what it took; if nothing is left then, nobody serves any more, and the
//! next to arrive raises from zero again. Who finds nobody serving may raise the count first and serve its request from the
//! hand: the queue holds as many as are counted beside it. After some rounds the server hands a baton on: the count stays above zero, and
//! serving goes on from the ticket that carries the baton, so that no call lasts as long as others keep arriving.

use super::contained;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::cell::UnsafeCell;
use crate::sync::queue::{Injector, Steal};
use crate::sync::{hint, mutant};

/// Rounds after which a server hands over.
pub(crate) const ROUNDS_MAX: usize = 16;

pub(crate) struct Section<R, S> {
    requests: Injector<R>,
    /// Requests that are not served yet. Above zero somebody serves, or a baton is under way.
    open: AtomicU64,
    state: UnsafeCell<S>,
}

// SAFETY: the state is touched only by the one server there is while the count is above zero; it moves between servers' threads,
// for which `S: Send`, and the count's read-modify-writes order one server after the other. Requests move to the server: `R: Send`.
unsafe impl<R: Send, S: Send> Sync for Section<R, S> {}

/// What is left to do after a call.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Left {
    /// Nothing: all is served, or another serves.
    Nothing,
    /// The caller is the server: it must call [`Section::serve`], or have it called by the ticket that it sends off.
    Serve,
}

impl<R, S> Section<R, S> {
    pub(crate) fn new(state: S) -> Self {
        Self { requests: Injector::new(), open: AtomicU64::new(0), state: UnsafeCell::new(state) }
    }

    /// Leaves a request. Never waits and runs nothing, so it may be called from inside a section too.
    pub(crate) fn enter(&self, request: R) -> Left {
        self.requests.push(request);
        // ordering: Release pairs with the server's Acquire load in `serve`. If we come first, it takes our request; else our
        // addition finds what the server's subtraction left, and at zero we serve, after all that it did (Acquire).
        if self.open.fetch_add(1, Ordering::AcqRel) == 0 { Left::Serve } else { Left::Nothing }
    }

    /// Serves a request at once if nobody serves, and then what has come meanwhile, for at most `rounds` rounds; else leaves it.
    ///
    /// As [`enter`](Self::enter) and [`serve`](Self::serve), without the way through the queue. It never waits either.
    pub(crate) fn bring(&self, request: R, rounds: usize, mut serve: impl FnMut(&mut S, R)) -> Left {
        let free = if mutant("graph.section.bring_by_look") {
            // ordering: as below.
            let free = self.open.load(Ordering::Acquire) == 0;
            if free {
                self.open.fetch_add(1, Ordering::AcqRel);
            }
            free
        } else {
            // ordering: Acquire pairs with the subtraction of the last server: the state is as it left it. If another raises the
            // count first, it serves, and we leave our request to it.
            self.open.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        if !free {
            return match self.enter(request) {
                Left::Nothing => Left::Nothing,
                Left::Serve => self.serve(rounds, serve),
            };
        }
        self.one(request, &mut serve);
        // ordering: as in `serve`.
        if self.open.fetch_sub(1, Ordering::AcqRel) == 1 { Left::Nothing } else { self.serve(rounds, serve) }
    }

    /// Serves requests, in the order in which they came, for at most `rounds` rounds. Only for who was told to.
    ///
    /// A panic of `serve` ends that request alone.
    pub(crate) fn serve(&self, rounds: usize, mut serve: impl FnMut(&mut S, R)) -> Left {
        for _ in 0..rounds {
            // ordering: Acquire pairs with `enter`: every request that is counted is in the queue.
            let mut taken = self.open.load(Ordering::Acquire);
            for _ in 0..taken {
                self.one(self.take(), &mut serve);
            }
            if mutant("graph.section.count_after") {
                taken = self.open.load(Ordering::Acquire);
            }
            // ordering: Release hands the state to who raises the count from zero next, Acquire takes what came meanwhile.
            if self.open.fetch_sub(taken, Ordering::AcqRel) == taken {
                return Left::Nothing;
            }
        }
        if mutant("graph.section.baton_dropped") { Left::Nothing } else { Left::Serve }
    }

    /// Serves one request. Only for the server.
    fn one(&self, request: R, serve: &mut impl FnMut(&mut S, R)) {
        let one = || {
            // SAFETY: the count is above zero and we are its server, so nobody else touches the state.
            self.state.with_mut(|state| serve(unsafe { &mut *state }, request));
        };
        if mutant("graph.section.no_guard") { one() } else { contained(one) }
    }

    /// A request that was counted is there; at worst the queue makes us wait for a pusher before it in its slot.
    fn take(&self) -> R {
        loop {
            if let Steal::Success(request) = self.requests.steal() {
                return request;
            }
            hint::spin_loop();
        }
    }
}
