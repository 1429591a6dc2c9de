//! The host's own table of what is under way: asked before anything is admitted.
//! It does not know what is submitted, nor what a joiner is.
#![forbid(unsafe_code)]

use crate::flight::{PanicReport, catch};

/// Asked with work that is about to be submitted, before its budget is: whether the same is under way already, and if so for
/// one more claim on that. It is called on the submitter's thread while nothing is half changed; its panic is the submission's error.
///
/// A closure `Fn(&W) -> Option<H>` is one.
pub trait DedupeHook<W: ?Sized, H>: Send + Sync {
    /// One more claim on the same work, if that is under way.
    fn probe(&self, work: &W) -> Option<H>;
}

impl<W: ?Sized, H, F: Fn(&W) -> Option<H> + Send + Sync> DedupeHook<W, H> for F {
    fn probe(&self, work: &W) -> Option<H> {
        self(work)
    }
}

/// Asks a hook, contained.
pub(crate) fn probe<W: ?Sized, H>(hook: &dyn DedupeHook<W, H>, work: &W) -> Result<Option<H>, PanicReport> {
    catch(|| hook.probe(work))
}
