//! Operations whose instructions callgrind counts, and the arithmetic on what it has counted; `perf/counts` is the way in.
//! It does not measure time, and runs on one thread, so that the figures come out the same again.

mod operations;
mod weigh;

use std::process::ExitCode;

shardrun_perf::choose_allocator!();

const USAGE: &str = "usage: counts list | counts writes | counts run OPERATION N | counts weigh FILE-OF-N FILE-OF-2N N | counts where FILE-OF-N FILE-OF-2N N";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["list"] => {
            for (name, n, _) in operations::ALL {
                let counted = operations::COUNTED.iter().find(|(other, _)| other == name);
                println!("{name} {n} {}", counted.map_or("", |(_, function)| function));
            }
        }
        #[cfg(shardrun_counting)]
        ["writes"] => {
            println!("{:<28} {:>10} {:>10}", "operation", "exchanges", "stores");
            for (name, n, run) in operations::ALL {
                let (stores, exchanges) = writes(*n, *run);
                println!("{name:<28} {exchanges:>10.2} {stores:>10.2}");
            }
        }
        ["run", name, n] => match (operations::ALL.iter().find(|(known, ..)| known == name), n.parse()) {
            (Some((_, _, run)), Ok(n)) => run(n),
            _ => {
                eprintln!("no operation {name}, or no number {n}\n{USAGE}");
                return ExitCode::from(2);
            }
        },
        ["weigh", once, twice, n] => {
            let (once, twice) = (weigh::total(&weigh::totals(once)), weigh::total(&weigh::totals(twice)));
            let (instructions, locked) = per_operation(once, twice, n);
            println!("{instructions:.1} {locked:.2}");
        }
        ["where", once, twice, n] => {
            let (once, twice) = (weigh::totals(once), weigh::totals(twice));
            let of = |name: &String| once.get(name).copied().unwrap_or_default();
            let mut rows: Vec<_> = twice.iter().map(|(name, sum)| (per_operation(of(name), *sum, n), name)).collect();
            rows.sort_by(|one, other| other.0.0.total_cmp(&one.0.0));
            for ((instructions, locked), name) in rows.into_iter().filter(|row| row.0.0 >= 5.0) {
                println!("{instructions:10.1} {locked:8.2}  {name}");
            }
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

/// Stores to words of the engine per operation, and exchanges with them: what 2 N write more than N, divided by N.
#[cfg(shardrun_counting)]
fn writes(n: u64, run: fn(u64)) -> (f64, f64) {
    let of = |n: u64| {
        let before = shardrun::counted_writes();
        run(n);
        let after = shardrun::counted_writes();
        ((after.0 - before.0) as f64, (after.1 - before.1) as f64)
    };
    let (once, twice) = (of(n), of(2 * n));
    ((twice.0 - once.0) / n as f64, (twice.1 - once.1) / n as f64)
}

/// Instructions and locked ones per operation: what 2 N cost more than N, divided by N.
fn per_operation(once: weigh::Totals, twice: weigh::Totals, n: &str) -> (f64, f64) {
    let per = |a: u64, b: u64| (b as f64 - a as f64) / n.parse::<f64>().expect("N is a number");
    (per(once.instructions, twice.instructions), per(once.locked, twice.locked))
}
