//! What people look at: traces for Perfetto, graphs for Graphviz, and a summary of what the workers did.
//! It does not know hosts: names, spans and edges are given to it.
#![forbid(unsafe_code)]

mod dot;
mod escape;
mod summary;
mod trace;

pub use dot::DotWriter;
pub use summary::CounterSummary;
pub use trace::TraceWriter;
