//! What a watch asks of the scheduler, and what it finds there.
//! It does not know why it is asked, nor what follows from the answers.
#![forbid(unsafe_code)]

use super::super::file::FileRef;
use super::super::host::Indexer;
use super::super::results::{Text, Timed};
use super::News;
use super::model::{Model, Node};
use crate::work;
use shardrun::{Request, Runtime, StageResult, Stages};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Files whose imports one job resolves anew.
const CHUNK_FILES: usize = 256;

/// Why a file is to be analysed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Its text may be another.
    Text,
    /// Its imports may lead elsewhere.
    Imports,
}

/// What became of requests, by the places of their files.
pub(crate) type Answers = Vec<(u32, StageResult<Indexer>)>;

/// The scheduler, and where its answers go.
pub(crate) struct Desk {
    pub(crate) stages: Stages<Indexer>,
    pub(crate) runtime: Runtime,
    pub(crate) news: Sender<News>,
    /// How many times something was asked.
    pub(crate) times: u64,
}

impl Desk {
    /// Asks for all of these in one batch, and gives the number under which all answers come together.
    pub(crate) fn ask(&mut self, requests: Vec<(u32, Request<Indexer>)>) -> u64 {
        self.times += 1;
        let (places, requests): (Vec<u32>, Vec<Request<Indexer>>) = requests.into_iter().unzip();
        let handles = self.stages.submit_batch_atomic(requests).into_handles();
        let (times, news) = (self.times, self.news.clone());
        let gathering = async move {
            let mut answers = Vec::with_capacity(places.len());
            for (place, handle) in places.into_iter().zip(handles) {
                answers.push((place, handle.await));
            }
            // Nobody hears it once the watch has ended.
            let _ = news.send(News::Answered(times, answers));
        };
        self.runtime.spawn_future(gathering).detach();
        times
    }

    /// Asks for the Analysis of a file anew.
    pub(crate) fn analysis(&self, node: &Node, why: Why) -> Request<Indexer> {
        let text = match (why, &node.source) {
            (Why::Imports, Some(source)) => Text::Resolved(source.clone()),
            _ => Text::OnDisk,
        };
        Request::analysis(node.file.clone()).text(text).any()
    }

    /// The Source of a file as it is now, and as it can be handed on.
    pub(crate) fn source(&self, file: &FileRef) -> Option<Arc<Timed>> {
        self.stages.try_get_source(file).and_then(|source| source.found())
    }

    /// The places of those files, apart from the ones in `work`, whose imports lead elsewhere in the tree as it is now.
    pub(crate) fn led_elsewhere(&self, model: &Model, work: &BTreeMap<u32, Why>) -> Vec<u32> {
        let suspects: Vec<(u32, u32, u64, Arc<Timed>)> = (0..)
            .zip(model.order())
            .filter(|(_, place)| !work.contains_key(place))
            .filter_map(|(number, &place)| {
                let node = model.node(place);
                let source = node.source.as_ref().filter(|source| source.source.facts.imports.len() > 0)?;
                Some((number, place, node.marks?.signature, source.clone()))
            })
            .collect();
        let check = |chunk: &[(u32, u32, u64, Arc<Timed>)]| {
            let (chunk, tree) = (chunk.to_vec(), model.tree().clone());
            self.runtime.spawn(move || -> Vec<u32> {
                let differs = |(number, _, signature, source): &&(u32, u32, u64, Arc<Timed>)| {
                    work::analyse(&tree, *number, &source.source).signature(&tree) != *signature
                };
                chunk.iter().filter(differs).map(|(_, place, ..)| *place).collect()
            })
        };
        let checks: Vec<_> = suspects.chunks(CHUNK_FILES).map(|chunk| (chunk, check(chunk))).collect();
        // After a panic of the resolver all are asked for, and the one whose imports it was about is complained of.
        let all = |chunk: &[(u32, u32, u64, Arc<Timed>)]| chunk.iter().map(|(_, place, ..)| *place).collect();
        checks.into_iter().flat_map(|(chunk, check)| check.wait().unwrap_or_else(|_| all(chunk))).collect()
    }
}
