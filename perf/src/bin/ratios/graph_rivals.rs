//! How a user of rayon runs a task graph: a scope, one atomic counter a task, and a spawn for each task that is ready.
//! It does not know what a task does. Twice: as it is written first, and with the successor released last run in place.

use rayon::Scope;
use shardrun_perf::graphs::Counters;

/// Runs the graph on the calling thread's pool: whatever is released is spawned.
pub fn with_counters(graph: &Counters, body: &(impl Fn(u32) + Sync)) {
    graph.reset();
    rayon::scope(|scope| {
        for &task in graph.first() {
            scope.spawn(move |scope| spawned(scope, graph, task, body));
        }
    });
}

fn spawned<'a>(scope: &Scope<'a>, graph: &'a Counters, task: u32, body: &'a (impl Fn(u32) + Sync)) {
    body(task);
    graph.release(task, |ready| scope.spawn(move |scope| spawned(scope, graph, ready, body)));
}

/// The same, but of what a task releases the last is run in place, and the others are spawned.
pub fn with_inline_next(graph: &Counters, body: &(impl Fn(u32) + Sync)) {
    graph.reset();
    rayon::scope(|scope| {
        for &task in graph.first() {
            scope.spawn(move |scope| in_place(scope, graph, task, body));
        }
    });
}

fn in_place<'a>(scope: &Scope<'a>, graph: &'a Counters, mut task: u32, body: &'a (impl Fn(u32) + Sync)) {
    loop {
        body(task);
        let mut next = None;
        graph.release(task, |ready| {
            if let Some(before) = next.replace(ready) {
                scope.spawn(move |scope| in_place(scope, graph, before, body));
            }
        });
        match next {
            Some(ready) => task = ready,
            None => return,
        }
    }
}
