//! The models of the delicate protocols: one file a protocol, each property one sentence, each with seeded bugs.
//! They are compiled into the library's test target, since they reach what is not public.

#[cfg(shardrun_shuttle)]
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};

mod admission_budget;
mod flight_graph;
mod flight_join;
mod flight_list;
mod flight_oneshot;
mod flight_state;
mod flight_waiting;
mod graph_hands;
mod graph_section;
mod graph_word;
mod keyed_aggregate;
mod keyed_dag;
mod keyed_semaphore;
mod keyed_shelf;
mod lanes_cells;
#[cfg(shardrun_shuttle)]
mod lanes_whole;
mod lanes_word;
mod runner;
mod runtime_fifo;
mod runtime_jobs;
mod runtime_parking;
mod stages_demand;
mod stages_edges;
#[cfg(shardrun_shuttle)]
mod stages_edges_whole;
mod stages_line;
#[cfg(shardrun_loom)]
mod stages_lives;
mod stages_many;
#[cfg(shardrun_loom)]
mod stages_names;
mod stages_origin;
#[cfg(shardrun_loom)]
mod stages_profiles;
#[cfg(shardrun_shuttle)]
mod stages_publish;
mod stages_quiesce;
mod stages_ready;
#[cfg(shardrun_loom)]
mod stages_root;
mod stages_tickets;
#[cfg(shardrun_loom)]
mod stages_trie;
#[cfg(shardrun_loom)]
mod stages_versions;
#[cfg(shardrun_shuttle)]
mod stages_whole;

/// What the schedules of shuttle are made from.
#[cfg(shardrun_shuttle)]
const SEED: u64 = 0x5eed;

/// Runs one model in the world that is built: exhaustively up to the preemption bound under loom, thousands of random and
/// priority-based schedules under shuttle, the same in every run unless `SHUTTLE_RANDOM_SEED` says which others.
#[allow(dead_code, reason = "used by the models of the world that is built")]
pub(crate) fn check(model: impl Fn() + Send + Sync + 'static) {
    #[cfg(shardrun_loom)]
    {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = builder.preemption_bound.or(Some(2));
        builder.max_branches = 20_000;
        builder.check(model);
    }
    #[cfg(shardrun_shuttle)]
    {
        let model = std::sync::Arc::new(model);
        let rounds = schedules();
        let random = model.clone();
        let run = |scheduler: Box<dyn Scheduler + Send>| shuttle::Runner::new(scheduler, shuttle::Config::default());
        run(Box::new(RandomScheduler::new_from_seed(SEED, rounds))).run(move || random());
        run(Box::new(PctScheduler::new_from_seed(SEED, 3, rounds))).run(move || model());
    }
}

/// Schedules of each kind that a shuttle model runs: `SHARDRUN_SCHEDULES`, 2,000 if unset.
#[cfg(shardrun_shuttle)]
pub(crate) fn schedules() -> usize {
    std::env::var("SHARDRUN_SCHEDULES").ok().and_then(|n| n.parse().ok()).unwrap_or(2_000)
}
