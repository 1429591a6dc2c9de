//! What people look at: traces for Perfetto, graphs for Graphviz, what the workers did, and where a run's time went.
//! It does not know hosts: names, spans and edges are given to it.
#![forbid(unsafe_code)]

mod dot;
mod escape;
mod summary;
mod times;
mod trace;

pub use dot::DotWriter;
pub use summary::CounterSummary;
pub use times::RunTimes;
pub use trace::TraceWriter;
