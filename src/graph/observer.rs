//! Whoever watches a run, and the words in which failures are told.
//! It does not know when it is called; a panic of an observer is caught by the caller.
#![forbid(unsafe_code)]

use super::ended::TaskFailure;
use super::ids::TaskId;
use super::outcome::TaskOutcome;
use super::plan::Plan;
use std::collections::HashMap;

/// Watches a run. All methods have a default that does nothing, or for lines writes them to standard error.
///
/// `started` is called on the thread that runs the body, right before it. The others are called one at a time, in the order
/// in which things were decided; a dependent may have started by the time that `finished` is called. A panic of any of them
/// changes nothing, and is told as a warning.
pub trait RunObserver<X>: Send + Sync {
    /// The body of a task is about to be called. Once per task, also if it is called again as a restore that found nothing.
    fn started(&self, plan: &Plan, task: TaskId) {
        let _ = (plan, task);
    }

    /// A task has its outcome. Once for every task, whether it ran or not.
    fn finished(&self, plan: &Plan, outcome: &TaskOutcome<X>) {
        let _ = (plan, outcome);
    }

    /// The line that tells of a body's error. Called before `finished` of the task.
    fn error_line(&self, plan: &Plan, task: TaskId, line: &str) {
        let _ = (plan, task);
        eprintln!("{line}");
    }

    /// Something about the run is odd: a policy or an observer panicked, or a policy was overruled.
    fn warning(&self, text: &str) {
        eprintln!("shardrun: {text}");
    }
}

/// Watches nothing.
#[derive(Debug)]
pub(crate) struct Nobody;

impl<X> RunObserver<X> for Nobody {}

/// Puts failures into lines; a user's error that was told before is not told again.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    told: HashMap<String, TaskId>,
}

impl Lines {
    pub(crate) fn line(&mut self, plan: &Plan, task: TaskId, failure: &TaskFailure) -> String {
        let label = plan.label(task);
        match failure {
            TaskFailure::User(message) => {
                if let Some(first) = self.told.get(message) {
                    return format!("shardrun: {label}: as {} above", plan.label(*first));
                }
                self.told.insert(message.clone(), task);
                format!("shardrun: {label}: {message}")
            }
            TaskFailure::Internal { name, message, cause } => {
                let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
                let cause = cause.as_ref().map(|cause| format!(" (cause: {cause})")).unwrap_or_default();
                format!("shardrun: internal error in {label}: {name}{message}{cause}")
            }
            TaskFailure::NothingToRestore => format!("shardrun: internal error in {label}: {}", failure.message()),
        }
    }
}
