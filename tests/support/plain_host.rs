//! A host whose stages do nothing and whose values are as small as can be, so that what is counted is the engine's.
//! It does not know who asks, nor what its files are named by.

// Both from a test's own root and from the crate's.
use crate::{Host, Pool, StageCx};
use std::convert::Infallible;
use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;

/// Its files are named by an `F`. All that it does is done on the workers.
pub(crate) struct Plain<F>(PhantomData<fn() -> F>);

impl<F> Plain<F> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<F: Clone + Eq + Hash + Debug + Send + Sync + 'static> Host for Plain<F> {
    type File = F;
    type Text = ();
    type Source = ();
    type Analysis = ();
    type Artifact = ();
    type Profile = u8;
    type Error = Infallible;

    fn load(&self, _: &F) -> Result<Option<()>, Infallible> {
        Ok(Some(()))
    }

    fn source(&self, _: &StageCx<'_, Self>, (): ()) -> Result<(), Infallible> {
        Ok(())
    }

    fn analysis(&self, _: &StageCx<'_, Self>, (): &()) -> Result<(), Infallible> {
        Ok(())
    }

    fn artifact(&self, _: &StageCx<'_, Self>, _: &u8, (): &(), (): &()) -> Result<(), Infallible> {
        Ok(())
    }

    fn source_pool(&self) -> Pool {
        Pool::Workers
    }
}
