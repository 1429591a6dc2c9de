//! A small daemon's day on lanes: two projects, a build with its install, edits, reads that must see them, and background drains.
//!
//! `cargo run --example lanes`

use shardrun::{ActorOptions, CoalesceKey, LaneError, LaneKind, Lanes, LanesConfig, Latency, Runtime};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// What a project is: files and their number of lines.
#[derive(Default)]
struct Project {
    index: Mutex<BTreeMap<&'static str, usize>>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::builder().build()?;
    let lanes: Lanes<&str, Project> = Lanes::new(&runtime, LanesConfig::default())?;
    lanes.register("library", Project::default());
    // The project that somebody types in is served before the others.
    let typed_in = ActorOptions::new().latency(Latency::Prompt).weight(4);
    lanes.register_with("application", Project::default(), typed_in)?;

    // A long build beside everything; what it made is installed in a short step alone.
    let build = lanes.heavy(
        |_| BTreeMap::from([("main.rs", 120), ("lib.rs", 300)]),
        |cx, built| {
            *cx.context().index.lock().unwrap() = built;
        },
    );
    lanes.submit(&"application", build.named(1, "index")).wait()?;

    // An edit, and a read that must see it although reads go before writers.
    let edit = lanes.job(LaneKind::Mutating, |cx| {
        cx.context().index.lock().unwrap().insert("main.rs", 121);
    });
    let edit = lanes.submit(&"application", edit.named(2, "edit"));
    let read = lanes.job(LaneKind::PureRead, |cx| cx.context().index.lock().unwrap()["main.rs"]);
    let read = read.after(edit.ticket().ok_or("the edit was refused")?.clone());
    println!("main.rs has {} lines", lanes.submit(&"application", read).wait()?);

    // Three events of the file watcher: one drain that is queued serves all that came before it begins.
    let drain = || lanes.job(LaneKind::MaintenanceCommit, |_| "drained").joined(CoalesceKey::WATCHER_DRAIN);
    let drains: Vec<_> = (0..3).map(|_| lanes.submit(&"library", drain())).collect();
    for drain in drains {
        assert_eq!(drain.wait(), Ok("drained"));
    }

    // A panicking writer costs its own project, until it is reset.
    let broken = lanes.job(LaneKind::Mutating, |_| -> () { panic!("half an edit") });
    let answer = lanes.submit(&"library", broken.deadline(Duration::from_secs(5))).wait();
    println!("library: {}", answer.unwrap_err());
    assert_eq!(lanes.submit(&"library", lanes.job(LaneKind::PureRead, |_| ())).wait(), Err(LaneError::Fatal));
    lanes.reset("library", Project::default()).ok_or("it was not registered")?;
    lanes.drain(&"library").wait()?;

    let live = lanes.liveness();
    println!("{} interactive jobs are queued, {} slots are idle", live.interactive.queued, live.idle);
    let (interactive, maintenance) = lanes.completed();
    println!("{interactive} interactive and {maintenance} maintenance jobs have run");
    lanes.shutdown();
    Ok(())
}
