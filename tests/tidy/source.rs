//! A source file as text, with comments and literals blanked out so that words in them do not count.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the crate.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// One file: its path from the root, its text, and its code alone (same length in lines).
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
    code: String,
}

/// One function: where it starts, and how many lines it has.
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) lines: usize,
}

/// Every Rust file under `src`.
pub(crate) fn sources() -> Vec<Source> {
    let found = all_rust_under(&["src"]);
    assert!(found.len() > 3, "the sources were not found");
    found
}

/// Every Rust file under the folders named.
pub(crate) fn all_rust_under(folders: &[&str]) -> Vec<Source> {
    let mut found = Vec::new();
    for folder in folders {
        walk(&root().join(folder), &mut found);
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn walk(folder: &Path, found: &mut Vec<Source>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                walk(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source file is text");
            let code = code_alone(&text);
            let path = path.strip_prefix(root()).expect("under the root").to_string_lossy().replace('\\', "/");
            found.push(Source { path, text, code });
        }
    }
}

impl Source {
    /// The leading `//!` lines, joined.
    pub(crate) fn header(&self) -> String {
        let lines = self.text.lines().take_while(|line| line.starts_with("//!"));
        lines.map(|line| line.trim_start_matches("//!").trim()).collect::<Vec<_>>().join(" ")
    }

    /// `lib.rs` and `main.rs` say what the crate or tool is; what they do not know goes without saying.
    pub(crate) fn is_entry(&self) -> bool {
        self.path == "src/lib.rs" || self.path.ends_with("/main.rs")
    }

    /// The folder that the file is the head of: `src/` for `lib.rs`, `src/flight/` for `src/flight/mod.rs`.
    pub(crate) fn folder(&self) -> Option<&str> {
        let (folder, name) = self.path.rsplit_once('/')?;
        matches!(name, "mod.rs" | "lib.rs").then(|| &self.path[..=folder.len()])
    }

    /// The part of the house: `flight` for `src/flight/list.rs`.
    pub(crate) fn part(&self) -> Option<String> {
        let rest = self.path.strip_prefix("src/")?;
        let (part, _) = rest.split_once('/')?;
        Some(part.to_owned())
    }

    /// Parts named by `crate::part` in the code, single or in a `use crate::{…}` group.
    pub(crate) fn parts_named(&self) -> Vec<String> {
        let mut parts = Vec::new();
        for rest in self.code.split("crate::").skip(1) {
            if let Some(group) = rest.strip_prefix('{') {
                let mut depth = 0usize;
                for (at, c) in group.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        _ if depth == 0 && (at == 0 || group[..at].trim_end().ends_with(',')) => {
                            parts.push(first_word(group[at..].trim_start()));
                        }
                        _ => {}
                    }
                }
            } else {
                parts.push(first_word(rest));
            }
        }
        parts
    }

    pub(crate) fn has_text(&self, text: &str) -> bool {
        self.code.contains(text)
    }

    /// Whether the code holds `word` as a whole word.
    pub(crate) fn has_word(&self, word: &str) -> bool {
        let inside = |c: char| c.is_alphanumeric() || c == '_';
        self.code.match_indices(word).any(|(at, _)| {
            let before = self.code[..at].chars().next_back();
            let after = self.code[at + word.len()..].chars().next();
            !before.is_some_and(inside) && !after.is_some_and(inside)
        })
    }

    /// Every function with a body, nested ones too.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let mut found = Vec::new();
        for (at, _) in self.code.match_indices("fn ") {
            let starts = at == 0 || !self.code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            let name = first_word(&self.code[at + 3..]);
            if !starts || name.is_empty() {
                continue;
            }
            if let Some(end) = body_end(&self.code[at..]) {
                let line = self.code[..at].matches('\n').count() + 1;
                let lines = self.code[at..at + end].matches('\n').count() + 1;
                found.push(Function { name, line, lines });
            }
        }
        found
    }
}

/// Where the body that follows ends, or none if a `;` comes before any `{`.
fn body_end(code: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut brackets = 0usize;
    for (at, c) in code.char_indices() {
        match c {
            '[' | '(' => brackets += 1,
            ']' | ')' => brackets = brackets.saturating_sub(1),
            ';' if depth == 0 && brackets == 0 => return None,
            '{' => depth += 1,
            '}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

fn first_word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The text with comments, strings and character literals turned to blanks, line breaks kept.
fn code_alone(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(text, at);
        if end > at {
            for byte in &mut out[at..end] {
                if *byte != b'\n' {
                    *byte = b' ';
                }
            }
            at = end;
        } else {
            at += 1;
        }
    }
    String::from_utf8(out).expect("whole characters were blanked")
}

/// The end of the comment or literal that starts at `at`, or `at` if none does.
fn literal_end(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let rest = &text.as_bytes()[at..];
    let in_word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    if rest.starts_with(b"//") {
        return at + find(rest, b"\n").unwrap_or(rest.len());
    }
    if rest.starts_with(b"/*") {
        return at + find(rest, b"*/").map_or(rest.len(), |end| end + 2);
    }
    if !in_word && rest.starts_with(b"r") {
        let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
        if rest.get(1 + hashes) == Some(&b'"') {
            let close = format!("\"{}", "#".repeat(hashes));
            let from = 2 + hashes;
            return at
                + from
                + find(&rest[from..], close.as_bytes()).map_or(rest.len() - from, |end| end + close.len());
        }
    }
    if rest.starts_with(b"\"") {
        return at + quoted_end(rest, b'"');
    }
    if rest.starts_with(b"'") {
        let escaped = rest.get(1) == Some(&b'\\');
        let width = text[at + 1..].chars().next().map_or(0, char::len_utf8);
        if escaped || rest.get(1 + width) == Some(&b'\'') {
            return at + quoted_end(rest, b'\'');
        }
    }
    at
}

fn quoted_end(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
