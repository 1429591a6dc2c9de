//! Views: built beside an actor, in phases, and installed by a short step alone; a newer publication supersedes an older one.
//! It does not know what is built, nor where that lies.

#![forbid(unsafe_code)]

mod paths;
mod publication;
mod publisher;

pub use paths::{PublishPaths, PublishPhase};
pub use publication::{PublicationHealth, PublishCx};
pub use publisher::{PublishError, Publisher, View};
