//! The tree of a Rust `use`, flattened into one import per leaf.
//! It does not know files: it only spells paths, relative to the file's own module.
#![forbid(unsafe_code)]

use super::super::cursor::{Cursor, is_word};
use super::super::facts::{Findings, ImportKind};

/// Bounds on what is followed; a deeper tree or a longer path is cut off there.
const DEPTH_MAX: usize = 32;
const PATH_MAX: usize = 1024;

/// Reads from behind `use` to the `;`. `modules` are the inline modules around it, outermost first.
pub(super) fn scan(cursor: &mut Cursor<'_>, findings: &mut Findings, modules: &[&[u8]], line: u32) {
    let mut path: Vec<u8> = Vec::with_capacity(64);
    let mut groups: Vec<usize> = Vec::new();
    let mut fresh = true;
    loop {
        skip_between(cursor);
        let base = groups.last().copied().unwrap_or(0);
        match cursor.byte() {
            Some(byte) if is_word(byte) => {
                let word = cursor.word();
                match word {
                    b"as" => {
                        skip_between(cursor);
                        cursor.word();
                    }
                    _ if path.len() + word.len() < PATH_MAX => {
                        // `r#type` is spelled `type`.
                        if word == b"r" && cursor.byte() == Some(b'#') {
                            cursor.bump(1);
                        } else {
                            path.extend_from_slice(word);
                        }
                        fresh = true;
                    }
                    _ => return,
                }
            }
            Some(b':') if cursor.peek(1) == b':' => {
                cursor.bump(2);
                path.extend_from_slice(b"::");
            }
            Some(b'*') => {
                cursor.bump(1);
                path.push(b'*');
                fresh = true;
            }
            Some(b'{') if groups.len() < DEPTH_MAX && path.len() < PATH_MAX => {
                cursor.bump(1);
                groups.push(path.len());
                fresh = false;
            }
            Some(b',') if !groups.is_empty() => {
                cursor.bump(1);
                leaf(&path, base, fresh, findings, modules, line);
                path.truncate(base);
                fresh = false;
            }
            Some(b'}') if !groups.is_empty() => {
                cursor.bump(1);
                leaf(&path, base, fresh, findings, modules, line);
                groups.pop();
                fresh = false;
            }
            Some(b';') => return leaf(&path, 0, fresh, findings, modules, line),
            _ => return,
        }
    }
}

/// White space and comments.
fn skip_between(cursor: &mut Cursor<'_>) {
    loop {
        cursor.skip_white();
        match (cursor.byte(), cursor.peek(1)) {
            (Some(b'/'), b'/') => cursor.line_comment(),
            (Some(b'/'), b'*') => cursor.block_comment(true),
            _ => return,
        }
    }
}

/// Reports one leaf. `fresh` says that it was spelled since the last comma or brace, and is not a group's bare prefix.
fn leaf(path: &[u8], base: usize, fresh: bool, findings: &mut Findings, modules: &[&[u8]], line: u32) {
    if !fresh || path.len() <= base {
        return;
    }
    let path = path.strip_suffix(b"::self").unwrap_or(path);
    let (first, rest) = match memchr::memmem::find(path, b"::") {
        Some(at) => (&path[..at], &path[at..]),
        None => (path, &path[path.len()..]),
    };
    if modules.is_empty() || !matches!(first, b"self" | b"super") {
        return findings.import(path, ImportKind::Use, line);
    }
    // Seen from the file's module: `super::x` inside `mod a { mod b { … } }` is `self::a::x`.
    let mut depth = modules.len();
    let mut tail = if first == b"self" { rest } else { path };
    while depth > 0
        && let Some(after) = above(tail)
    {
        (depth, tail) = (depth - 1, after);
    }
    let mut spelled = Vec::with_capacity(path.len() + 32);
    if depth == 0 && above(tail).is_some() {
        spelled.extend_from_slice(tail.strip_prefix(b"::").unwrap_or(tail));
    } else {
        spelled.extend_from_slice(b"self");
        for name in &modules[..depth] {
            spelled.extend_from_slice(b"::");
            spelled.extend_from_slice(name);
        }
        spelled.extend_from_slice(tail);
    }
    findings.import(&spelled, ImportKind::Use, line);
}

/// What stands behind a leading `super`, if there is one.
fn above(tail: &[u8]) -> Option<&[u8]> {
    let after = tail.strip_prefix(b"::").unwrap_or(tail).strip_prefix(b"super")?;
    (after.is_empty() || after.starts_with(b"::")).then_some(after)
}
