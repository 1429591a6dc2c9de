//! A host in memory whose stages do next to nothing, so that what is measured is the engine.
//! It does not know what is measured with it; files are numbers, and every text is there.
#![allow(unreachable_pub, reason = "one library shows it, and the others that take this file do not")]

use shardrun::{Host, Pool, StageCx};
use std::convert::Infallible;

/// The host.
#[derive(Debug)]
pub struct Memory;

impl Host for Memory {
    type File = u64;
    type Text = u64;
    type Source = u64;
    type Analysis = u64;
    type Artifact = u64;
    type Profile = u8;
    type Error = Infallible;

    fn load(&self, file: &u64) -> Result<Option<u64>, Infallible> {
        Ok(Some(*file))
    }

    fn source(&self, _: &StageCx<'_, Self>, text: u64) -> Result<u64, Infallible> {
        Ok(text.wrapping_mul(3))
    }

    fn analysis(&self, _: &StageCx<'_, Self>, source: &u64) -> Result<u64, Infallible> {
        Ok(source + 1)
    }

    fn artifact(&self, _: &StageCx<'_, Self>, profile: &u8, source: &u64, analysis: &u64) -> Result<u64, Infallible> {
        Ok(source + analysis + u64::from(*profile))
    }

    fn source_pool(&self) -> Pool {
        Pool::Workers
    }
}
