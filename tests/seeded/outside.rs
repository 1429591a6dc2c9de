//! What the random timelines do beside requests: tokens and deadlines, Artifacts from outside, and source roots.

use super::host::{Faulty, Made};
use super::model::File;
use super::replay::tell;
use super::{FILES, Key, Timeline};
use shardrun::{CancellationToken, RefusedCommit, Request, SourceLookup, SourceRoot, SourceVersion, SourceWitness};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

const ROOTS: usize = 4;
const WITNESSES: usize = 6;

/// What may end a request before its time.
#[derive(Clone, Default)]
pub(crate) struct Terms {
    pub(crate) token: Option<CancellationToken>,
    pub(crate) deadline: Option<Duration>,
}

impl Terms {
    pub(crate) fn cancelled(&self) -> bool {
        self.token.as_ref().is_some_and(CancellationToken::is_cancelled)
    }

    pub(crate) fn late(&self, now: Duration) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    pub(crate) fn put_on(&self, mut request: Request<Faulty>) -> Request<Faulty> {
        if let Some(token) = &self.token {
            request = request.cancelled_by(token);
        }
        match self.deadline {
            Some(deadline) => request.deadline(deadline),
            None => request,
        }
    }
}

/// A root, and what it has shown of each file when it was captured.
struct Held {
    root: SourceRoot<Faulty>,
    shown: Vec<Shown>,
}

#[derive(Debug, PartialEq)]
enum Shown {
    Unknown,
    Absent,
    Text(u64, SourceVersion),
}

fn shown(root: &SourceRoot<Faulty>) -> Vec<Shown> {
    let one = |file| match root.lookup(&file) {
        SourceLookup::Unknown => Shown::Unknown,
        SourceLookup::Absent => Shown::Absent,
        SourceLookup::Present(source, version) => Shown::Text(source.text, version),
    };
    (0..FILES).map(one).collect()
}

/// A witness, and of which life and generation it is.
struct Witnessed {
    witness: SourceWitness<Faulty>,
    file: usize,
    of: (usize, u64),
}

/// What is known of all that comes from outside.
#[derive(Default)]
pub(crate) struct Outside {
    roots: Vec<Held>,
    witnesses: Vec<Witnessed>,
    pub(crate) tokens: Vec<CancellationToken>,
    /// Requests that a token or a deadline may end, by what it does to them.
    pub(crate) terms: Vec<(Terms, Key)>,
    /// What was committed for a file and profile, by its life and generation, and still stands.
    committed: HashMap<(usize, u8), ((usize, u64), u64)>,
    /// All that was ever committed for a file.
    ever: Vec<(usize, (usize, u64), u8, u64)>,
}

impl Outside {
    /// Whether an Artifact of that text was committed.
    pub(crate) fn made(&self, file: usize, of: (usize, u64), text: u64) -> bool {
        self.ever.iter().any(|&(its, at, _, made)| (its, at, made) == (file, of, text))
    }

    pub(crate) fn forget_roots(&mut self) {
        self.roots.clear();
    }
}

impl Timeline {
    /// Terms for a request; mostly none.
    pub(crate) fn terms(&mut self) -> Terms {
        let mut terms = Terms::default();
        if self.random.chance(6) {
            if self.outside.tokens.len() < 3 || self.random.chance(10) {
                self.outside.tokens.push(CancellationToken::new());
            }
            let at = self.random.below(self.outside.tokens.len());
            terms.token = Some(self.outside.tokens[at].clone());
        }
        if self.random.chance(6) {
            terms.deadline = Some(self.runtime.now() + Duration::from_millis(self.random.below(20) as u64));
        }
        terms
    }

    /// A token is cancelled, or time passes.
    pub(crate) fn withdraw(&mut self) {
        if self.random.chance(50) && !self.outside.tokens.is_empty() {
            let at = self.random.below(self.outside.tokens.len());
            tell(|| format!("cancel token {at}"));
            self.outside.tokens.swap_remove(at).cancel();
        } else {
            let by = self.random.below(30) as u64;
            tell(|| format!("advance by {by} ms"));
            self.runtime.advance(Duration::from_millis(by));
        }
        let now = self.runtime.now();
        let terms = std::mem::take(&mut self.outside.terms);
        let (over, rest) = terms.into_iter().partition(|(terms, _)| terms.cancelled() || terms.late(now));
        let over: Vec<(Terms, Key)> = over;
        self.outside.terms = rest;
        self.cancelled.extend(over.into_iter().map(|(_, key)| key));
    }

    /// A witness is taken, and an Artifact committed or evicted with one of those that there are.
    pub(crate) fn publish(&mut self) {
        let file = self.random.below(FILES);
        self.catch_up(file);
        if let Some((source, witness)) = self.stages().try_get_witnessed_source(&file) {
            assert_eq!(witness.version().generation, self.files[file].generation);
            assert!(self.files[file].texts[&self.files[file].now()].contains(&source.text));
            let of = self.files[file].now();
            if self.outside.witnesses.len() == WITNESSES {
                let at = self.random.below(WITNESSES);
                self.outside.witnesses.swap_remove(at);
            }
            self.outside.witnesses.push(Witnessed { witness, file, of });
        }
        if self.outside.witnesses.is_empty() {
            return;
        }
        let at = self.random.below(self.outside.witnesses.len());
        let Witnessed { witness, file, of } = &self.outside.witnesses[at];
        let (witness, file, of, profile) = (witness.clone(), *file, *of, self.random.below(2) as u8);
        self.catch_up(file);
        let source = self.stages().try_get_source_for_witness(&witness).expect("it is ours");
        assert_eq!(source.is_some(), self.files[file].now() == of, "a witness of {of:?}");
        if self.random.chance(65) {
            self.commit(&witness, (file, profile), of);
        } else {
            self.evict(&witness, (file, profile), of);
        }
    }

    fn commit(&mut self, witness: &SourceWitness<Faulty>, at: (usize, u8), of: (usize, u64)) {
        let (file, profile) = at;
        let text = self.text();
        let analysed = self.stages().try_get_analysis(&file).is_some();
        tell(|| format!("commit {text} for {file} {of:?} profile {profile}, analysed: {analysed}"));
        let made = Arc::new(Made::of(text, &self.alive));
        let committed = self.stages().commit_artifact(witness, &profile, made);
        let current = self.files[file].now() == of;
        match committed {
            Ok(()) => {
                assert!(current && analysed, "it was to be refused");
                self.outside.committed.insert(at, (of, text));
                self.outside.ever.push((file, of, profile, text));
                self.state.lock().unwrap().blocks.loose = true;
            }
            Err(refused) if current => assert!(!analysed && refused.because == RefusedCommit::NotAnalysed),
            Err(refused) => assert_eq!(refused.because, RefusedCommit::Stale),
        }
    }

    fn evict(&mut self, witness: &SourceWitness<Faulty>, at: (usize, u8), of: (usize, u64)) {
        let (file, profile) = at;
        tell(|| format!("evict {file} {of:?} profile {profile}"));
        let before = self.stages().try_get_artifact(&file, &profile).map(|made| made.text);
        let evicted = self.stages().remove_artifact_not_newer_than(witness, &profile).expect("it is ours");
        let after = self.stages().try_get_artifact(&file, &profile).map(|made| made.text);
        if self.files[file].now() == of {
            assert!(after.is_none() && (evicted || before.is_none()), "{before:?} was to be evicted");
            self.outside.committed.remove(&at);
            // The next request makes it anew.
            self.cancelled.insert((file, of.1));
        } else {
            assert_eq!(before, after, "a newer artifact was evicted");
        }
    }

    /// A root is captured, or one is dropped.
    pub(crate) fn root(&mut self) {
        if self.outside.roots.len() == ROOTS || self.random.chance(30) {
            if !self.outside.roots.is_empty() {
                let at = self.random.below(self.outside.roots.len());
                tell(|| format!("drop root {at}"));
                self.outside.roots.swap_remove(at);
            }
            return;
        }
        tell(|| "capture a root".into());
        let root = self.stages().capture_source_root();
        let shows = shown(&root);
        for (file, shows) in shows.iter().enumerate() {
            self.catch_up(file);
            let source = self.stages().try_get_source(&file).map(|made| made.text);
            match shows {
                Shown::Text(text, version) => {
                    assert_eq!(source, Some(*text), "a root and a read of {file}");
                    assert_eq!(version.generation, self.files[file].generation);
                }
                shows => assert!(source.is_none(), "a root shows {shows:?} of {file}, a read {source:?}"),
            }
        }
        let newest = self.outside.roots.iter().map(|held| held.root.epoch()).max();
        assert!(newest.is_none_or(|newest| newest <= root.epoch()), "epochs go back");
        self.outside.roots.push(Held { root, shown: shows });
    }

    /// Checks what the roots show, and what was committed.
    pub(crate) fn look_outside(&mut self) {
        for held in &self.outside.roots {
            assert_eq!(shown(&held.root), held.shown, "a root has changed");
        }
        let Some(stages) = &self.stages else { return };
        assert_eq!(stages.counters().live_roots, self.outside.roots.len() as u64);
        let files = &self.files;
        self.outside.committed.retain(|&(file, profile), &mut (of, text)| {
            let stands = files[file].now() == of;
            if stands {
                let read = stages.try_get_artifact(&file, &profile).map(|made| made.text);
                assert_eq!(read, Some(text), "what was committed for {file} was overwritten");
            }
            stands
        });
    }

    /// Checks the last good Artifact of a file: it is of this life, of some generation.
    pub(crate) fn look_at_last_good(&self, file: usize) {
        let Some(made) = self.stages().try_get_last_good_artifact(&file, &1) else { return };
        let File { ended, texts, .. } = &self.files[file];
        let life = ended.len();
        let of_life = texts.iter().any(|(&(its, _), texts)| its == life && texts.contains(&made.text));
        let outside = self.outside.ever.iter();
        let outside = outside.clone().any(|&(its, at, _, text)| (its, at.0, text) == (file, life, made.text));
        assert!(of_life || outside, "the last good artifact of {file} is of another life");
    }
}
