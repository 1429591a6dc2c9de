//! What is printed of a watch: that it has begun, and what each burst of changes came to.
//! It does not know how it came to it.
#![forbid(unsafe_code)]

use super::model::Model;
use crate::console::OneLine;
use crate::work::fingerprint::Hash;
use crate::work::json;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

/// How many of the files that ran again are named for people.
const NAMED_MAX: usize = 20;

/// What a burst of changes came to.
#[derive(Debug, Default)]
pub(crate) struct Burst {
    pub(crate) number: u64,
    /// Paths of the files that ran again: whose text changed, or whose imports lead elsewhere.
    pub(crate) again: BTreeSet<String>,
    /// Of those, the ones that came; and paths of files that have gone.
    pub(crate) come: BTreeSet<String>,
    pub(crate) gone: BTreeSet<String>,
    /// The places of all files that reach what changed.
    pub(crate) reached: Vec<u32>,
    pub(crate) files: usize,
    pub(crate) edges: usize,
    /// Of the tree.
    pub(crate) fingerprint: Option<Hash>,
    /// Earlier bursts whose work was taken over before it was done.
    pub(crate) superseded: u64,
    /// Whether something was missed, so that all files were looked at.
    pub(crate) rescan: bool,
    /// From the first event to now, and from the end of the wait for more of them.
    pub(crate) since_event: Duration,
    pub(crate) beyond_debounce: Duration,
}

impl Burst {
    /// Whether anything has changed.
    pub(crate) fn is_nothing(&self) -> bool {
        self.again.is_empty() && self.gone.is_empty() && self.reached.is_empty()
    }

    /// One JSON object on a line.
    pub(crate) fn json(&self, model: &Model) -> String {
        let mut out = serde_json::json!({
            "burst": self.number, "again": self.again, "come": self.come, "gone": self.gone, "files": self.files,
            "edges": self.edges, "fingerprint": self.fingerprint.as_ref().map(hexadecimal), "superseded": self.superseded,
            "rescan": self.rescan, "event_to_done_ms": millis(self.since_event),
            "beyond_debounce_ms": millis(self.beyond_debounce),
        })
        .to_string();
        // There may be very many: they are written by hand, behind all else.
        out.pop();
        out.push_str(",\"reached\":{");
        // A name, and 64 digits of a hash, with what stands around them.
        out.reserve(self.reached.len() * 112);
        for (at, node) in self.reached.iter().map(|&place| model.node(place)).enumerate() {
            out.push_str(if at == 0 { "" } else { "," });
            json::string(&mut out, node.file.path().as_bytes());
            out.push(':');
            match node.marks {
                Some(_) => {
                    out.push('"');
                    json::hex(&mut out, &node.fingerprint);
                    out.push('"');
                }
                None => out.push_str("null"),
            }
        }
        out.push_str("}}\n");
        out
    }

    /// A line, and one for each file that ran again.
    pub(crate) fn text(&self) -> String {
        let mut out = format!(
            "burst {}: {} files ran again, {} came, {} went, {} reached; {:.1} ms after the event, {:.1} ms beyond the debounce",
            self.number,
            self.again.len(),
            self.come.len(),
            self.gone.len(),
            self.reached.len(),
            millis(self.since_event),
            millis(self.beyond_debounce),
        );
        if self.superseded > 0 {
            let _ = write!(out, "; {} earlier taken over", self.superseded);
        }
        out.push('\n');
        for path in self.again.iter().take(NAMED_MAX) {
            let _ = writeln!(out, "  {}", OneLine(path));
        }
        if self.again.len() > NAMED_MAX {
            let _ = writeln!(out, "  and {} more", self.again.len() - NAMED_MAX);
        }
        out
    }
}

/// That all is ready, and changes are seen from now on.
pub(crate) fn begun(files: usize, directories: usize, debounce: Duration, as_json: bool) -> String {
    let debounce = debounce.as_millis() as u64;
    if as_json {
        let object = serde_json::json!({"watching": directories, "files": files, "debounce_ms": debounce});
        return format!("{object}\n");
    }
    format!(
        "watching {directories} directories with {files} files; a burst ends after {debounce} ms without a change\n"
    )
}

fn hexadecimal(hash: &Hash) -> String {
    let mut out = String::with_capacity(64);
    json::hex(&mut out, hash);
    out
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
