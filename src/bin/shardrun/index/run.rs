//! The course of an index: the walk, the stages while it goes on and after it, the outputs.
//! It does not know what the stages do with a file.
#![forbid(unsafe_code)]

use super::host::{FileRef, Indexed, Indexer, Outlined, Profile, name_thread};
use super::summary::Summary;
use super::totals::Totals;
use super::walk::walk;
use crate::cli::IndexArgs;
use crate::console::Console;
use crate::output::{self, Output, Sink};
use crate::work::read::Buffer;
use crate::work::resolve::{Tree, manifests::MANIFEST_BYTES_MAX};
use shardrun::{
    BatchHandle, DotWriter, FailureCause, Request, Runtime, StageError, StageHandle, StageValue, Stages, TraceWriter,
    WorkerKind,
};
use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Files that are asked for at once; fewer with an outline, since the lines of all that are not yet written are in memory.
const CHUNK_FILES: usize = 256;
const CHUNK_FILES_OUTLINED: usize = 16;
/// Chunks whose Source is made during the walk, if an outline makes it large: it stays in memory until the walk has ended.
const CHUNKS_AHEAD_OUTLINED: usize = 64;
/// Chunks that are asked for and not yet added up, per worker, and at least.
const CHUNKS_PER_WORKER: usize = 4;
const CHUNKS_MIN: usize = 8;

/// Room in the scheduler's table, made at once: some hundred kilobytes, where its growth would cost more than all its look-ups.
const FILES_EXPECTED: usize = 1 << 17;

/// Runs the command. Whatever went wrong has been said when it returns.
pub(crate) fn run(args: &IndexArgs, console: &mut Console) {
    let mut builder = Runtime::builder().io_threads(0).on_start(|worker| {
        let io = usize::from(worker.kind == WorkerKind::Io) << 16;
        name_thread((worker.index | io) as u32);
    });
    if let Some(threads) = args.threads {
        builder = builder.workers(threads.get());
    }
    let began = Instant::now();
    match builder.build() {
        Ok(runtime) => Index::new(args, runtime, began, console).run(args, console),
        Err(error) => console.complain_of("runtime", error),
    }
}

/// The files that are written besides what is printed.
struct Outputs {
    outline: Option<Output<Sink>>,
    trace: Option<Output<TraceWriter<Sink>>>,
    dot: Option<Output<DotWriter<Sink>>>,
}

impl Outputs {
    fn create(args: &IndexArgs, workers: usize, console: &mut Console) -> Self {
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
        Outputs { outline, trace, dot }
    }

    /// One file has been indexed.
    fn file(&mut self, path: &str, indexed: &Indexed, outlined: Option<&Outlined>, console: &mut Console) {
        if let (Some(outline), Some(outlined)) = (&mut self.outline, outlined) {
            outline.write(console, |sink| sink.write_all(outlined.take().as_bytes()));
        }
        if let Some(trace) = &mut self.trace {
            trace.write(console, |trace| {
                let spans = [("source", Some(indexed.source_span)), ("analysis", Some(indexed.span))];
                let artifact = ("artifact", outlined.map(|outlined| outlined.span));
                for (stage, span) in spans.into_iter().chain([artifact]) {
                    let Some(span) = span else { continue };
                    trace.span(span.track, path, stage, span.start(), span.length(), &[])?;
                }
                Ok(())
            });
        }
    }

    fn finish(mut self, tree: &Tree, totals: &Totals, console: &mut Console) {
        if let Some(outline) = self.outline.take() {
            outline.finish(console, |mut sink| sink.flush());
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

/// One run of the command.
struct Index {
    runtime: Runtime,
    stages: Stages<Indexer>,
    tree: Arc<OnceLock<Tree>>,
    began: Instant,
    chunk: usize,
    window: usize,
    outputs: Outputs,
    totals: Totals,
    with_outline: bool,
}

impl Index {
    fn new(args: &IndexArgs, runtime: Runtime, began: Instant, console: &mut Console) -> Self {
        let tree = Arc::new(OnceLock::new());
        let host = Indexer::new(tree.clone(), args.max_size << 20, args.outline.is_some(), began);
        Index {
            stages: Stages::builder(&runtime, host).expect_files(FILES_EXPECTED).build(),
            tree,
            began,
            chunk: if args.outline.is_some() { CHUNK_FILES_OUTLINED } else { CHUNK_FILES },
            window: CHUNKS_MIN.max(runtime.workers() * CHUNKS_PER_WORKER),
            outputs: Outputs::create(args, runtime.workers(), console),
            totals: Totals::default(),
            with_outline: args.outline.is_some(),
            runtime,
        }
    }

    fn run(mut self, args: &IndexArgs, console: &mut Console) {
        let Some(files) = self.walk(args, console) else { return };
        let tree = self.tree.clone();
        let tree = tree.get_or_init(|| known_tree(&files));
        self.stages(&files, console);
        let cycles = self.totals.graph.cycles();
        console.finish();
        self.outputs.finish(tree, &self.totals, console);
        let wall = self.began.elapsed();
        // A worker adds up a period of work when it ends, so all of them end first; dropping the runtime would do it anyway.
        self.runtime.shutdown();
        let counters = self.runtime.counters();
        // Taking apart what is known of each file would take longer than the system takes for the whole.
        std::mem::forget(self.stages);
        let summary = Summary { tree, totals: &self.totals, cycles: &cycles, counters: &counters, wall };
        if args.json {
            output::print(&summary.json(), console);
        } else if !args.quiet {
            output::print(&summary.table(), console);
        }
    }

    /// Finds all files; nothing if there is no such directory. Meanwhile Source of the first ones is made, so that the workers
    /// do not wait for the walk.
    fn walk(&self, args: &IndexArgs, console: &mut Console) -> Option<Vec<FileRef>> {
        let mut files: Vec<FileRef> = Vec::new();
        let mut asked = 0;
        let mut ahead: VecDeque<BatchHandle<Indexer>> = VecDeque::new();
        let mut chunks_left = if self.with_outline { CHUNKS_AHEAD_OUTLINED } else { usize::MAX };
        let there = walk(args, console, |on_disk, console| {
            files.push(FileRef::new(files.len() as u32, &args.dir, on_disk));
            if files.len() - asked < self.chunk {
                return;
            }
            console.found(files.len() as u64);
            while ahead.front().is_some_and(BatchHandle::is_resolved) {
                ahead.pop_front();
            }
            if ahead.len() < self.window && chunks_left > 0 {
                chunks_left -= 1;
                let requests = files[asked..].iter().map(|file| Request::source(file.clone()).any());
                ahead.push_back(self.stages.submit_batch_atomic(requests));
            }
            asked = files.len();
        });
        there.then_some(files)
    }

    /// Brings all files through the stages, in order, a window of chunks at a time.
    fn stages(&mut self, files: &[FileRef], console: &mut Console) {
        let mut chunks = files.chunks(self.chunk);
        let mut open: VecDeque<(&[FileRef], BatchHandle<Indexer>)> = VecDeque::new();
        loop {
            while open.len() < self.window
                && let Some(chunk) = chunks.next()
            {
                open.push_back((chunk, self.ask(chunk)));
            }
            let Some((chunk, batch)) = open.pop_front() else { return };
            // The last one is done last, more or less: one wait for all.
            let mut results: Vec<_> = batch.into_handles().into_iter().rev().map(StageHandle::wait).collect();
            for file in chunk {
                if let Some(result) = results.pop() {
                    self.add(file, result, console);
                }
            }
            console.done(self.totals.graph.nodes() as u64, files.len() as u64);
        }
    }

    fn ask(&self, chunk: &[FileRef]) -> BatchHandle<Indexer> {
        self.stages.submit_batch_atomic(chunk.iter().cloned().map(|file| match self.with_outline {
            true => Request::artifact(file, Profile::Outline).any(),
            false => Request::analysis(file).any(),
        }))
    }

    /// Adds one file up, in the order of the files' numbers.
    fn add(&mut self, file: &FileRef, result: Result<StageValue<Indexer>, StageError<Indexer>>, console: &mut Console) {
        match result {
            Ok(StageValue::Analysis(indexed)) => self.add_indexed(file, &indexed, None, console),
            Ok(StageValue::Artifact(outlined)) => {
                self.totals.stages[2].add(outlined.span);
                match self.stages.try_get_analysis(file) {
                    Some(indexed) => self.add_indexed(file, &indexed, Some(&outlined), console),
                    None => self.totals.add_failed(),
                }
            }
            Ok(StageValue::Source(_)) => self.totals.add_failed(),
            Err(error) => {
                self.totals.add_failed();
                match error.failure().map(|failure| failure.cause()) {
                    Some(FailureCause::Host(cause)) => console.complain(file.on_disk(), cause),
                    Some(FailureCause::Panicked(report)) => console.complain(file.on_disk(), report),
                    _ => console.complain(file.on_disk(), error),
                }
            }
        }
        if self.with_outline {
            // Its line has been written: the file's memory can go.
            self.stages.close_file(file);
        }
    }

    fn add_indexed(&mut self, file: &FileRef, indexed: &Indexed, outlined: Option<&Outlined>, console: &mut Console) {
        if let Some(at) = indexed.invalid_at {
            console.complain(
                file.on_disk(),
                format_args!("not UTF-8 from byte {at} on; counted all the same, names shown as far as they are text"),
            );
        }
        self.totals.add(indexed);
        self.outputs.file(file.path(), indexed, outlined, console);
    }
}

/// The tree of all files that were found. Manifests are read for the names that they give.
fn known_tree(files: &[FileRef]) -> Tree {
    let paths = files.iter().map(|file| file.path().into()).collect();
    let mut buffer = Buffer::new();
    Tree::new(paths, |number| {
        buffer.load(files[number as usize].on_disk(), MANIFEST_BYTES_MAX as u64).ok()?;
        Some(String::from_utf8_lossy(buffer.text()).into_owned())
    })
}
