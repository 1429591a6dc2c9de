//! On whose behalf a job runs: a value of the host's that travels with a request and stands in a thread-local while it runs.
//! It does not know what the value is, nor who carries it.

#![forbid(unsafe_code)]

use crate::flight::drop_contained;
use crate::sync::Arc;
use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;

crate::sync::local! {
    static CURRENT: RefCell<Option<RequestContext>> = RefCell::new(None);
}

/// A value that travels with a request: a trace span, a user, a locale. Clones share it.
///
/// While a job runs, [`RequestContext::current`] on its thread is the context of the request that won the job, and nothing
/// if that had none; afterwards it is what it was before, also if the job panicked.
///
/// ```
/// use shardrun::RequestContext;
///
/// let context = RequestContext::new("request 7".to_owned());
/// context.scope(|| {
///     let current = RequestContext::current().unwrap();
///     assert_eq!(current.get::<String>().unwrap(), "request 7");
/// });
/// assert!(RequestContext::current().is_none());
/// ```
#[derive(Clone)]
pub struct RequestContext {
    value: Arc<dyn Any + Send + Sync>,
}

impl RequestContext {
    /// A context that carries `value`.
    pub fn new<V: Any + Send + Sync>(value: V) -> Self {
        Self { value: Arc::new(value) }
    }

    /// The value, if it is a `V`.
    #[must_use]
    pub fn get<V: Any>(&self) -> Option<&V> {
        self.value.downcast_ref()
    }

    /// The context of what this thread runs now.
    #[must_use]
    #[inline]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
    }

    /// Runs `f` with this context as the current one.
    pub fn scope<R>(&self, f: impl FnOnce() -> R) -> R {
        let _scope = ContextScope::enter(Some(self.clone()));
        f()
    }

    /// Whether the two are clones of one context.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.value, &other.value)
    }
}

impl fmt::Debug for RequestContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestContext").finish_non_exhaustive()
    }
}

/// While it lives, a context (or none) is the thread's current one; then the one before is again.
#[must_use = "the context is the current one until the scope is dropped"]
pub(crate) struct ContextScope {
    before: Option<RequestContext>,
    /// Nothing was changed, nothing is to be put back.
    idle: bool,
    /// It belongs to the thread that entered.
    here: PhantomData<*const ()>,
}

impl ContextScope {
    /// Makes `context` the current one. `None` hides the one that is there.
    #[inline]
    pub(crate) fn enter(context: Option<RequestContext>) -> Self {
        let idle = context.is_none() && CURRENT.try_with(|current| current.borrow().is_none()).unwrap_or(true);
        let before = if idle { None } else { swap(context) };
        Self { before, idle, here: PhantomData }
    }
}

impl Drop for ContextScope {
    #[inline]
    fn drop(&mut self) {
        if !self.idle {
            // The value's destructor is the host's, if this was the last reference; nothing is borrowed here.
            drop_contained(swap(self.before.take()));
        }
    }
}

fn swap(context: Option<RequestContext>) -> Option<RequestContext> {
    CURRENT.try_with(|current| current.replace(context)).ok().flatten()
}
