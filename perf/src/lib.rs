//! What the measuring binaries share: placement, noise probes, interleaved rounds, a latch, allocators, and a host in memory.
//! It knows no group: what is compared with what stands in the binaries.

pub mod counting;
pub mod graphs;
#[path = "../../tests/support/memory_host.rs"]
pub mod host;
pub mod latch;
pub mod place;
pub mod probe;
pub mod series;

/// Makes the allocator that the features choose the global one of the calling binary.
///
/// A macro and not a static of this library, since the binaries that count allocations bring their own.
#[macro_export]
macro_rules! choose_allocator {
    () => {
        #[cfg(feature = "mimalloc")]
        #[global_allocator]
        static ALLOCATOR: $crate::mimalloc::MiMalloc = $crate::mimalloc::MiMalloc;
    };
}

#[cfg(feature = "mimalloc")]
pub use mimalloc;

/// The name of the allocator that `choose_allocator!` chose.
pub const ALLOCATOR: &str = if cfg!(feature = "mimalloc") { "mimalloc" } else { "system malloc" };
