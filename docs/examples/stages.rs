//! The smallest useful host of `stages`: words of notes in memory, counted, and kept right while a note is edited. It does not
//! know threads.
//!
//! `cargo run --example stages`

use shardrun::{Host, Priority, Request, Runtime, StageCx, StageValue, Stages};
use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::Arc;

/// Where the notes are stored.
struct Notes(HashMap<&'static str, &'static str>);

impl Host for Notes {
    type File = &'static str;
    type Text = Arc<str>;
    type Source = Vec<String>;
    type Analysis = BTreeMap<String, usize>;
    type Artifact = String;
    type Profile = usize;
    type Error = Infallible;

    fn load(&self, file: &&'static str) -> Result<Option<Arc<str>>, Infallible> {
        Ok(self.0.get(file).map(|&text| text.into()))
    }

    /// Source: the words of the text.
    fn source(&self, _: &StageCx<'_, Self>, text: Arc<str>) -> Result<Vec<String>, Infallible> {
        Ok(text.split_whitespace().map(str::to_lowercase).collect())
    }

    /// Analysis: how often each word occurs.
    fn analysis(&self, _: &StageCx<'_, Self>, words: &Vec<String>) -> Result<BTreeMap<String, usize>, Infallible> {
        let mut counts = BTreeMap::new();
        words.iter().for_each(|word| *counts.entry(word.clone()).or_insert(0) += 1);
        Ok(counts)
    }

    /// Artifact: a line that shows the words which occur at least so often.
    fn artifact(
        &self,
        cx: &StageCx<'_, Self>,
        least: &usize,
        words: &Vec<String>,
        counts: &BTreeMap<String, usize>,
    ) -> Result<String, Infallible> {
        let often: Vec<&str> =
            counts.iter().filter(|(_, count)| *count >= least).map(|(word, _)| word.as_str()).collect();
        Ok(format!("{}: {} words; at least {least} times: {}", cx.file(), words.len(), often.join(", ")))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::builder().build()?;
    let stored = HashMap::from([("a.txt", "to be or not to be"), ("b.txt", "that is the question")]);
    let notes = Stages::new(&runtime, Notes(stored));

    // Many requests at once; the handles can be waited for, or polled as futures by any executor.
    let batch = notes.submit_batch(["a.txt", "b.txt"].map(|file| Request::artifact(file, 2)));
    for result in notes.wait_batch(batch) {
        if let StageValue::Artifact(line) = result? {
            println!("{line}");
        }
    }

    // An edit: the answer is about the new text, whatever was running for the old one.
    let edit = Request::artifact("b.txt", 1).text("no question".into()).priority(Priority::Critical);
    println!("{}", notes.submit_request(edit).wait()?);

    // There is no such file: a typed error that names it.
    let missing = notes.submit_request(Request::source("c.txt")).wait();
    println!("{}", missing.err().ok_or("there is a c.txt")?);
    Ok(())
}
