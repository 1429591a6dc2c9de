//! What a publication is to look at again, and the phases that it goes through.
//! It does not know who builds.

#![forbid(unsafe_code)]

use crate::sync::Arc;
use std::fmt;

/// Beyond so many sets everything is looked at: what cannot be published for long must not grow.
const SETS_MAX: usize = 4_096;

/// What has changed since the view was last published: some paths, or everything. The union of all that was asked for.
pub struct PublishPaths<P> {
    /// None: everything.
    sets: Option<Vec<Arc<[P]>>>,
}

impl<P> Clone for PublishPaths<P> {
    fn clone(&self) -> Self {
        Self { sets: self.sets.clone() }
    }
}

impl<P> fmt::Debug for PublishPaths<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublishPaths").field("everything", &self.is_everything()).finish_non_exhaustive()
    }
}

impl<P> PublishPaths<P> {
    /// Nothing so far.
    pub(super) fn new() -> Self {
        Self { sets: Some(Vec::new()) }
    }

    /// Adds a set; an empty one stands for everything. What is not needed any more is given back, to be dropped outside.
    pub(super) fn add(&mut self, set: Arc<[P]>) -> Option<Vec<Arc<[P]>>> {
        if set.is_empty() {
            return self.sets.take();
        }
        match &mut self.sets {
            Some(sets) if sets.len() < SETS_MAX => {
                sets.push(set);
                None
            }
            _ => {
                let mut unneeded = self.sets.take().unwrap_or_default();
                unneeded.push(set);
                Some(unneeded)
            }
        }
    }

    /// Whether everything is to be looked at.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.sets.is_none()
    }

    /// The paths, in the order in which they were asked for; a path may come more than once. None for everything.
    pub fn iter(&self) -> impl Iterator<Item = &P> {
        self.sets.iter().flatten().flat_map(|set| set.iter())
    }
}

/// Where a publication stands. The first four are the host's to enter, in this order, and each is a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum PublishPhase {
    /// Finding out what is there.
    Manifest = 0,
    /// Reading it.
    Blobs = 1,
    /// Deriving what the view shows.
    Derived = 2,
    /// Putting it where it can be found.
    Cas = 3,
    /// Waiting to be installed, or being installed.
    Install = 4,
    /// It has failed, and waits to be tried again.
    RetryWait = 5,
}

impl PublishPhase {
    pub(super) fn of(number: u64) -> Self {
        let all = [Self::Manifest, Self::Blobs, Self::Derived, Self::Cas, Self::Install, Self::RetryWait];
        all[number as usize % all.len()]
    }
}
