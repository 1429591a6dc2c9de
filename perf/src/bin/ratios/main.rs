//! Measures Shardrun beside what a user would pick instead, group by group, and says which goals are reached.
//! Each group runs in a process of its own, in a stated placement; a noisy group is tried again, and then gets no verdict.
//!
//! `cargo run --release -p shardrun-perf --bin ratios -- [GROUP…] [--rounds N] [--tries N] [--quick] [--list] [--tables] [--goals]`

mod dag;
mod edges;
mod execute;
mod graph;
mod graph_limits;
mod graph_rivals;
mod idle;
mod index;
mod keyed;
mod lanes;
mod pools;
mod report;
mod round_trip;
mod scale;
mod stages;
mod views;

use pools::Place;
use serde_json::{Value, json};
use shardrun_perf::probe::Watch;
use std::process::{Command, ExitCode, Stdio};

shardrun_perf::choose_allocator!();

/// How much work a round does.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds per peer; medians are taken over them.
    pub rounds: usize,
    /// Divides the operations of a round: 1, or more for a quick look that proves nothing.
    pub divide: usize,
}

impl Effort {
    /// `operations`, or fewer for a quick look.
    pub fn of(&self, operations: usize) -> usize {
        (operations / self.divide).max(64)
    }
}

/// One row of the table, or a few that belong together.
struct Group {
    name: &'static str,
    about: &'static str,
    placements: &'static [&'static str],
    run: fn(&Place, Effort) -> Vec<Value>,
}

const GROUPS: &[Group] = &[
    Group {
        name: "lanes",
        about: "jobs of actors, by number of registered actors",
        placements: &["both"],
        run: lanes::actors,
    },
    Group {
        name: "lane-job",
        about: "a job of an actor beside a bare closure, and a look at liveness",
        placements: &["apart"],
        run: lanes::jobs,
    },
    Group {
        name: "execute",
        about: "a small closure by execute on a worker",
        placements: &["apart", "both"],
        run: execute::on_worker,
    },
    Group {
        name: "outside",
        about: "small closures from outside the pool, one by one and in batches of 64",
        placements: &["one", "apart"],
        run: execute::outside,
    },
    Group {
        name: "fan",
        about: "one producer on a worker, 10,000 tasks and a join",
        placements: &["both"],
        run: execute::fan,
    },
    Group {
        name: "trip",
        about: "a round trip back to back: time and CPU",
        placements: &["apart"],
        run: round_trip::back_to_back,
    },
    Group {
        name: "trip-idle",
        about: "a round trip after 2 ms of idleness",
        placements: &["apart"],
        run: round_trip::after_idle,
    },
    Group { name: "idle", about: "CPU of an idle process over 10 s", placements: &["both"], run: idle::idle },
    Group {
        name: "fresh",
        about: "requests on new files, submit to done, 64 outstanding: Source alone, and Source to Artifact",
        placements: &["one", "apart"],
        run: stages::fresh,
    },
    Group {
        name: "keyed",
        about: "hits of kept values, borrowed and counted, beside a bare map",
        placements: &["both", "one"],
        run: keyed::hits,
    },
    Group {
        name: "keyed-threads",
        about: "borrowed hits by 1 to 8 threads",
        placements: &["both"],
        run: keyed::hits_by_threads,
    },
    Group {
        name: "satisfied",
        about: "requests and reads of what is done",
        placements: &["one", "apart"],
        run: stages::satisfied,
    },
    Group {
        name: "edit",
        about: "edit a file and request it again, 64 outstanding",
        placements: &["one", "apart"],
        run: stages::edit,
    },
    Group {
        name: "batch",
        about: "an atomic batch of 1,000 edits, per member, and how long the sequencer is held",
        placements: &["one", "apart"],
        run: stages::batch,
    },
    Group {
        name: "files",
        about: "1,000 and 100,000 files, beside a bare map",
        placements: &["apart"],
        run: scale::files,
    },
    Group { name: "threads", about: "1 to 16 submitting threads", placements: &["both"], run: scale::threads },
    Group {
        name: "pending",
        about: "1,000 to 30,000 requests pending at once",
        placements: &["apart"],
        run: scale::pending,
    },
    Group {
        name: "edges",
        about: "the end of an Analysis per Artifact of another file that waits for it, beside a bare countdown",
        placements: &["one", "apart"],
        run: edges::edges,
    },
    Group {
        name: "roots",
        about: "capture of a source root and lookups in it, with 1 and 1,000 live",
        placements: &["one", "apart"],
        run: views::roots,
    },
    Group {
        name: "borrowed",
        about: "reads of one hot file by 1 to 16 threads",
        placements: &["both"],
        run: views::borrowed,
    },
    Group {
        name: "storm",
        about: "8 threads read and request while 8 others edit",
        placements: &["both"],
        run: views::storm,
    },
    Group {
        name: "graph-layers",
        about: "a graph of 100 × 100 layers with 3 dependencies, beside rayon",
        placements: &["apart", "both"],
        run: graph::layers,
    },
    Group {
        name: "graph-chain",
        about: "a chain of tasks, beside rayon",
        placements: &["apart", "both"],
        run: graph::chain,
    },
    Group {
        name: "graph-fan",
        about: "a fan of tasks and a join, beside rayon",
        placements: &["apart", "both"],
        run: graph::fan,
    },
    Group {
        name: "graph-random",
        about: "tasks with 3 dependencies drawn at random, beside rayon",
        placements: &["apart", "both"],
        run: graph::random,
    },
    Group {
        name: "graph-dense",
        about: "layers whose tasks wait for all of the layer before, beside rayon",
        placements: &["apart", "both"],
        run: graph::dense,
    },
    Group {
        name: "dag",
        about: "graphs of computations made, run and dropped, beside counted nodes under rayon",
        placements: &["apart", "both"],
        run: dag::dag,
    },
    Group {
        name: "graph-growth",
        about: "1,000 to 1,000,000 tasks, ranks included, beside Kahn's algorithm",
        placements: &["apart"],
        run: graph_limits::growth,
    },
    Group {
        name: "graph-blocked",
        about: "6,000 tasks that are ready, of which one may run",
        placements: &["apart"],
        run: graph_limits::blocked,
    },
    Group {
        name: "graph-efficiency",
        about: "the size of a task at which 2 workers do half of what they could",
        placements: &["both"],
        run: graph_limits::efficiency,
    },
    Group {
        name: "index",
        about: "the index of a big source tree, beside a plain rayon loop (the tool's allocator is the system's)",
        placements: &["both"],
        run: index::index,
    },
];

struct Asked {
    groups: Vec<String>,
    effort: Effort,
    tries: usize,
    child: Option<(String, String)>,
    print: Option<fn()>,
}

fn usage() -> ! {
    eprintln!("usage: ratios [GROUP…] [--rounds N] [--tries N] [--quick] [--list] [--tables] [--goals]");
    std::process::exit(2)
}

fn parse() -> Asked {
    let mut asked =
        Asked { groups: Vec::new(), effort: Effort { rounds: 11, divide: 1 }, tries: 3, child: None, print: None };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or_else(|| usage());
        match word.as_str() {
            "--rounds" => asked.effort.rounds = number(),
            "--tries" => asked.tries = number(),
            "--divide" => asked.effort.divide = number(),
            "--quick" => {
                asked.effort = Effort { rounds: 3, divide: 10 };
                asked.tries = 1;
            }
            "--tables" => asked.print = Some(report::print_kept),
            "--goals" => asked.print = Some(report::print_goals),
            "--child" => asked.child = words.next().zip(words.next()),
            "--list" => {
                GROUPS.iter().for_each(|group| println!("{:16} {}", group.name, group.about));
                std::process::exit(0)
            }
            name if GROUPS.iter().any(|group| group.name == name) => asked.groups.push(name.to_string()),
            _ => usage(),
        }
    }
    asked
}

/// Runs one group in one placement in a child process, until a try is quiet or the tries are used up.
fn measure(group: &Group, placement: &str, effort: Effort, tries: usize) -> Value {
    let exe = std::env::current_exe().expect("this binary has a path");
    let mut last = Value::Null;
    for _ in 0..tries {
        let watch = Watch::begin();
        let output = Command::new(&exe)
            .args(["--child", group.name, placement])
            .args(["--rounds", &effort.rounds.to_string(), "--divide", &effort.divide.to_string()])
            .stderr(Stdio::inherit())
            .output()
            .expect("the group's process starts");
        let noise = watch.end();
        if !output.status.success() {
            return json!({ "group": group.name, "failed": output.status.to_string() });
        }
        let series: Value = serde_json::from_slice(&output.stdout).expect("a group prints JSON");
        let mut objection = noise.objection();
        if effort.rounds < shardrun_perf::series::LEAST_ROUNDS {
            objection = Some("too few rounds".into());
        }
        last = json!({
            "group": group.name, "about": group.about, "series": series, "noise": noise.json(),
            "noise_line": noise.line(), "objection": objection,
        });
        if objection.is_none() {
            break;
        }
    }
    last
}

fn main() -> ExitCode {
    let asked = parse();
    if let Some((name, placement)) = &asked.child {
        let group = GROUPS.iter().find(|group| group.name == name).unwrap_or_else(|| usage());
        let series = (group.run)(&Place::named(placement), asked.effort);
        println!("{}", Value::Array(series));
        return ExitCode::SUCCESS;
    }
    if let Some(print) = asked.print {
        print();
        return ExitCode::SUCCESS;
    }
    report::print_head();
    let mut failed = false;
    for group in GROUPS.iter().filter(|group| asked.groups.is_empty() || asked.groups.iter().any(|n| n == group.name)) {
        for placement in group.placements {
            let measured = measure(group, placement, asked.effort, asked.tries);
            failed |= measured.get("failed").is_some();
            report::print_group(&measured);
            if asked.effort.divide == 1 {
                report::keep(group.name, placement, &measured);
            }
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
