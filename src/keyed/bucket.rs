//! What a cache's map holds under one hash: nearly always one identity, with its flight or its kept value.
//! It does not know the map, nor how identities are compared.
#![forbid(unsafe_code)]

use super::build::Build;
use super::memo::Memo;
use super::node::Node;
use crate::sync::Arc;
use smallvec::SmallVec;

/// How an identity stands.
pub(crate) enum Entry<M: Memo> {
    /// Its value is under way, or its flight has ended and is about to be taken out.
    Flying(Arc<Build<M>>),
    /// Its value is kept.
    Kept(Arc<Node<M>>),
}

impl<M: Memo> Entry<M> {
    #[inline]
    pub(crate) fn node(&self) -> &Arc<Node<M>> {
        match self {
            Self::Flying(build) => build.node(),
            Self::Kept(node) => node,
        }
    }

    /// Whether both are the same flight, or the same kept node.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Flying(one), Self::Flying(other)) => Arc::ptr_eq(one, other),
            (Self::Kept(one), Self::Kept(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl<M: Memo> Clone for Entry<M> {
    fn clone(&self) -> Self {
        match self {
            Self::Flying(build) => Self::Flying(build.clone()),
            Self::Kept(node) => Self::Kept(node.clone()),
        }
    }
}

/// An entry in the map. When the map frees it, it is laid down in the yard.
pub(crate) struct Held<M: Memo>(Option<Entry<M>>);

impl<M: Memo> Held<M> {
    fn new(entry: Entry<M>) -> Self {
        Self(Some(entry))
    }

    #[inline]
    fn entry(&self) -> &Entry<M> {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl<M: Memo> Drop for Held<M> {
    fn drop(&mut self) {
        if let Some(entry) = self.0.take() {
            let shared = entry.node().shared.clone();
            shared.lay_down(entry);
        }
    }
}

/// What stands under one hash. It never changes: another is put in its place.
#[expect(clippy::box_collection, reason = "a bucket is two words, and hardly ever holds several")]
pub(crate) enum Bucket<M: Memo> {
    One(Held<M>),
    Several(Box<Vec<Held<M>>>),
}

const _: () = assert!(size_of::<Bucket<super::memo::Typed<u64, u64, u64>>>() == 16);

/// What was seen under one hash.
pub(crate) type Seen<M> = SmallVec<[Entry<M>; 1]>;

impl<M: Memo> Bucket<M> {
    /// The bucket of these entries; none if there are none.
    pub(crate) fn of(entries: &[Entry<M>]) -> Option<Self> {
        match entries {
            [] => None,
            [one] => Some(Self::One(Held::new(one.clone()))),
            several => Some(Self::Several(Box::new(several.iter().cloned().map(Held::new).collect()))),
        }
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry<M>> {
        let held = match self {
            Self::One(held) => std::slice::from_ref(held),
            Self::Several(several) => several,
        };
        held.iter().map(Held::entry)
    }

    /// The first entry of which `is` says yes.
    #[inline]
    pub(crate) fn find(&self, is: impl Fn(&Node<M>) -> bool) -> Option<&Entry<M>> {
        match self {
            Self::One(held) => Some(held.entry()).filter(|entry| is(entry.node())),
            Self::Several(_) => self.entries().find(|entry| is(entry.node())),
        }
    }

    /// Whether it holds exactly what was seen.
    pub(crate) fn holds(&self, seen: &[Entry<M>]) -> bool {
        self.entries().count() == seen.len() && self.entries().zip(seen).all(|(one, other)| one.is(other))
    }
}
