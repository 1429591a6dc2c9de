//! Operations whose instructions callgrind counts, and the arithmetic on what it has counted; `perf/counts` is the way in.
//! It does not measure time, and runs on one thread, so that the figures come out the same again.

mod operations;
mod weigh;

use std::process::ExitCode;

shardrun_perf::choose_allocator!();

const USAGE: &str = "usage: counts list | counts run OPERATION N | counts weigh FILE-OF-N FILE-OF-2N N | counts where FILE-OF-N FILE-OF-2N N";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["list"] => operations::ALL.iter().for_each(|(name, n, _)| println!("{name} {n}")),
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

/// Instructions and locked ones per operation: what 2 N cost more than N, divided by N.
fn per_operation(once: weigh::Totals, twice: weigh::Totals, n: &str) -> (f64, f64) {
    let per = |a: u64, b: u64| (b as f64 - a as f64) / n.parse::<f64>().expect("N is a number");
    (per(once.instructions, twice.instructions), per(once.locked, twice.locked))
}
