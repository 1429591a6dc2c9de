//! The Source of a file: its bytes read once, hashed, and scanned in one pass for lines, definitions and imports.
//! It does not keep the text: what a file costs afterwards is its facts alone.
#![forbid(unsafe_code)]

use super::facts::{Facts, Findings};
use super::lang::{self, Language};
use super::read::{Buffer, ReadError, Stamp};
use std::path::Path;
use std::time::SystemTime;

/// What is known of a file by itself.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) language: Language,
    pub(crate) bytes: u64,
    pub(crate) hash: [u8; 32],
    /// Where the text stops being UTF-8, in bytes from its beginning; it is scanned all the same.
    pub(crate) invalid_at: Option<u64>,
    pub(crate) facts: Facts,
}

/// The room that a thread keeps for reading and scanning one file after another.
#[derive(Debug)]
pub(crate) struct Worker {
    buffer: Buffer,
    findings: Findings,
}

impl Worker {
    pub(crate) const fn new() -> Self {
        Worker { buffer: Buffer::new(), findings: Findings::new() }
    }

    /// Reads the file at `on_disk`, of at most `limit` bytes.
    pub(crate) fn load(&mut self, on_disk: &Path, limit: u64) -> Result<(), ReadError> {
        self.buffer.load(on_disk, limit)
    }

    /// The stamp of the file that was read last, after `before`.
    pub(crate) fn stamp(&self, before: SystemTime) -> Stamp {
        self.buffer.stamp(before)
    }

    /// Finds what is in the file that was read last; `path` tells its language.
    pub(crate) fn scan(&mut self, path: &str) -> Source {
        of_text(path, self.buffer.text(), &mut self.findings)
    }

    /// Finds what is in a text; `path` tells its language.
    pub(crate) fn scan_text(&mut self, path: &str, text: &[u8]) -> Source {
        of_text(path, text, &mut self.findings)
    }
}

/// The Source of a text.
pub(crate) fn of_text(path: &str, text: &[u8], findings: &mut Findings) -> Source {
    let mut language = Language::detect(path, text);
    let mut invalid_at = match language {
        Language::Binary => None,
        _ => std::str::from_utf8(text).err().map(|error| error.valid_up_to() as u64),
    };
    // What is no text and holds a NUL anywhere is no text in another encoding either.
    if invalid_at.is_some() && memchr::memchr(0, text).is_some() {
        (language, invalid_at) = (Language::Binary, None);
    }
    Source {
        language,
        bytes: text.len() as u64,
        hash: *blake3::hash(text).as_bytes(),
        invalid_at,
        facts: lang::scan(language, text, findings),
    }
}
