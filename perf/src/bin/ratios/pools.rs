//! The pools that are compared, each with its threads on the same CPUs.
//! It does not know what runs on them.

use shardrun::Pinning;
use shardrun_perf::place;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where the client and the workers stand.
#[derive(Clone, Debug)]
pub struct Place {
    /// In words, for the tables.
    pub says: String,
    /// The CPU of each worker.
    pub workers: Vec<usize>,
    /// The CPUs of the main thread, which is the client.
    client: Vec<usize>,
    /// Whether the whole process is held on the client's CPUs.
    whole: bool,
}

impl Place {
    /// The placement of that name: `one` (everything on one CPU), `apart` (client and one worker on two CPUs), or `both`
    /// (two workers on two CPUs, the client asleep).
    pub fn named(name: &str) -> Self {
        let cpus = place::allowed();
        let first = cpus[0];
        let second = *cpus.get(1).unwrap_or(&first);
        let lonely = if first == second { ", only one CPU here" } else { "" };
        match name {
            "one" => Self {
                says: format!("process pinned to CPU {first}, 1 worker"),
                workers: vec![first],
                client: vec![first],
                whole: true,
            },
            "apart" => Self {
                says: format!("worker on CPU {first}, client on CPU {second}{lonely}"),
                workers: vec![first],
                client: vec![second],
                whole: false,
            },
            "both" => Self {
                says: format!("2 workers on CPUs {first} and {second}, the client parked{lonely}"),
                workers: vec![first, second],
                client: vec![first, second],
                whole: false,
            },
            _ => panic!("no placement is named {name}"),
        }
    }
}

/// All pools, built in one placement.
pub struct Pools {
    /// A pool of rayon's own, not its global one.
    pub rayon: rayon::ThreadPool,
    /// The multi-threaded runtime.
    pub tokio: tokio::runtime::Runtime,
    /// Ours.
    pub shardrun: shardrun::Runtime,
}

impl Pools {
    /// Builds the pools and then pins the calling thread, which is the client.
    pub fn build(place: &Place) -> Self {
        if place.whole {
            place::pin(&place.client);
        }
        let pools = Self { rayon: rayon_pool(place), tokio: tokio_pool(place), shardrun: shardrun_pool(place) };
        place::pin(&place.client);
        pools
    }
}

/// A rayon pool on the place's workers.
pub fn rayon_pool(place: &Place) -> rayon::ThreadPool {
    let cpus = place.workers.clone();
    rayon::ThreadPoolBuilder::new()
        .num_threads(cpus.len())
        .start_handler(move |worker| place::pin(&[cpus[worker]]))
        .build()
        .expect("rayon's pool starts")
}

/// A tokio runtime on the place's workers, without drivers for I/O and time.
pub fn tokio_pool(place: &Place) -> tokio::runtime::Runtime {
    let cpus = place.workers.clone();
    let next = Arc::new(AtomicUsize::new(0));
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cpus.len())
        .on_thread_start(move || place::pin(&[cpus[next.fetch_add(1, Ordering::Relaxed) % cpus.len()]]))
        .build()
        .expect("tokio's runtime starts")
}

/// A Shardrun runtime on the place's workers.
pub fn shardrun_pool(place: &Place) -> shardrun::Runtime {
    let pinning = if place.whole { Pinning::Off } else { Pinning::Cores(place.workers.clone()) };
    shardrun::Runtime::builder().workers(place.workers.len()).pinning(pinning).build().expect("the runtime starts")
}
