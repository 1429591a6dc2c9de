//! The types of one cache: what its keys, values and errors are.
//! It does not know what they mean.
#![forbid(unsafe_code)]

use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;

/// What can be a key of a cache: compared and hashed by equal rules, shown in reports, shared between threads. Every type that can
/// is one.
pub trait CacheKey: Eq + Hash + Debug + Send + Sync + 'static {}

impl<K: Eq + Hash + Debug + Send + Sync + 'static> CacheKey for K {}

/// The three types of a cache under one name.
pub(crate) trait Memo: Sized + 'static {
    type Key: CacheKey;
    type Value: Send + Sync + 'static;
    type Error: Send + Sync + 'static;
}

/// These three.
pub(crate) struct Typed<K, V, E>(PhantomData<(K, V, E)>);

impl<K: CacheKey, V: Send + Sync + 'static, E: Send + Sync + 'static> Memo for Typed<K, V, E> {
    type Key = K;
    type Value = V;
    type Error = E;
}
