//! What a computation is, which decides the threads that run it, and what its outcome allows to be done with it.
//! It does not know how anything is computed.
#![forbid(unsafe_code)]

use crate::runtime::Pool;

/// What a node of a graph does. What it does it with its job carries, or the context of its request: the kind is a byte, and its copy
/// costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum TaskKind {
    /// Reads something: runs on the I/O threads.
    Load = 0,
    /// Takes apart what was loaded.
    Parse = 1,
    /// Looks through what was parsed.
    Analysis = 2,
    /// Makes something of what was analysed.
    Artifact = 3,
    /// Computes anything else that is kept by a key.
    #[default]
    CacheNode = 4,
}

impl TaskKind {
    /// The five kinds.
    pub const ALL: [Self; 5] = [Self::Load, Self::Parse, Self::Analysis, Self::Artifact, Self::CacheNode];

    /// Which threads run it: [`Load`](Self::Load) the I/O threads, everything else the workers.
    #[must_use]
    pub const fn pool(self) -> Pool {
        match self {
            Self::Load => Pool::Io,
            Self::Parse | Self::Analysis | Self::Artifact | Self::CacheNode => Pool::Workers,
        }
    }
}

/// How a computation ended, as far as others may build on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Disposition {
    /// With a value that may be kept.
    Cacheable = 0,
    /// With a value for those who asked, which must not be kept.
    ReturnOnly = 1,
    /// Without a value.
    Failed = 2,
}
