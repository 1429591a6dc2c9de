//! `shardrun serve` and `shardrun ask`: a daemon that keeps many source roots indexed, and the client of a person or a script.
//! It does not know how a root is indexed, nor how the scheduler takes turns.
#![forbid(unsafe_code)]

mod args;
mod ask;
mod call;
mod client;
mod course;
mod daemon;
mod frame;
mod line;
mod methods;
mod outbox;
mod query;
mod root;
mod rpc;
mod socket;
#[cfg(test)]
mod tests;
mod update;

pub(crate) use args::{AskArgs, ServeArgs};
pub(crate) use ask::ask;
pub(crate) use course::run;
