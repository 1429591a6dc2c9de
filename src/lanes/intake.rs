//! What has come to an actor goes where it waits: behind another job, to be answered with an equal one, or into its lane.
//! It does not know in which order jobs are taken from there.

#![forbid(unsafe_code)]

use super::actor::{Actor, Inside};
use super::job::{JobRef, follow};
use super::outside::Outside;
use super::queue::{Free, Queues};
use super::turn::{Visit, queues_of};

impl<K, C> Actor<K, C>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    /// Takes in what was posted. For who has the turn.
    pub(super) fn take_in(&self, inside: &mut Inside<K, C>, visit: &mut Visit<'_, K, C>, outside: &mut Outside<K, C>) {
        for job in self.posted() {
            let queues = queues_of(inside, visit);
            if job.meta().apart().is_none() {
                queues.arrive(job);
            } else {
                arrive_apart(queues, job, outside);
            }
        }
    }
}

/// A job has come that may have a key, or wait for another.
#[cold]
fn arrive_apart<K, C>(queues: &mut Queues<K, C>, job: JobRef<K, C>, outside: &mut Outside<K, C>) {
    let Some(Free { job, over }) = queues.keep_fenced(job) else { return };
    if let Some(over) = over {
        outside.lists().trash.push(over);
    }
    join_or_arrive(queues, job, outside);
}

/// Jobs that waited for others which are over go on; they count as having come now.
pub(super) fn unfence<K, C>(queues: &mut Queues<K, C>, outside: &mut Outside<K, C>) {
    if queues.has_unfenced() {
        for job in queues.unfenced(&mut outside.lists().trash) {
            join_or_arrive(queues, job, outside);
        }
    }
}

/// Hangs a job on an equal one that is queued, if it may be answered with the result of that; else it is queued.
fn join_or_arrive<K, C>(queues: &mut Queues<K, C>, job: JobRef<K, C>, outside: &mut Outside<K, C>) {
    let leader = job.meta().joins().and_then(|key| queues.leader(key.bit()).cloned());
    match leader {
        Some(leader) if job.meta().state.follow() => match follow(leader.meta(), job.clone()) {
            Ok(()) => outside.lists().gone.push(job),
            // The one that it would have followed is over; or it is itself, and its room is ours.
            Err(job) if job.meta().state.unfollow() => queues.arrive(job),
            Err(job) => outside.lists().gone.push(job),
        },
        _ => queues.arrive(job),
    }
}
