//! `--watch`: sees what changes in the tree after the index, and brings up to date what the changes reach.
//! It does not know how changes are seen, nor what a stage does.
#![forbid(unsafe_code)]

mod desk;
pub(crate) mod eyes;
pub(crate) mod look;
pub(crate) mod model;
mod report;
mod round;

use super::file::FileRef;
use super::host::Indexer;
use crate::cli::IndexArgs;
use crate::console::Console;
use crate::interrupts::Interrupts;
use crate::work::fingerprint::Hash;
use crate::work::read;
use crate::work::resolve::Tree;
use desk::{Answers, Desk};
use eyes::Eyes;
use model::Model;
use round::{Round, marks};
use shardrun::{Runtime, Stages};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// A burst that does not end is taken after so many times the debounce.
const DEBOUNCES_MAX: u32 = 10;

/// A round that was taken over so many times is answered before the next burst is begun: else a tree that changes faster than it
/// is looked at would never be answered.
const TAKEN_OVER_MAX: u64 = 4;

/// The exit status where a second signal ends the program.
const INTERRUPTED: i32 = 130;

/// What a watch waits for.
pub(crate) enum News {
    /// Paths were touched.
    Touched,
    /// What was asked under this number is answered.
    Answered(u64, Answers),
    /// Somebody wants the program to end.
    Interrupted,
}

/// What an index leaves to be watched.
pub(crate) struct Indexed {
    pub(crate) runtime: Runtime,
    pub(crate) stages: Stages<Indexer>,
    pub(crate) files: Vec<FileRef>,
    pub(crate) tree: Arc<Tree>,
    pub(crate) fingerprints: Vec<Option<Hash>>,
    pub(crate) senses: Senses,
}

/// Sees changes of a tree and hears answers.
pub(crate) struct Senses {
    pub(crate) eyes: Eyes,
    news: Sender<News>,
    heard: Receiver<News>,
}

impl Senses {
    /// Nothing is seen before a directory is watched.
    pub(crate) fn open(args: &IndexArgs) -> Result<Self, String> {
        let (news, heard) = mpsc::channel();
        let tell = news.clone();
        // The other end is gone only when nobody watches any more.
        let told = move || drop(tell.send(News::Touched));
        Ok(Senses { eyes: Eyes::new(&args.dir, args.follow, told)?, news, heard })
    }
}

/// Watches until the directory vanishes, standard output's reader has gone, or a signal comes. Whatever went wrong has been said.
pub(crate) fn run(indexed: Indexed, args: &IndexArgs, console: &mut Console) {
    let Indexed { runtime, stages, files, tree, fingerprints, senses: Senses { eyes, news, heard } } = indexed;
    if let Err(error) = hear_signals(news.clone()) {
        return console.complain_of("signals", error);
    }
    let mut model = Model::new(&args.dir, &files, tree);
    let desk = Desk { stages, runtime, news, times: 0 };
    for file in &files {
        let analysis = desk.stages.try_get_analysis(file);
        let imports = analysis.as_ref().map_or(&[][..], |analysis| &analysis.analysis.edges);
        model.update(file.place(), analysis.as_deref().map(|analysis| marks(analysis)), imports);
        model.set_source(file.place(), desk.source(file));
    }
    for (file, fingerprint) in files.iter().zip(fingerprints) {
        if let Some(fingerprint) = fingerprint {
            model.set_fingerprint(file.place(), fingerprint);
        }
    }
    drop(files);
    let watch =
        Watch { root: identity(&args.dir), args, console, desk, eyes, model, round: None, begun: false, bursts: 0 };
    watch.run(&heard);
}

/// Tells of signals. A second one ends the program where it stands.
fn hear_signals(news: Sender<News>) -> io::Result<()> {
    let mut interrupts = Interrupts::new()?;
    let hear = move || {
        let mut asked = false;
        while interrupts.wait() {
            interrupts.count();
            if std::mem::replace(&mut asked, true) {
                std::process::exit(INTERRUPTED);
            }
            let _ = news.send(News::Interrupted);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(hear).map(drop)
}

/// Which directory stands at a path, if there is one.
fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().filter(fs::Metadata::is_dir).map(|data| read::identity(&data))
}

/// A tree that is watched.
struct Watch<'a> {
    args: &'a IndexArgs,
    console: &'a mut Console,
    desk: Desk,
    eyes: Eyes,
    model: Model,
    root: Option<(u64, u64)>,
    round: Option<Round>,
    begun: bool,
    bursts: u64,
}

/// Why a watch ends, if it is worth a line.
type Ended = Option<String>;

impl Watch<'_> {
    fn run(mut self, heard: &Receiver<News>) {
        let ended = self.first().and_then(|()| self.listen(heard));
        if let Err(Some(why)) = ended {
            self.console.complain(&self.args.dir, why);
        }
        self.desk.runtime.shutdown();
        // Taking apart what is known of each file would take longer than the system takes for the whole.
        std::mem::forget(self.desk.stages);
    }

    /// Looks at all of the tree once more: directories were listed before they were watched.
    fn first(&mut self) -> Result<(), Ended> {
        let mut told = self.eyes.take();
        told.missed = true;
        let now = Instant::now();
        self.begin(told, now, now)
    }

    fn listen(&mut self, heard: &Receiver<News>) -> Result<(), Ended> {
        loop {
            let news = match self.end_of_burst().filter(|_| !self.must_answer()) {
                None => heard.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some((_, end)) => heard.recv_timeout(end.saturating_duration_since(Instant::now())),
            };
            match news {
                // When the burst ends is decided by what is told last.
                Ok(News::Touched) => {}
                Ok(News::Answered(asked, answers)) => self.answered(asked, answers)?,
                Ok(News::Interrupted) | Err(RecvTimeoutError::Disconnected) => return Err(None),
                Err(RecvTimeoutError::Timeout) => {
                    if let Some((event, end)) = self.end_of_burst()
                        && end <= Instant::now()
                    {
                        let told = self.eyes.take();
                        self.begin(told, event, end)?;
                    }
                }
            }
        }
    }

    /// When the burst that is being told began, and when it ends if nothing more is told.
    fn end_of_burst(&self) -> Option<(Instant, Instant)> {
        let (first, last) = self.eyes.times()?;
        Some((first, (last + self.debounce()).min(first + self.debounce() * DEBOUNCES_MAX)))
    }

    fn debounce(&self) -> Duration {
        Duration::from_millis(self.args.debounce)
    }
}
