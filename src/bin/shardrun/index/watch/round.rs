//! The work on bursts of changes: what is to be analysed, what that changes, what reaches the changes.
//! It does not know how changes are seen, nor how the scheduler is asked.
#![forbid(unsafe_code)]

use super::super::complaints;
use super::super::known_tree;
use super::super::results::Indexed;
use super::desk::{Answers, Why};
use super::eyes::Told;
use super::look::{Look, Seen};
use super::model::Marks;
use super::report::{self, Burst};
use super::{Ended, TAKEN_OVER_MAX, Watch, identity};
use crate::output;
use crate::work::resolve::manifests;
use shardrun::{Request, StageValue};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

/// The work on what has changed and is not up to date yet. A new burst of changes takes it over.
#[derive(Default)]
pub(super) struct Round {
    /// Files that are being analysed.
    work: BTreeMap<u32, Why>,
    asked: u64,
    burst: Burst,
    /// The first event, and the end of the wait for more of them.
    times: Option<(Instant, Instant)>,
}

pub(super) fn marks(indexed: &Indexed) -> Marks {
    Marks { content: indexed.hash, signature: indexed.signature.unwrap_or_default() }
}

impl Watch<'_> {
    /// Begins the work on what was told, and takes over what is not done of the round before.
    pub(super) fn begin(&mut self, told: Told, event: Instant, end: Instant) -> Result<(), Ended> {
        let mut round = self.round.take().unwrap_or_default();
        round.burst.superseded += u64::from(round.times.is_some());
        round.times = Some((round.times.map_or(event, |(first, _)| first), end));
        round.burst.rescan |= told.missed;
        let seen = self.look(told)?;
        let membership = !(seen.come.is_empty() && seen.gone.is_empty());
        let named = seen.touched.iter().any(|&place| manifests::is_manifest(self.model.node(place).file.path()));
        let carried: Vec<u32> = round.work.keys().copied().filter(|place| !seen.gone.contains(place)).collect();
        let mut asking = self.membership(&mut round, seen);
        if membership || named {
            let names = self.model.names();
            let tree = Arc::new(known_tree(&names));
            self.model.set_tree(tree.clone());
            self.desk.stages.host().set_tree(tree);
            asking.extend(carried);
            for place in self.desk.led_elsewhere(&self.model, &round.work) {
                round.work.insert(place, Why::Imports);
                asking.insert(place);
            }
        }
        if round.work.is_empty() {
            return self.done(round, &[]);
        }
        let requests = round.work.iter().map(|(&place, &why)| {
            let node = self.model.node(place);
            let request = match asking.contains(&place) {
                true => self.desk.analysis(node, why),
                // It is on its way, and only joined.
                false => Request::analysis(node.file.clone()).any(),
            };
            (place, request)
        });
        let requests = requests.collect();
        round.asked = self.desk.ask(requests);
        self.round = Some(round);
        Ok(())
    }

    /// Whether the round is to be over before it is taken over once more.
    pub(super) fn must_answer(&self) -> bool {
        self.round.as_ref().is_some_and(|round| round.burst.superseded >= TAKEN_OVER_MAX)
    }

    /// What has become of the tree.
    fn look(&mut self, told: Told) -> Result<Seen, Ended> {
        if let Some(why) = told.failed {
            return Err(Some(why));
        }
        let mut told = told;
        match identity(&self.args.dir) {
            None => return Err(Some("the directory has gone; nothing is watched any more".into())),
            root if root != self.root => {
                // Another directory has taken the place of the one that is watched.
                self.eyes.forget(&self.args.dir);
                told.missed = true;
                self.root = root;
            }
            _ => {}
        }
        let look = Look { args: self.args, model: &self.model };
        look.at(told, &mut self.eyes, self.console).map_err(Some)
    }

    /// Takes files in that have come and forgets those that have gone. What is to be asked for with this burst.
    fn membership(&mut self, round: &mut Round, seen: Seen) -> BTreeSet<u32> {
        let mut asking = seen.touched;
        round.work.extend(asking.iter().map(|&place| (place, Why::Text)));
        for place in seen.gone {
            let node = self.model.remove(place);
            self.desk.stages.remove(&node.file);
            self.console.forget(node.file.on_disk());
            asking.remove(&place);
            round.work.remove(&place);
            for importer in node.importers {
                round.work.entry(importer).or_insert(Why::Imports);
                asking.insert(importer);
            }
            let path = node.file.path().to_owned();
            round.burst.again.remove(&path);
            if !round.burst.come.remove(&path) {
                round.burst.gone.insert(path);
            }
        }
        for path in seen.come {
            let place = self.model.add(path);
            asking.insert(place);
            round.work.insert(place, Why::Text);
            let path = self.model.node(place).file.path().to_owned();
            if !round.burst.gone.remove(&path) {
                round.burst.come.insert(path);
            }
        }
        // An importer may have gone after what it imported.
        round.work.retain(|&place, _| self.model.has(place));
        asking.retain(|&place| self.model.has(place));
        asking
    }

    /// Something that was asked is answered. What an earlier round asked is not of interest.
    pub(super) fn answered(&mut self, asked: u64, answers: Answers) -> Result<(), Ended> {
        match self.round.take() {
            Some(round) if round.asked == asked => self.analysed(round, answers),
            other => {
                self.round = other;
                Ok(())
            }
        }
    }

    /// Files have been analysed.
    fn analysed(&mut self, mut round: Round, answers: Answers) -> Result<(), Ended> {
        let mut changed = Vec::new();
        for (place, answer) in answers {
            let indexed = match answer {
                Ok(StageValue::Analysis(analysed)) => Some(analysed),
                Ok(_) => None,
                // It has been taken over by nobody: only a shutdown says so.
                Err(error) if error.failure().is_none() => continue,
                Err(error) => {
                    if !complaints::is_vanished(&error) {
                        complaints::failed(&self.model.node(place).file, &error, self.console);
                    }
                    None
                }
            };
            round.work.remove(&place);
            let before = self.model.node(place).marks;
            let after = indexed.as_deref().map(|indexed| marks(indexed));
            let imports = indexed.as_ref().map_or(&[][..], |indexed| &indexed.analysis.edges);
            if self.model.update(place, after, imports) {
                changed.push(place);
            }
            let source = self.desk.source(&self.model.node(place).file);
            self.model.set_source(place, source);
            let node = self.model.node(place);
            if before != after {
                round.burst.again.insert(node.file.path().to_owned());
                if let Some(indexed) = &indexed {
                    complaints::odd_text(&node.file, indexed, self.console);
                }
            }
        }
        self.done(round, &changed)
    }

    /// A round is over when the fingerprints of all that reaches what changed are made. That is short, and nothing takes it over.
    fn done(&mut self, mut round: Round, changed: &[u32]) -> Result<(), Ended> {
        let reached = self.model.reaching(changed);
        self.model.make_fingerprints(&reached);
        round.burst.reached = reached;
        if !round.burst.is_nothing() {
            self.bursts += 1;
            let burst = &mut round.burst;
            (burst.number, burst.files, burst.edges) = (self.bursts, self.model.files(), self.model.edges());
            if self.args.json {
                burst.fingerprint = Some(self.model.fingerprint());
            }
            let now = Instant::now();
            if let Some((event, end)) = round.times {
                (burst.since_event, burst.beyond_debounce) = (now - event, now.saturating_duration_since(end));
            }
            self.print(if self.args.json { round.burst.json(&self.model) } else { round.burst.text() })?;
        }
        if !std::mem::replace(&mut self.begun, true) {
            let (files, directories) = (self.model.files(), self.eyes.directories());
            self.print(report::begun(files, directories, self.debounce(), self.args.json))?;
        }
        Ok(())
    }

    fn print(&mut self, text: String) -> Result<(), Ended> {
        let silent = self.args.quiet && !self.args.json;
        match silent || output::print(&text, self.console) {
            true => Ok(()),
            // Nobody reads any more, which has been said.
            false => Err(None),
        }
    }
}
