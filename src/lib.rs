//! Shardrun: a lock-free, sharded scheduler engine that a host program embeds.

#![allow(dead_code, unused_imports, reason = "while the parts above the door are being built")]

mod admission;
mod flight;
mod observe;
mod report;
mod runtime;
mod stages;
mod sync;

#[cfg(all(test, any(shardrun_loom, shardrun_shuttle)))]
#[path = "../tests/models/mod.rs"]
mod models;
