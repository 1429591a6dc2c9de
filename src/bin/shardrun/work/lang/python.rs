//! The scanner of Python: prefixed and triple strings, docstrings as comments, `def`, `class` and imports.
//! It does not know expressions: an f-string ends at its closing quote, whatever its braces hold.
#![forbid(unsafe_code)]

use super::super::cursor::Cursor;
use super::super::facts::{DefinitionKind, Findings, ImportKind};

struct Scan<'c, 'a, 'f> {
    c: &'c mut Cursor<'a>,
    f: &'f mut Findings,
    /// Open parentheses, brackets and braces.
    depth: u32,
    /// Whether a statement may begin here.
    fresh: bool,
    /// Where the current line begins.
    line_start: usize,
    /// The `def`s and `class`es that are open: indent, and whether it is a class.
    open: Vec<(usize, bool)>,
}

/// Reads the whole file.
pub(super) fn scan(cursor: &mut Cursor<'_>, findings: &mut Findings) {
    if cursor.looking_at(b"\xef\xbb\xbf") {
        cursor.pos = 3;
    }
    let line_start = cursor.pos;
    let mut scan = Scan { c: cursor, f: findings, depth: 0, fresh: true, line_start, open: Vec::new() };
    while let Some(byte) = scan.c.byte() {
        scan.step(byte);
    }
}

impl<'a> Scan<'_, 'a, '_> {
    #[inline(always)]
    fn step(&mut self, byte: u8) {
        match byte {
            b' ' | b'\t' | b'\r' | 0x0b | 0x0c => self.c.pos += 1,
            b'\n' => {
                self.c.newline();
                self.line_start = self.c.pos;
                self.fresh = self.depth == 0;
            }
            b'#' => self.c.line_comment(),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => self.word(),
            b'"' | b'\'' => self.string(byte),
            b'0'..=b'9' => {
                self.c.number(false);
                self.fresh = false;
            }
            b'\\' => {
                self.c.escaped();
                self.line_start = self.c.pos;
                self.fresh = false;
            }
            _ => {
                match byte {
                    b'(' | b'[' | b'{' => self.depth += 1,
                    b')' | b']' | b'}' => self.depth = self.depth.saturating_sub(1),
                    _ => {}
                }
                self.fresh = self.depth == 0 && matches!(byte, b':' | b';');
                self.c.bump(1);
            }
        }
    }

    fn word(&mut self) {
        let (start, line) = (self.c.pos, self.c.line());
        let word = self.c.word();
        if word.len() <= 2
            && let Some(quote @ (b'"' | b'\'')) = self.c.byte()
            && word.iter().all(|byte| b"rbuftRBUFT".contains(byte))
        {
            return self.string(quote);
        }
        // A keyword in the first column begins a statement, whatever brackets seem open.
        if start == self.line_start && matches!(word, b"def" | b"class" | b"import" | b"from" | b"async" | b"if") {
            (self.depth, self.fresh) = (0, true);
        }
        let fresh = std::mem::replace(&mut self.fresh, false);
        if self.depth > 0 {
            return;
        }
        match word {
            b"async" => self.fresh = fresh,
            b"def" => self.define(false, line),
            b"class" => self.define(true, line),
            b"import" if fresh => self.import(line),
            b"from" if fresh => self.from(line),
            _ => {}
        }
    }

    fn define(&mut self, class: bool, line: u32) {
        self.c.skip_spaces();
        let name = self.c.word();
        if name.is_empty() {
            return;
        }
        let head = &self.c.src[self.line_start..];
        let indent = head.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).map(|&byte| width(byte)).sum();
        while self.open.last().is_some_and(|&(open, _)| open >= indent) {
            self.open.pop();
        }
        let kind = match (class, self.open.last()) {
            (true, _) => DefinitionKind::Class,
            (false, Some(&(_, true))) => DefinitionKind::Method,
            (false, _) => DefinitionKind::Function,
        };
        self.f.define(name, kind, line);
        self.open.push((indent, class));
    }

    /// A string whose opening quote is at the cursor. A triple one that is a statement of its own is a comment.
    fn string(&mut self, quote: u8) {
        let fresh = std::mem::replace(&mut self.fresh, false);
        if !self.c.looking_at(&[quote; 3]) {
            return self.c.string(quote, false);
        }
        let src = self.c.src;
        let mut at = self.c.pos + 3;
        let end = loop {
            let rest = src.get(at..).unwrap_or(&[]);
            let Some(found) = memchr::memchr2(quote, b'\\', rest) else { break src.len() };
            at += found;
            if src[at] == b'\\' {
                at += 2;
            } else if src[at..].starts_with(&[quote; 3]) {
                break at + 3;
            } else {
                at += 1;
            }
        };
        if fresh && !self.c.has_code() {
            self.c.comment_to(end)
        } else {
            self.c.code_to(end)
        }
        if let Some(at) = memchr::memrchr(b'\n', &src[self.line_start..end]) {
            self.line_start += at + 1;
        }
    }

    /// A dotted name with the blanks inside it left out.
    fn dotted(&mut self) -> Vec<u8> {
        let mut name = Vec::with_capacity(32);
        loop {
            self.c.skip_spaces();
            match self.c.byte() {
                Some(b'.') => {
                    self.c.bump(1);
                    name.push(b'.');
                }
                _ if name.last().is_none_or(|&last| last == b'.') && !self.c.looking_at(b"import ") => {
                    let word = self.c.word();
                    if word.is_empty() {
                        return name;
                    }
                    name.extend_from_slice(word);
                }
                _ => return name,
            }
        }
    }

    /// `as name`, if it comes.
    fn alias(&mut self) {
        self.c.skip_spaces();
        if self.c.looking_at(b"as ") || self.c.looking_at(b"as\t") {
            self.c.bump(2);
            self.c.skip_spaces();
            self.c.word();
            self.c.skip_spaces();
        }
    }

    fn import(&mut self, line: u32) {
        loop {
            let name = self.dotted();
            if name.is_empty() {
                return;
            }
            self.f.import(&name, ImportKind::Import, line);
            self.alias();
            if self.c.byte() != Some(b',') {
                return;
            }
            self.c.bump(1);
        }
    }

    /// `from module import a, b` and `from module import (…)`.
    fn from(&mut self, line: u32) {
        let mut text = self.dotted();
        self.c.skip_spaces();
        if text.is_empty() || !self.c.looking_at(b"import") {
            return;
        }
        self.c.bump(6);
        self.c.skip_spaces();
        let grouped = self.c.byte() == Some(b'(');
        if grouped {
            self.c.bump(1);
        }
        text.push(b':');
        loop {
            self.between_names(grouped);
            let name: &'a [u8] = match self.c.byte() {
                Some(b'*') => {
                    self.c.bump(1);
                    b"*"
                }
                _ => self.c.word(),
            };
            if name.is_empty() {
                break;
            }
            if !text.ends_with(b":") {
                text.push(b',');
            }
            text.extend_from_slice(name);
            self.between_names(grouped);
            self.alias();
            self.between_names(grouped);
            if self.c.byte() != Some(b',') {
                break;
            }
            self.c.bump(1);
        }
        if grouped && self.c.byte() == Some(b')') {
            self.c.bump(1);
        }
        self.f.import(&text, ImportKind::From, line);
    }

    /// What may stand between names: blanks and spliced line ends; in parentheses line ends and comments too.
    fn between_names(&mut self, grouped: bool) {
        loop {
            self.c.skip_spaces();
            match self.c.byte() {
                Some(b'\\') => self.c.escaped(),
                Some(b'\n') if grouped => self.c.newline(),
                Some(b'#') if grouped => self.c.line_comment(),
                _ => return,
            }
            self.line_start = self.c.pos;
        }
    }
}

/// Columns that a byte of indent takes.
fn width(byte: u8) -> usize {
    if byte == b'\t' { 8 } else { 1 }
}
