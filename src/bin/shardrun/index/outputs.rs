//! The files that an index writes besides what is printed.
//! It does not know when the results come.
#![forbid(unsafe_code)]

use super::file::FileRef;
use super::results::{Indexed, Outlined, Span};
use super::totals::Totals;
use crate::cli::IndexArgs;
use crate::console::Console;
use crate::output::{Output, Sink};
use crate::work::fingerprint::Hash;
use crate::work::json;
use crate::work::resolve::Tree;
use shardrun::{DotWriter, TraceWriter};
use std::io::Write;

/// The files that are written besides what is printed.
#[derive(Default)]
pub(crate) struct Outputs {
    outline: Option<Output<Sink>>,
    trace: Option<Output<TraceWriter<Sink>>>,
    dot: Option<Output<DotWriter<Sink>>>,
    fingerprints: Option<Output<Sink>>,
}

impl Outputs {
    pub(crate) fn create(args: &IndexArgs, workers: usize, console: &mut Console) -> Self {
        let outline = args.outline.as_deref().map(|path| Output::create(path, console, Ok));
        let trace = args.trace.as_deref().map(|path| {
            Output::create(path, console, |sink| {
                let mut trace = TraceWriter::new(sink)?;
                trace.process_name("shardrun index")?;
                for worker in 0..workers {
                    trace.track_name(worker as u32, &format!("worker {worker}"))?;
                }
                Ok(trace)
            })
        });
        let dot = args.dot.as_deref().map(|path| Output::create(path, console, |sink| DotWriter::new(sink, "imports")));
        let fingerprints = args.fingerprints.as_deref().map(|path| Output::create(path, console, Ok));
        Outputs { outline, trace, dot, fingerprints }
    }

    /// A span of work on a file, for the trace.
    pub(crate) fn span(&mut self, file: &FileRef, stage: &str, span: Span, console: &mut Console) {
        if let Some(trace) = &mut self.trace {
            let (start, length) = (span.start(), span.length());
            trace.write(console, |trace| trace.span(span.track, file.path(), stage, start, length, &[]));
        }
    }

    /// One file has been indexed.
    pub(crate) fn file(
        &mut self,
        file: &FileRef,
        indexed: &Indexed,
        outlined: Option<&Outlined>,
        console: &mut Console,
    ) {
        if let (Some(outline), Some(outlined)) = (&mut self.outline, outlined) {
            outline.write(console, |sink| sink.write_all(outlined.take().as_bytes()));
        }
        self.span(file, "source", indexed.source_span, console);
        self.span(file, "analysis", indexed.span, console);
        if let Some(outlined) = outlined {
            self.span(file, "artifact", outlined.span, console);
        }
    }

    /// The fingerprints of all files that have one, by path.
    pub(crate) fn fingerprints(&mut self, files: &[FileRef], fingerprints: &[Option<Hash>], console: &mut Console) {
        let Some(output) = &mut self.fingerprints else { return };
        let of = |(file, hash): (&'_ FileRef, &Option<Hash>)| hash.map(|hash| (file.clone(), hash));
        let mut rows: Vec<(FileRef, Hash)> = files.iter().zip(fingerprints).filter_map(of).collect();
        rows.sort_by(|(one, _), (other, _)| one.path().cmp(other.path()));
        output.write(console, |sink| {
            let mut line = String::new();
            for (file, hash) in rows {
                line.clear();
                line.push_str("{\"path\":");
                json::string(&mut line, file.path().as_bytes());
                line.push_str(",\"fingerprint\":\"");
                json::hex(&mut line, &hash);
                line.push_str("\"}\n");
                sink.write_all(line.as_bytes())?;
            }
            Ok(())
        });
    }

    pub(crate) fn finish(mut self, tree: &Tree, totals: &Totals, console: &mut Console) {
        for output in [self.outline.take(), self.fingerprints.take()].into_iter().flatten() {
            output.finish(console, |mut sink| sink.flush());
        }
        if let Some(trace) = self.trace.take() {
            trace.finish(console, |trace| trace.finish().map(drop));
        }
        let Some(mut dot) = self.dot.take() else { return };
        dot.write(console, |dot| {
            for node in 0..totals.graph.nodes() {
                let path = tree.path(node as u32);
                dot.node(path, &[])?;
                for &target in totals.graph.targets(node) {
                    dot.edge(path, tree.path(target), &[])?;
                }
            }
            Ok(())
        });
        dot.finish(console, |dot| dot.finish().map(drop));
    }
}
