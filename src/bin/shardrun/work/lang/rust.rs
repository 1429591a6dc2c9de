//! The scanner of Rust: nested comments, raw strings, char literals against lifetimes, items, `mod` and `use`.
//! It does not know types or macros: an item that a macro makes is not seen, an item inside a macro's braces is.
#![forbid(unsafe_code)]

use super::super::cursor::{Cursor, is_space};
use super::super::facts::{DefinitionKind, Findings, ImportKind};
use super::rust_use;

/// An inline module that is open: where its name stands, and how deep its braces are.
struct Inline<'a> {
    name: &'a [u8],
    depth: u32,
}

struct Scan<'c, 'a, 'f> {
    c: &'c mut Cursor<'a>,
    f: &'f mut Findings,
    depth: u32,
    modules: Vec<Inline<'a>>,
    /// The last byte of code before the cursor, white space apart.
    before: u8,
    /// The text of `#[path = "…"]`, until the next item.
    path: Option<&'a [u8]>,
}

/// Reads the whole file.
pub(super) fn scan(cursor: &mut Cursor<'_>, findings: &mut Findings) {
    // A byte order mark and a `#!` line, which is not an attribute.
    if cursor.looking_at(b"\xef\xbb\xbf") {
        cursor.pos = 3;
    }
    if cursor.looking_at(b"#!") && !cursor.looking_at(b"#![") {
        cursor.line_comment();
    }
    let mut scan = Scan { c: cursor, f: findings, depth: 0, modules: Vec::new(), before: b';', path: None };
    while let Some(byte) = scan.c.byte() {
        scan.step(byte);
    }
}

impl<'a> Scan<'_, 'a, '_> {
    #[inline(always)]
    fn step(&mut self, byte: u8) {
        match byte {
            b' ' | b'\t' | b'\r' | 0x0b | 0x0c => self.c.pos += 1,
            b'\n' => self.c.newline(),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => self.word(),
            b'0'..=b'9' => {
                self.c.number(false);
                self.before = b'0';
            }
            b'/' if self.c.peek(1) == b'/' => self.c.line_comment(),
            b'/' if self.c.peek(1) == b'*' => self.c.block_comment(true),
            b'"' => {
                self.c.string(b'"', true);
                self.before = b'"';
            }
            b'\'' => self.tick(),
            b'#' if self.c.looking_at(b"#[") => self.attribute(),
            _ => self.punctuation(byte),
        }
    }

    #[inline(always)]
    fn punctuation(&mut self, byte: u8) {
        match byte {
            b'{' => self.depth += 1,
            b'}' => {
                self.depth = self.depth.saturating_sub(1);
                if self.modules.last().is_some_and(|inline| inline.depth > self.depth) {
                    self.modules.pop();
                }
                self.path = None;
            }
            b';' => self.path = None,
            _ => {}
        }
        self.before = byte;
        self.c.bump(1);
    }

    /// A char literal or a lifetime.
    fn tick(&mut self) {
        self.before = b'\'';
        let rest = &self.c.src[self.c.pos + 1..];
        let first = rest.first().copied().unwrap_or(0);
        if first == b'\\' {
            return self.c.string(b'\'', false);
        }
        let width = match first {
            0..0x80 => 1,
            0x80..0xe0 => 2,
            0xe0..0xf0 => 3,
            _ => 4,
        };
        if first != b'\n' && rest.get(width) == Some(&b'\'') {
            self.c.bump(width + 2);
        } else {
            self.c.bump(1);
            self.c.word();
        }
    }

    /// Notes the path of `#[path = "…"]`; the attribute's tokens are then read like all others.
    fn attribute(&mut self) {
        let rest = &self.c.src[self.c.pos + 2..];
        let mut words = rest.splitn(3, |&byte| byte == b'"');
        let (head, text) = (words.next().unwrap_or(&[]), words.next().unwrap_or(&[]));
        let is_path = head.len() < 32 && {
            let mut squeezed = head.iter().filter(|&&byte| !is_space(byte));
            b"path=".iter().all(|want| squeezed.next() == Some(want)) && squeezed.next().is_none()
        };
        if is_path && !text.is_empty() && !text.contains(&b'\n') {
            self.path = Some(text);
        }
        self.before = b']';
        self.c.bump(2);
    }

    #[inline(always)]
    fn word(&mut self) {
        let before = self.before;
        let line = self.c.line();
        let word = self.c.word();
        self.before = b'a';
        match self.c.byte() {
            Some(b'"') if matches!(word, b"r" | b"br" | b"cr") => return self.raw_string(0),
            Some(b'"') if matches!(word, b"b" | b"c") => return self.c.string(b'"', true),
            Some(b'\'') if word == b"b" => return self.c.string(b'\'', false),
            Some(b'#') if matches!(word, b"r" | b"br" | b"cr") => return self.raw(word),
            _ => {}
        }
        // A word behind a point is a field or a method, behind a quote the name of a lifetime.
        if (2..=11).contains(&word.len()) && before != b'.' {
            self.keyword(word, before, line);
        }
    }

    /// `r#"…"#` or a raw identifier `r#type`; the cursor is at the first `#`.
    fn raw(&mut self, word: &[u8]) {
        let hashes = self.c.src[self.c.pos..].iter().take_while(|&&byte| byte == b'#').count();
        if self.c.peek(hashes) == b'"' {
            self.raw_string(hashes);
        } else if word == b"r" && hashes == 1 {
            self.c.bump(1);
            self.c.word();
        } else {
            self.c.bump(hashes);
        }
    }

    /// A raw string whose hashes begin at the cursor.
    fn raw_string(&mut self, hashes: usize) {
        let from = self.c.pos + hashes + 1;
        let mut at = from;
        loop {
            let rest = self.c.src.get(at..).unwrap_or(&[]);
            let Some(found) = memchr::memchr(b'"', rest) else {
                return self.c.code_to(self.c.src.len());
            };
            at += found + 1;
            if self.c.src[at..].iter().take(hashes).take_while(|&&byte| byte == b'#').count() == hashes {
                return self.c.code_to(at + hashes);
            }
        }
    }

    fn keyword(&mut self, word: &'a [u8], before: u8, line: u32) {
        use DefinitionKind as D;
        match word {
            b"fn" => self.named(D::Function, line),
            b"struct" => self.named(D::Struct, line),
            b"enum" => self.named(D::Enum, line),
            b"trait" => self.named(D::Trait, line),
            b"union" if item_start(before) => self.named(D::Union, line),
            b"type" if item_start(before) => self.named(D::Type, line),
            b"const" if item_start(before) => self.constant(line),
            b"static" if item_start(before) => self.constant_named(D::Variable, line),
            b"mod" if item_start(before) => self.module(line),
            b"use" if item_start(before) => rust_use::scan(self.c, self.f, &self.names(), line),
            b"extern" => self.external(line),
            b"macro_rules" if self.c.byte() == Some(b'!') => {
                self.c.bump(1);
                self.named(D::Macro, line);
            }
            _ => {}
        }
    }

    fn names(&self) -> Vec<&'a [u8]> {
        self.modules.iter().map(|inline| inline.name).collect()
    }

    /// The identifier that comes next, without `r#`; empty if something else comes.
    fn identifier(&mut self) -> &'a [u8] {
        self.c.skip_white();
        if self.c.looking_at(b"r#") {
            self.c.bump(2);
        }
        if self.c.byte().is_some_and(|byte| byte.is_ascii_digit()) { &[] } else { self.c.word() }
    }

    fn named(&mut self, kind: DefinitionKind, line: u32) {
        let name = self.identifier();
        // `union` is a word like any other elsewhere: `union as u32`.
        if !name.is_empty() && name != b"as" {
            self.f.define(name, kind, line);
        }
    }

    /// `const NAME: …`, but not `const fn`, `const {`, `const unsafe fn`, `const async`.
    fn constant(&mut self, line: u32) {
        self.c.skip_white();
        let rest = &self.c.src[self.c.pos..];
        let keyword = [&b"fn "[..], b"unsafe ", b"extern ", b"async "].iter().any(|word| rest.starts_with(word));
        if !keyword {
            self.constant_named(DefinitionKind::Constant, line);
        }
    }

    /// `NAME:` or `mut NAME:`; what has no colon (`static ||`, `const {`) is no item.
    fn constant_named(&mut self, kind: DefinitionKind, line: u32) {
        let mut name = self.identifier();
        if name == b"mut" {
            name = self.identifier();
        }
        self.c.skip_white();
        if !matches!(name, b"" | b"_") && self.c.byte() == Some(b':') {
            self.f.define(name, kind, line);
        }
    }

    fn module(&mut self, line: u32) {
        let name = self.identifier();
        self.c.skip_white();
        match self.c.byte() {
            Some(b'{') if !name.is_empty() => {
                self.f.define(name, DefinitionKind::Module, line);
                self.modules.push(Inline { name, depth: self.depth + 1 });
            }
            Some(b';') if !name.is_empty() => match self.path.take() {
                Some(path) => self.f.import(path, ImportKind::ModulePath, line),
                None => {
                    let mut path = self.names();
                    path.push(name);
                    self.f.import(&path.join(&b"::"[..]), ImportKind::Module, line);
                }
            },
            _ => {}
        }
    }

    fn external(&mut self, line: u32) {
        self.c.skip_white();
        if self.c.looking_at(b"crate ") {
            self.c.bump(5);
            let name = self.identifier();
            if !name.is_empty() && name != b"self" {
                self.f.import(name, ImportKind::ExternCrate, line);
            }
        }
    }
}

/// Whether an item may begin behind this byte: behind a statement, a block, an attribute, a visibility, another keyword, a
/// macro's delimiter; not behind an operator, a pointer's star, a generic's bracket or a comma.
fn item_start(before: u8) -> bool {
    matches!(before, b';' | b'{' | b'}' | b']' | b')' | b'a' | b'"')
}
