//! The index of a source tree under a plain rayon loop: the same walk and the same functions per file as `shardrun index`, and
//! what a user would write around them. It does not print tables, nor keep what has been computed.
//!
//! `cargo run --release -p shardrun-perf --bin rayon_index -- DIR`

#[allow(dead_code, unused_imports, reason = "the folder belongs to the tool, which uses all of it")]
#[path = "../../../src/bin/shardrun/work/mod.rs"]
mod work;

use ignore::WalkBuilder;
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use work::resolve::{Tree, manifests::MANIFEST_BYTES_MAX};

/// What the tool refuses by default.
const LARGEST: u64 = 64 << 20;

fn files(root: &Path) -> Vec<PathBuf> {
    WalkBuilder::new(root)
        .sort_by_file_name(|one, other| one.cmp(other))
        .filter_entry(|entry| !(entry.depth() > 0 && entry.file_name() == ".git"))
        .build()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
        .map(|entry| entry.into_path())
        .collect()
}

fn tree(root: &Path, files: &[PathBuf]) -> Tree {
    let relative = |file: &PathBuf| file.strip_prefix(root).unwrap_or(file).to_string_lossy().into();
    let mut buffer = work::read::Buffer::new();
    Tree::new(files.iter().map(relative).collect(), |number| {
        buffer.load(&files[number as usize], MANIFEST_BYTES_MAX as u64).ok()?;
        Some(String::from_utf8_lossy(buffer.text()).into_owned())
    })
}

/// Files, bytes, lines of code, edges.
type Sums = [u64; 4];

fn main() {
    let Some(root) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: rayon_index DIR");
        std::process::exit(2)
    };
    let files = files(&root);
    let tree = tree(&root, &files);
    let one = |worker: &mut work::Worker, (number, file): (usize, &PathBuf)| -> Sums {
        let number = number as u32;
        let Ok(()) = worker.load(file, LARGEST) else { return [0; 4] };
        let source = worker.scan(tree.path(number));
        let analysis = work::analyse(&tree, number, &source);
        [1, source.bytes, u64::from(analysis.lines.code), analysis.edges.len() as u64]
    };
    let sums = files
        .par_iter()
        .enumerate()
        .map_init(work::Worker::new, one)
        .reduce(|| [0; 4], |one, other| std::array::from_fn(|at| one[at] + other[at]));
    println!("{{\"files\":{},\"bytes\":{},\"code\":{},\"edges\":{}}}", sums[0], sums[1], sums[2], sums[3]);
}
