//! Admission: how much work may be under way at once, what a submission is answered, and whose behalf a job runs on.
//! It knows flights and the runtime, and nothing of what is admitted.

#![forbid(unsafe_code)]
mod acquiring;
mod answer;
mod budget;
mod context;
mod hook;
mod stripes;
mod work;

pub use acquiring::Acquiring;
pub use answer::{Admission, BudgetError, Refused};
pub use budget::{Budget, BudgetGuard};
pub use context::RequestContext;
pub use hook::DedupeHook;
pub use work::{WorkAmounts, WorkBudget, WorkRefused, ZeroBudget};

pub(crate) use context::ContextScope;
pub(crate) use hook::probe;
pub(crate) use work::{Lacking, Reservation};
