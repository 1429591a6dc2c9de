//! The course of an index: the walk, the stages while it goes on and after it, the outputs.
//! It does not know what the stages do with a file.
#![forbid(unsafe_code)]

use super::affected;
use super::complaints;
use super::file::FileRef;
use super::fingerprints;
use super::host::{Indexer, Keep, name_thread};
use super::outputs::Outputs;
use super::results::{Indexed, Made, Outlined, Profile, Text};
use super::summary::{Asked, Summary};
use super::totals::Totals;
use super::walk::{Found, walk};
use super::watch::{self, Senses};
use crate::cli::IndexArgs;
use crate::console::{Console, OneLine};
use crate::output;
use crate::work::fingerprint::Hash;
use crate::work::read::Buffer;
use crate::work::resolve::{Tree, manifests::MANIFEST_BYTES_MAX};
use shardrun::{BatchHandle, Request, Runtime, StageError, StageHandle, StageValue, Stages, WorkerKind};
use std::collections::VecDeque;
use std::sync::Arc;
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

/// How a run ended. Whatever went wrong has been said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// As far as it could.
    Done,
    /// What was asked for cannot be answered.
    WrongUsage,
}

/// Runs the command.
pub(crate) fn run(args: &IndexArgs, console: &mut Console) -> End {
    let mut builder = Runtime::builder().io_threads(0).on_start(|worker| {
        let io = usize::from(worker.kind == WorkerKind::Io) << 16;
        name_thread((worker.index | io) as u32);
    });
    if let Some(threads) = args.threads {
        builder = builder.workers(threads.get());
    }
    let began = Instant::now();
    match builder.build() {
        Ok(runtime) => match Index::new(args, runtime, began, console) {
            Some(index) => index.run(args, console),
            None => End::Done,
        },
        Err(error) => {
            console.complain_of("runtime", error);
            End::Done
        }
    }
}

/// One run of the command.
struct Index {
    runtime: Runtime,
    stages: Stages<Indexer>,
    began: Instant,
    chunk: usize,
    window: usize,
    outputs: Outputs,
    totals: Totals,
    with_outline: bool,
    /// The hash of each file's content, if fingerprints are to be made.
    hashes: Option<Vec<Option<Hash>>>,
    /// Sees changes from the first directory of the walk on, if the tree is to be watched.
    senses: Option<Senses>,
}

impl Index {
    /// Nothing if the tree is to be watched and cannot be.
    fn new(args: &IndexArgs, runtime: Runtime, began: Instant, console: &mut Console) -> Option<Self> {
        let senses = match args.watch.then(|| Senses::open(args)) {
            Some(Err(error)) => {
                console.complain(&args.dir, error);
                return None;
            }
            Some(Ok(senses)) => Some(senses),
            None => None,
        };
        let with_outline = args.outline.is_some();
        let keep = Keep { definitions: with_outline, outcomes: with_outline, marks: args.watch };
        let host = Indexer::new(args.max_size << 20, keep, began);
        Some(Index {
            stages: Stages::builder(&runtime, host).expect_files(FILES_EXPECTED).build(),
            began,
            chunk: if with_outline { CHUNK_FILES_OUTLINED } else { CHUNK_FILES },
            window: CHUNKS_MIN.max(runtime.workers() * CHUNKS_PER_WORKER),
            outputs: Outputs::default(),
            totals: Totals::default(),
            with_outline,
            hashes: (args.fingerprints.is_some() || args.watch).then(Vec::new),
            senses,
            runtime,
        })
    }

    fn run(mut self, args: &IndexArgs, console: &mut Console) -> End {
        let Some(files) = self.walk(args, console) else { return End::Done };
        let tree = Arc::new(known_tree(&files));
        self.stages.host().set_tree(tree.clone());
        let Some(changed) = affected::named(&args.affected, &args.dir, &tree, console) else { return End::WrongUsage };
        // Not before, lest a run that cannot begin takes what an earlier one wrote.
        self.outputs = Outputs::create(args, self.runtime.workers(), console);
        self.stages(&files, console);
        let cycles = self.totals.graph.cycles();
        let mut asked = Asked::default();
        if !args.affected.is_empty() {
            asked.affected = Some(affected::of(&changed, &self.totals.graph, &tree));
        }
        let made = self.hashes.take().map(|hashes| self.fingerprints(&files, &hashes, console));
        if let (Some(made), Some(_)) = (&made, &args.fingerprints) {
            asked.fingerprint = Some(fingerprints::of_tree(files.iter().zip(made.iter().map(Option::as_ref))));
        }
        console.finish();
        self.outputs.finish(&tree, &self.totals, console);
        let wall = self.began.elapsed();
        if self.senses.is_none() {
            // A worker adds up a period of work when it ends, so all of them end first; dropping the runtime would do it anyway.
            self.runtime.shutdown();
        }
        let counters = self.runtime.counters();
        let summary =
            Summary { tree: &tree, totals: &self.totals, cycles: &cycles, counters: &counters, wall, asked: &asked };
        if args.json {
            output::print(&summary.json(), console);
        } else if let Some(affected) = &asked.affected {
            output::print(&lines(affected), console);
        } else if !args.quiet {
            output::print(&summary.table(), console);
        }
        let Index { runtime, stages, senses, .. } = self;
        match senses {
            Some(senses) => {
                let fingerprints = made.unwrap_or_default();
                let indexed = watch::Indexed { runtime, stages, files, tree, fingerprints, senses };
                watch::run(indexed, args, console);
            }
            // Taking apart what is known of each file would take longer than the system takes for the whole.
            None => std::mem::forget((stages, files)),
        }
        End::Done
    }

    /// Makes the fingerprints of all files and writes them.
    fn fingerprints(&mut self, files: &[FileRef], hashes: &[Option<Hash>], console: &mut Console) -> Vec<Option<Hash>> {
        let graph = self.totals.graph.clone();
        let made = fingerprints::of_all(&self.stages, files, hashes, graph, |file, span| {
            self.totals.stages[2].add(span);
            self.outputs.span(file, "artifact", span, console);
        });
        self.outputs.fingerprints(files, &made, console);
        made
    }

    /// Finds all files; nothing if there is no such directory. Meanwhile Source of the first ones is made, so that the workers
    /// do not wait for the walk.
    fn walk(&mut self, args: &IndexArgs, console: &mut Console) -> Option<Vec<FileRef>> {
        let mut files: Vec<FileRef> = Vec::new();
        let mut asked = 0;
        // Of each chunk the last file, which is done last, more or less.
        let mut ahead: VecDeque<StageHandle<Indexer>> = VecDeque::new();
        let mut chunks_left = if self.with_outline { CHUNKS_AHEAD_OUTLINED } else { usize::MAX };
        let there = walk(args, None, console, |found, console| {
            let on_disk = match (found, &mut self.senses) {
                (Found::File(path), _) => path,
                (Found::Directory(_), None) => return,
                // What is wrong with it is said when the watch begins, which looks at all of the tree once more.
                (Found::Directory(path), Some(senses)) => return drop(senses.eyes.watch(&path)),
            };
            let number = files.len() as u32;
            files.push(FileRef::new(number, number, &args.dir, &on_disk));
            if files.len() - asked < self.chunk {
                return;
            }
            console.found(files.len() as u64);
            while ahead.front().is_some_and(StageHandle::is_resolved) {
                ahead.pop_front();
            }
            if ahead.len() < self.window && chunks_left > 0 {
                chunks_left -= 1;
                let requests = files[asked..].iter().map(|file| Request::source(file.clone()).any());
                ahead.extend(self.stages.submit_batch_atomic(requests).into_handles().pop());
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
            let mut handles = batch.into_handles();
            // The last one is done last, more or less: one wait for all.
            let last = handles.pop().map(StageHandle::wait);
            for (file, result) in chunk.iter().zip(handles.into_iter().map(StageHandle::wait).chain(last)) {
                self.add(file, result, console);
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
            Ok(StageValue::Artifact(made)) => match (&*made, self.stages.try_get_analysis(file)) {
                (Made::Outline(outlined), Some(indexed)) => {
                    self.totals.stages[2].add(outlined.span);
                    self.add_indexed(file, &indexed, Some(outlined), console);
                }
                _ => self.totals.add_failed(),
            },
            Ok(StageValue::Source(_)) => self.totals.add_failed(),
            Err(error) => {
                self.totals.add_failed();
                complaints::failed(file, &error, console);
            }
        }
        if let Some(hashes) = &mut self.hashes {
            hashes.resize(self.totals.graph.nodes(), None);
        }
        if self.with_outline {
            // Its line has been written: the file's memory can go.
            self.let_go(file);
        }
    }

    fn let_go(&self, file: &FileRef) {
        if self.hashes.is_some()
            && let (Some(found), Some(analysis)) =
                (self.stages.try_get_source(file).and_then(|source| source.found()), self.stages.try_get_analysis(file))
        {
            self.stages
                .set_text(file.clone(), Text::Reaching(Arc::new(found.without_definitions()), analysis.origin()));
        } else {
            self.stages.close_file(file);
        }
    }

    fn add_indexed(&mut self, file: &FileRef, indexed: &Indexed, outlined: Option<&Outlined>, console: &mut Console) {
        complaints::odd_text(file, indexed, console);
        self.totals.add(indexed);
        if let Some(hashes) = &mut self.hashes {
            hashes.push(Some(indexed.hash));
        }
        self.outputs.file(file, indexed, outlined, console);
    }
}

/// Paths, one a line; what would break a line is escaped.
fn lines(paths: &[String]) -> String {
    paths.iter().map(|path| format!("{}\n", OneLine(path))).collect()
}

/// The tree of all files that were found. Manifests are read for the names that they give.
pub(super) fn known_tree(files: &[FileRef]) -> Tree {
    let paths = files.iter().map(|file| file.path().into()).collect();
    let mut buffer = Buffer::new();
    Tree::new(paths, |number| {
        buffer.load(files[number as usize].on_disk(), MANIFEST_BYTES_MAX as u64).ok()?;
        Some(String::from_utf8_lossy(buffer.text()).into_owned())
    })
}
