//! Caches beside a scheduler of stages: one runtime, one budget, one wait graph.
//! It does not know what the stages and the builders compute.

use shardrun::{
    Admission, Budget, Cache, CacheError, Caches, Dag, Driver, Host, Pool, Request, Retain, Runtime, StageCx,
    StageError, Stages, TaskKind, WorkAmounts, WorkBudget,
};
use std::convert::Infallible;
use std::io;
use std::sync::OnceLock;

/// Its Source is what a cache says of the file.
#[derive(Default)]
struct Cached(OnceLock<Cache<u64, String, io::Error>>);

impl Host for Cached {
    type File = u64;
    type Text = ();
    type Source = String;
    type Analysis = ();
    type Artifact = ();
    type Profile = u8;
    type Error = io::Error;

    fn load(&self, _: &u64) -> Result<Option<()>, io::Error> {
        Ok(Some(()))
    }

    fn source(&self, cx: &StageCx<'_, Self>, (): ()) -> Result<String, io::Error> {
        let cache = self.0.get().expect("it is set before the first request");
        let value = cache.get_or_build(*cx.file(), |cx| Ok(format!("cached {}", cx.key()))).wait();
        value.map(|value| String::clone(&value)).map_err(io::Error::other)
    }

    fn analysis(&self, _: &StageCx<'_, Self>, _: &String) -> Result<(), io::Error> {
        Ok(())
    }

    fn artifact(&self, _: &StageCx<'_, Self>, _: &u8, _: &String, (): &()) -> Result<(), io::Error> {
        Ok(())
    }

    fn source_pool(&self) -> Pool {
        Pool::Workers
    }
}

fn beside(runtime: &Runtime, budget: &Budget) -> (Stages<Cached>, Cache<u64, String, io::Error>) {
    let stages = Stages::builder(runtime, Cached::default()).budget(budget.clone()).build();
    let cache = stages.caches().build().fallible(1, Retain::none()).expect("nobody has opened it with other types");
    stages.host().0.set(cache.clone()).expect("it is set once");
    (stages, cache)
}

#[test]
fn a_scheduler_and_the_graphs_beside_it_share_one_budget() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let budget = Budget::for_runtime(3, &runtime);
    let (stages, cache) = beside(&runtime, &budget);
    let amounts = WorkAmounts { nodes: 3, edges: 3, cpu: 3, io: 3 };
    let room = WorkBudget::for_runtime(amounts, &runtime).unwrap().nodes_from(budget.clone()).unwrap();
    let dags = stages.dags().budget(room.clone());
    let pair = || {
        let (asks, mut dag) = (stages.clone(), Dag::builder());
        let first = dag.keyed(TaskKind::CacheNode, cache.node(7, |_| Ok("by the graph".to_owned()))).id();
        // It waits for a stage that waits for the same cache.
        let second = dag.node(TaskKind::Analysis, move |_| asks.submit_request(Request::source(7)).wait().map(drop));
        second.after(first);
        dag.build().unwrap()
    };
    let request = stages.submit_request(Request::source(1));
    let graph = dags.submit_dag(pair()).unwrap();
    assert_eq!((budget.in_use(), room.available().nodes), (3, 0));
    let Admission::Backpressured(declined) = dags.try_submit_dag(pair()).unwrap() else { panic!("it is spent") };
    assert_eq!((declined.refused.requested.nodes, declined.refused.available.nodes), (2, 0));
    assert!(matches!(stages.try_submit_request(Request::source(2)), Admission::Backpressured(_)));
    assert!(graph.wait().unwrap().is_success() && request.wait().is_ok());
    assert_eq!(*stages.submit_request(Request::source(7)).wait().unwrap(), "cached 7");
    runtime.drive_all();
    assert_eq!((budget.in_use(), room.available()), (0, amounts));
}

#[test]
fn a_scheduler_and_the_caches_beside_it_share_one_budget() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let budget = Budget::for_runtime(1, &runtime);
    let (stages, cache) = beside(&runtime, &budget);
    let Admission::Admitted(built) = cache.try_get_or_build(9, |_| Ok(String::new())) else { panic!("it is free") };
    assert!(matches!(stages.try_submit_request(Request::source(1)), Admission::Backpressured(_)));
    assert!(built.wait().is_ok());
    let Admission::Admitted(source) = stages.try_submit_request(Request::source(1)) else { panic!("it is free again") };
    assert!(matches!(cache.try_get_or_build(9, |_| Ok(String::new())), Admission::Backpressured(_)));
    assert_eq!(*source.wait().unwrap(), "cached 1", "a stage that needs a value goes into debt for it");
    assert_eq!(budget.in_use(), 0);
}

#[test]
fn a_ring_of_waits_through_a_stage_and_a_cache_is_told() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let budget = Budget::for_runtime(10, &runtime);
    let (stages, cache) = beside(&runtime, &budget);
    let inner = stages.clone();
    let built = cache.get_or_build(1, move |_| {
        let source = inner.submit_request(Request::source(1)).wait();
        source.map(|source| String::clone(&source)).map_err(|error| match error {
            StageError::Failed(failure) => io::Error::other(format!("{failure:?}")),
            other => io::Error::other(format!("unexpected: {other}")),
        })
    });
    let Err(CacheError::Failed(said)) = built.wait() else { panic!("the stage fails, and so does the builder") };
    assert!(said.to_string().contains("Reentrant"), "{said}");
    assert_eq!(budget.in_use(), 0);
}

#[test]
fn caches_stand_alone_too() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let cache: Cache<u8, u8, Infallible> = Caches::new(&runtime).cache(1, Retain::all()).unwrap();
    assert_eq!(*cache.get_or_build(1, |_| Ok(2)).wait().unwrap(), 2);
}
