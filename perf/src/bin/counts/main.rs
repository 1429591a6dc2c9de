//! Operations whose instructions callgrind counts, and the arithmetic on what it has counted; `perf/counts` is the way in.
//! It does not measure time, and runs on one thread, so that the figures come out the same again.

mod operations;
mod weigh;

use std::process::ExitCode;

shardrun_perf::choose_allocator!();

const USAGE: &str = "usage: counts list | counts run OPERATION N | counts weigh FILE-OF-N FILE-OF-2N N";

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
            let (once, twice) = (weigh::totals(once), weigh::totals(twice));
            let per = |a: u64, b: u64| (b as f64 - a as f64) / n.parse::<f64>().expect("N is a number");
            println!("{:.1} {:.2}", per(once.instructions, twice.instructions), per(once.locked, twice.locked));
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
