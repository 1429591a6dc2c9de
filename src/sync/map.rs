//! The epoch-protected map of the world that is built: read far more than written, and lock-free to read.
//! It does not know what it maps. Models do not use it: what it holds is long-lived, and changes in cells of its own.
#![forbid(unsafe_code)]

pub(crate) use papaya::{Compute, Guard, HashMap, Operation};
