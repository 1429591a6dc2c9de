//! The work of the index on one file, as pure functions: read, `source`, `analyse`, `outline`.
//! It does not know the scheduler: whoever wants the same work under another one includes this folder by `#[path]`.
//!
//! The benches do so, to run the same functions under a plain loop:
//!
//! ```text
//! #[path = "../../src/bin/shardrun/work/mod.rs"]
//! mod work;
//! let mut worker = work::Worker::new();                                  // one per thread
//! worker.load(&path_on_disk, limit)?;                                    // read
//! let source = worker.scan("path/in/tree.rs");                           // hash, one scan
//! let analysis = work::analyse(&tree, number, &source);                  // tree = resolve::Tree::new(paths, read_manifest)
//! let line = work::outline(&tree, number, &source, &analysis);
//! ```
//!
//! The folder needs nothing but `std`, `blake3`, `memchr` and, on Unix, `libc`.
#![forbid(unsafe_code)]

pub(crate) mod analysis;
pub(crate) mod cursor;
pub(crate) mod facts;
pub(crate) mod fingerprint;
pub(crate) mod json;
pub(crate) mod lang;
mod outline;
pub(crate) mod read;
pub(crate) mod resolve;
mod source;

pub(crate) use analysis::{Analysis, analyse};
pub(crate) use outline::outline;
pub(crate) use source::{Source, Worker};
