//! Turns the output of `perf script` into a flame graph: standard input to standard output.
//! It does not know what was recorded.

use inferno::collapse::Collapse;
use inferno::collapse::perf::Folder;
use inferno::flamegraph::{Options, from_reader};
use std::io::{self, BufReader, BufWriter};

fn main() -> io::Result<()> {
    let mut folded = Vec::new();
    Folder::default().collapse(BufReader::new(io::stdin().lock()), &mut folded)?;
    let mut options = Options::default();
    options.title = std::env::args().nth(1).unwrap_or_else(|| "Flame graph".into());
    options.count_name = "samples".into();
    from_reader(&mut options, folded.as_slice(), BufWriter::new(io::stdout().lock()))
}
