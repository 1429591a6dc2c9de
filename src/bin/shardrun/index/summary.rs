//! What the index found, as a table for people and as one JSON object for programs.
//! It does not know how it was found.
#![forbid(unsafe_code)]

use super::totals::{Sums, Totals};
use crate::work::fingerprint::Hash;
use crate::work::json;
use crate::work::resolve::Tree;
use serde_json::{Value, json};
use shardrun::{CounterSummary, Counters};
use std::fmt::Write;
use std::time::Duration;

/// How many of the most imported files, of the cycles, and of the files in a cycle the table shows.
const IMPORTED_SHOWN: usize = 10;
const CYCLES_SHOWN: usize = 5;
const MEMBERS_SHOWN: usize = 6;

const STAGES: [&str; 3] = ["source", "analysis", "artifact"];

/// Everything that is shown.
pub(crate) struct Summary<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) totals: &'a Totals,
    pub(crate) cycles: &'a [Vec<u32>],
    pub(crate) counters: &'a Counters,
    pub(crate) wall: Duration,
    pub(crate) asked: &'a Asked,
}

/// What is shown only if it was asked for.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// The paths of the files that a change affects.
    pub(crate) affected: Option<Vec<String>>,
    /// Of the whole tree.
    pub(crate) fingerprint: Option<Hash>,
}

impl Summary<'_> {
    /// One JSON object:
    ///
    /// | key | value |
    /// |---|---|
    /// | `files`, `bytes` | what was indexed: two numbers |
    /// | `languages` | an array, most code first, of `language`, `files`, `bytes`, `lines`, `code`, `comment`, `blank`, `definitions`, `imports`, `external`, `missing`, `ambiguous` |
    /// | `edges` | how many pairs of files there are of which one imports the other |
    /// | `unresolved` | how many imports should lead into the tree and lead to nothing (`missing`) or to several files (`ambiguous`) |
    /// | `cycles` | an array, the largest first, of arrays of the paths of files that import one another in a circle |
    /// | `stages` | an array of `stage`, `done`, `seconds` (summed over the workers) |
    /// | `workers` | an array of `worker`, `busy` (the share of the wall time), `jobs`, `steals`, `sleeps` |
    /// | `seconds` | wall time |
    /// | `affected` | only with `--affected`: an array of paths, sorted |
    /// | `fingerprint` | only with `--fingerprints`: of the whole tree, in hexadecimal |
    pub(crate) fn json(&self) -> String {
        let whole = self.totals.whole();
        let languages: Vec<Value> =
            self.totals.by_language().iter().map(|(language, sums)| language_json(language.name(), sums)).collect();
        let cycles: Vec<Vec<&str>> =
            self.cycles.iter().map(|cycle| cycle.iter().map(|&file| self.tree.path(file)).collect()).collect();
        let stages: Vec<Value> = STAGES
            .iter()
            .zip(&self.totals.stages)
            .filter(|(_, sum)| sum.done > 0)
            .map(|(stage, sum)| json!({"stage": stage, "done": sum.done, "seconds": sum.time.as_secs_f64()}))
            .collect();
        let engine = CounterSummary::new(self.counters, self.wall);
        let workers: Vec<Value> = engine
            .workers()
            .map(|worker| {
                json!({
                    "worker": worker.worker.to_string(), "busy": engine.busy_share(worker), "jobs": worker.executed,
                    "steals": worker.steals, "sleeps": worker.parks,
                })
            })
            .collect();
        let mut object = json!({
            "files": whole.files, "bytes": whole.bytes, "languages": languages, "edges": self.totals.graph.edges(),
            "unresolved": whole.unresolved(), "cycles": cycles, "stages": stages, "workers": workers,
            "seconds": self.wall.as_secs_f64(),
        });
        if let Some(affected) = &self.asked.affected {
            object["affected"] = json!(affected);
        }
        if let Some(fingerprint) = &self.asked.fingerprint {
            object["fingerprint"] = json!(hexadecimal(fingerprint));
        }
        format!("{object}\n")
    }

    /// The table.
    pub(crate) fn table(&self) -> String {
        let mut out = String::new();
        self.languages(&mut out);
        self.imports(&mut out);
        self.cycles(&mut out);
        self.engine(&mut out);
        out
    }

    fn languages(&self, out: &mut String) {
        let mut rows = vec![
            ["language", "files", "lines", "code", "comment", "blank", "definitions", "imports", "bytes"]
                .map(String::from),
        ];
        rows.extend(self.totals.by_language().iter().map(|(language, sums)| row(language.name(), sums)));
        rows.push(row("total", &self.totals.whole()));
        let widths: [usize; 9] =
            std::array::from_fn(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0));
        for (number, row) in rows.iter().enumerate() {
            if number == 1 || number + 1 == rows.len() {
                let width = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
                let _ = writeln!(out, "{}", "-".repeat(width));
            }
            let _ = write!(out, "{:<width$}", row[0], width = widths[0]);
            for (cell, width) in row.iter().zip(widths).skip(1) {
                let _ = write!(out, "  {cell:>width$}");
            }
            out.push('\n');
        }
    }

    fn imports(&self, out: &mut String) {
        let whole = self.totals.whole();
        let _ = writeln!(
            out,
            "\n{} edges between files; of {} imports {} lead into the tree, {} out of it, {} are unresolved ({} missing, {} ambiguous)",
            grouped(self.totals.graph.edges() as u64),
            grouped(whole.imports()),
            grouped(whole.found),
            grouped(whole.external),
            grouped(whole.unresolved()),
            grouped(whole.missing),
            grouped(whole.ambiguous),
        );
        let imported = self.totals.most_imported(IMPORTED_SHOWN);
        if !imported.is_empty() {
            out.push_str("\nmost imported\n");
        }
        for (file, importers) in imported {
            let _ = writeln!(out, "  {:>9}  {}", grouped(u64::from(importers)), printable(self.tree.path(file)));
        }
    }

    fn cycles(&self, out: &mut String) {
        if self.cycles.is_empty() {
            return out.push_str("\nno cycles\n");
        }
        let files: usize = self.cycles.iter().map(Vec::len).sum();
        let _ = writeln!(out, "\n{} cycles of {} files", grouped(self.cycles.len() as u64), grouped(files as u64));
        for cycle in self.cycles.iter().take(CYCLES_SHOWN) {
            let mut number = grouped(cycle.len() as u64);
            for &file in cycle.iter().take(MEMBERS_SHOWN) {
                let _ = writeln!(out, "  {number:>9}  {}", printable(self.tree.path(file)));
                number.clear();
            }
            let more = cycle.len().saturating_sub(MEMBERS_SHOWN);
            if more > 0 {
                let _ = writeln!(out, "  {:>9}  and {} more", "", grouped(more as u64));
            }
        }
    }

    fn engine(&self, out: &mut String) {
        out.push_str("\nstage          done  time, all workers\n");
        for (stage, sum) in STAGES.iter().zip(&self.totals.stages).filter(|(_, sum)| sum.done > 0) {
            let _ = writeln!(out, "{stage:<8}  {:>9}  {:>15.3} s", grouped(sum.done), sum.time.as_secs_f64());
        }
        out.push('\n');
        let _ = write!(out, "{}", CounterSummary::new(self.counters, self.wall));
        if let Some(fingerprint) = &self.asked.fingerprint {
            let _ = writeln!(out, "\nfingerprint of the tree  {}", hexadecimal(fingerprint));
        }
        let (whole, seconds) = (self.totals.whole(), self.wall.as_secs_f64());
        let rate = whole.files as f64 / seconds.max(1e-9);
        let _ = writeln!(
            out,
            "\n{} files, {:.1} MB in {seconds:.3} s ({} files/s)",
            grouped(whole.files),
            whole.bytes as f64 / 1e6,
            grouped(rate as u64)
        );
    }
}

fn hexadecimal(hash: &Hash) -> String {
    let mut out = String::with_capacity(64);
    json::hex(&mut out, hash);
    out
}

fn language_json(name: &str, sums: &Sums) -> Value {
    json!({
        "language": name, "files": sums.files, "bytes": sums.bytes, "lines": sums.lines(), "code": sums.code,
        "comment": sums.comment, "blank": sums.blank, "definitions": sums.definitions, "imports": sums.imports(),
        "external": sums.external, "missing": sums.missing, "ambiguous": sums.ambiguous,
    })
}

fn row(name: &str, sums: &Sums) -> [String; 9] {
    let numbers =
        [sums.files, sums.lines(), sums.code, sums.comment, sums.blank, sums.definitions, sums.imports(), sums.bytes];
    std::array::from_fn(|at| if at == 0 { name.to_owned() } else { grouped(numbers[at - 1]) })
}

/// A path without what would move the cursor.
fn printable(path: &str) -> String {
    path.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// `1234567` as `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn numbers_are_grouped_by_three() {
        assert_eq!([0, 12, 123, 1234, 1_234_567].map(grouped), ["0", "12", "123", "1,234", "1,234,567"]);
    }
}
