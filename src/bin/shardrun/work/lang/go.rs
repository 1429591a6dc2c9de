//! The scanner of Go: comments, interpreted and raw strings, runes, top-level declarations and imports.
//! It does not know bodies: what is declared inside a function is not a definition.
#![forbid(unsafe_code)]

use super::super::cursor::Cursor;
use super::super::facts::{DefinitionKind, Findings, ImportKind};

/// A parenthesised group of declarations that is open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    None,
    Import,
    Type,
    Named(DefinitionKind),
}

struct Scan<'c, 'a, 'f> {
    c: &'c mut Cursor<'a>,
    f: &'f mut Findings,
    braces: u32,
    parens: u32,
    group: Group,
}

/// Reads the whole file.
pub(super) fn scan(cursor: &mut Cursor<'_>, findings: &mut Findings) {
    if cursor.looking_at(b"\xef\xbb\xbf") {
        cursor.pos = 3;
    }
    let mut scan = Scan { c: cursor, f: findings, braces: 0, parens: 0, group: Group::None };
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
            b'"' | b'`' => self.string(byte),
            b'\'' => self.c.string(b'\'', false),
            b'/' if self.c.peek(1) == b'/' => self.c.line_comment(),
            b'/' if self.c.peek(1) == b'*' => self.c.block_comment(false),
            _ => {
                match byte {
                    b'{' => self.braces += 1,
                    b'}' => self.braces = self.braces.saturating_sub(1),
                    b'(' => self.parens += 1,
                    b')' => {
                        self.parens = self.parens.saturating_sub(1);
                        if self.parens == 0 {
                            self.group = Group::None;
                        }
                    }
                    _ => {}
                }
                self.c.bump(1);
            }
        }
    }

    fn string(&mut self, quote: u8) {
        let (start, line) = (self.c.pos + 1, self.c.line());
        if quote == b'`' {
            self.c.code_past(start, b"`");
        } else {
            self.c.string(b'"', false);
        }
        let text = &self.c.src[start..self.c.pos];
        if self.group == Group::Import
            && self.braces == 0
            && let Some((&last, text)) = text.split_last()
            && last == quote
            && !text.is_empty()
        {
            self.f.import(text, ImportKind::Package, line);
            if self.parens == 0 {
                self.group = Group::None;
            }
        }
    }

    #[inline(always)]
    fn word(&mut self) {
        let first = !self.c.has_code();
        let line = self.c.line();
        let word = self.c.word();
        if self.braces > 0 || !first {
            return;
        }
        match (self.parens, self.group) {
            (0, _) => self.declaration(word, line),
            (1, Group::Type) => self.typed(word, line),
            (1, Group::Named(kind)) => self.several(word, kind, line),
            _ => {}
        }
    }

    fn declaration(&mut self, word: &'a [u8], line: u32) {
        self.group = match word {
            b"import" => Group::Import,
            b"type" => Group::Type,
            b"const" => Group::Named(DefinitionKind::Constant),
            b"var" => Group::Named(DefinitionKind::Variable),
            b"func" => return self.function(line),
            _ => return,
        };
        self.c.skip_spaces();
        if self.c.byte() == Some(b'(') || self.group == Group::Import {
            return;
        }
        let name = self.c.word();
        match std::mem::replace(&mut self.group, Group::None) {
            Group::Type => self.typed(name, line),
            Group::Named(kind) => self.several(name, kind, line),
            _ => {}
        }
    }

    fn function(&mut self, line: u32) {
        self.c.skip_spaces();
        let mut kind = DefinitionKind::Function;
        if self.c.byte() == Some(b'(') {
            kind = DefinitionKind::Method;
            let rest = &self.c.src[self.c.pos..];
            match memchr::memchr2(b')', b'\n', rest) {
                Some(at) if rest[at] == b')' => self.c.bump(at + 1),
                _ => return,
            }
            self.c.skip_spaces();
        }
        let name = self.c.word();
        if !name.is_empty() {
            self.f.define(name, kind, line);
        }
    }

    fn typed(&mut self, name: &'a [u8], line: u32) {
        if name.is_empty() {
            return;
        }
        self.c.skip_spaces();
        if self.c.byte() == Some(b'[') {
            // Type parameters, or an array type: either way what follows the bracket tells the kind.
            let rest = &self.c.src[self.c.pos..];
            if let Some(at) = memchr::memchr2(b']', b'\n', rest)
                && rest[at] == b']'
            {
                self.c.bump(at + 1);
                self.c.skip_spaces();
            }
        }
        let kind = if self.c.looking_at(b"struct") {
            DefinitionKind::Struct
        } else if self.c.looking_at(b"interface") {
            DefinitionKind::Interface
        } else {
            DefinitionKind::Type
        };
        self.f.define(name, kind, line);
    }

    /// `a, b, c`; the blank `_` is no name.
    fn several(&mut self, name: &'a [u8], kind: DefinitionKind, line: u32) {
        let mut name = name;
        while !name.is_empty() {
            if name != b"_" {
                self.f.define(name, kind, line);
            }
            self.c.skip_spaces();
            if self.c.byte() != Some(b',') {
                return;
            }
            self.c.bump(1);
            self.c.skip_spaces();
            name = self.c.word();
        }
    }
}
