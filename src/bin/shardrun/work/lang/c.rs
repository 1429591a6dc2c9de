//! The scanner of C and C++: comments, strings, raw strings, the preprocessor, functions and types.
//! It does not know macros: what a macro expands to is not seen, and `#if` branches are balanced by restoring the depth.
#![forbid(unsafe_code)]

use super::super::cursor::{Cursor, is_word};
use super::super::facts::{DefinitionKind, Findings, ImportKind};
use super::c_statement::{Block, Statement};

/// Where the braces stood at an `#if`, so that its `#else` begins from there again.
#[derive(Clone, Copy)]
struct Branch {
    opaque: u32,
    nesting: u32,
}

struct Scan<'c, 'a, 'f> {
    c: &'c mut Cursor<'a>,
    f: &'f mut Findings,
    cpp: bool,
    /// Open braces whose inside is not looked into: bodies and initialisers.
    opaque: u32,
    /// Open parentheses and brackets outside such braces.
    nesting: u32,
    /// Open braces whose inside is looked into, innermost last.
    open: Vec<Block>,
    /// Whether the outermost opaque brace is the body of a function, which ends its statement.
    body: bool,
    branches: Vec<Branch>,
    statement: Statement<'a>,
    before: u8,
}

/// Reads the whole file.
pub(super) fn scan(cursor: &mut Cursor<'_>, findings: &mut Findings, cpp: bool) {
    if cursor.looking_at(b"\xef\xbb\xbf") {
        cursor.pos = 3;
    }
    let mut scan = Scan {
        c: cursor,
        f: findings,
        cpp,
        opaque: 0,
        nesting: 0,
        open: Vec::new(),
        body: false,
        branches: Vec::new(),
        statement: Statement::default(),
        before: b';',
    };
    while let Some(byte) = scan.c.byte() {
        if scan.opaque > 0 { scan.inside(byte) } else { scan.outside(byte) }
    }
}

/// What `before` holds behind `::`, a byte that C does not use.
const SCOPE: u8 = b'@';

/// The bytes that matter inside a body; all others are skipped in a row.
static INSIDE: [bool; 256] = table(b"\n{}\"'/#");
/// The bytes that matter on the rest of a preprocessor line.
static DIRECTIVE: [bool; 256] = table(b"\n\"'/");

const fn table(bytes: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut at = 0;
    while at < bytes.len() {
        table[bytes[at] as usize] = true;
        at += 1;
    }
    table
}

impl Scan<'_, '_, '_> {
    /// One step within a body.
    #[inline(always)]
    fn inside(&mut self, byte: u8) {
        match byte {
            b' ' | b'\t' | b'\r' | 0x0b | 0x0c => self.c.skip_spaces(),
            b'\n' => self.c.newline(),
            b'{' => {
                self.opaque += 1;
                self.c.bump(1);
            }
            b'}' => self.close(),
            b'#' if !self.c.has_code() => self.directive(),
            _ => {
                if !self.comment_or_string(byte) {
                    self.c.bump(1);
                    self.skip(&INSIDE);
                }
            }
        }
    }

    #[inline(always)]
    fn skip(&mut self, stop: &[bool; 256]) {
        let src = self.c.src;
        let mut at = self.c.pos;
        while at < src.len() && !stop[src[at] as usize] {
            at += 1;
        }
        self.c.pos = at;
    }

    /// Moves over a comment, a string or a char literal, if one begins here.
    #[inline(always)]
    fn comment_or_string(&mut self, byte: u8) -> bool {
        match byte {
            b'/' if self.c.peek(1) == b'/' => self.c.spliced_line_comment(),
            b'/' if self.c.peek(1) == b'*' => self.c.block_comment(false),
            b'"' if self.cpp && self.raw_prefix() => self.raw_string(),
            b'"' => self.c.string(b'"', false),
            b'\'' if self.separates_digits() => self.c.bump(1),
            b'\'' => self.c.string(b'\'', false),
            _ => return false,
        }
        true
    }

    /// Whether the quote at the cursor belongs to `R"`, `u8R"`, `LR"` and the like.
    fn raw_prefix(&self) -> bool {
        let before = &self.c.src[..self.c.pos];
        let start = before.iter().rposition(|&byte| !is_word(byte)).map_or(0, |at| at + 1);
        matches!(&before[start..], b"R" | b"LR" | b"uR" | b"UR" | b"u8R")
    }

    /// Whether the tick at the cursor stands within a number, as in `1'000`.
    fn separates_digits(&self) -> bool {
        let before = &self.c.src[..self.c.pos];
        if !before.last().is_some_and(u8::is_ascii_hexdigit) || !self.c.peek(1).is_ascii_hexdigit() {
            return false;
        }
        let start = before.iter().rposition(|&byte| !(is_word(byte) || byte == b'\'')).map_or(0, |at| at + 1);
        before[start].is_ascii_digit()
    }

    /// `"delimiter(…)delimiter"`; the cursor is at the quote. A delimiter has at most 16 bytes.
    fn raw_string(&mut self) {
        let start = self.c.pos + 1;
        let rest = &self.c.src[start..];
        match rest.iter().take(17).position(|&byte| byte == b'(') {
            None => self.c.string(b'"', false),
            Some(at) => {
                let close = [b")", &rest[..at], b"\""].concat();
                self.c.code_past(start + at + 1, &close);
            }
        }
    }

    /// A closing brace, inside or outside of a body. One in the first column closes everything that is opaque: whatever
    /// unbalanced branches left open ends there.
    fn close(&mut self) {
        let first_column = self.c.pos == 0 || self.c.src[self.c.pos - 1] == b'\n';
        self.c.bump(1);
        self.before = b'}';
        if self.opaque > 0 {
            self.opaque = if first_column { 0 } else { self.opaque - 1 };
            if self.opaque == 0 && (self.body || first_column) {
                self.nesting = 0;
            }
            if self.opaque == 0 && self.body {
                self.statement = Statement::default();
            }
            return;
        }
        self.nesting = 0;
        self.statement = match self.open.pop() {
            Some(Block::Class { typedef }) => Statement::behind_class(typedef),
            _ => Statement::default(),
        };
    }

    fn directive(&mut self) {
        self.c.bump(1);
        self.c.skip_spaces();
        let line = self.c.line();
        match self.c.word() {
            b"define" => {
                self.c.skip_spaces();
                let name = self.c.word();
                if !name.is_empty() {
                    self.f.define(name, DefinitionKind::Macro, line);
                }
            }
            b"include" | b"include_next" | b"import" => self.include(line),
            b"if" | b"ifdef" | b"ifndef" => {
                self.branches.push(Branch { opaque: self.opaque, nesting: self.nesting });
            }
            b"else" | b"elif" | b"elifdef" | b"elifndef" => {
                if let Some(branch) = self.branches.last() {
                    (self.opaque, self.nesting) = (branch.opaque, branch.nesting);
                }
            }
            b"endif" => {
                self.branches.pop();
            }
            _ => {}
        }
        self.rest_of_directive();
    }

    fn include(&mut self, line: u32) {
        self.c.skip_spaces();
        let (close, kind) = match self.c.byte() {
            Some(b'"') => (b'"', ImportKind::Quoted),
            Some(b'<') => (b'>', ImportKind::Angled),
            _ => return,
        };
        let rest = &self.c.src[self.c.pos + 1..];
        let Some(end) = memchr::memchr2(close, b'\n', rest) else { return };
        if rest[end] == close && end > 0 {
            self.f.import(&rest[..end], kind, line);
            self.c.bump(end + 2);
        }
    }

    /// To the end of the line, and of those that a backslash splices on.
    fn rest_of_directive(&mut self) {
        loop {
            self.skip(&DIRECTIVE);
            match self.c.byte() {
                None => return,
                Some(b'\n') => {
                    let spliced = self.c.after_backslash();
                    self.c.newline();
                    if !spliced {
                        return;
                    }
                    self.c.skip_spaces();
                    if !matches!(self.c.byte(), None | Some(b'\n' | b'/')) {
                        self.c.mark_code();
                    }
                }
                Some(byte) => {
                    if !self.comment_or_string(byte) {
                        self.c.bump(1);
                    }
                }
            }
        }
    }

    /// One step where declarations stand.
    #[inline(always)]
    fn outside(&mut self, byte: u8) {
        match byte {
            b' ' | b'\t' | b'\r' | 0x0b | 0x0c => self.c.pos += 1,
            b'\n' => self.c.newline(),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => self.word(),
            b'0'..=b'9' => {
                self.c.number(true);
                self.before = b'0';
            }
            b'#' if !self.c.has_code() => self.directive(),
            b'{' => self.brace(),
            b'}' => self.close(),
            _ => {
                if !self.comment_or_string(byte) {
                    self.punctuation(byte);
                } else if byte != b'/' {
                    self.before = byte;
                }
            }
        }
    }

    fn punctuation(&mut self, byte: u8) {
        let mut seen = byte;
        match byte {
            b'(' | b'[' => self.nesting += 1,
            b')' | b']' => self.nesting = self.nesting.saturating_sub(1),
            b':' if self.c.peek(1) == b':' => {
                self.c.bump(1);
                seen = SCOPE;
            }
            _ if self.nesting > 0 => {}
            b';' => self.statement.end(self.f),
            b'=' => self.statement.assign(self.f),
            b':' => self.statement.colon(),
            _ => {}
        }
        self.before = seen;
        self.c.bump(1);
    }

    #[inline(always)]
    fn word(&mut self) {
        let line = self.c.line();
        let word = self.c.word();
        let before = std::mem::replace(&mut self.before, b'a');
        if self.nesting > 0 {
            if self.nesting == 1 && before == b'*' {
                self.statement.pointer(word);
            }
            return;
        }
        if self.cpp && word == b"template" {
            return self.angles();
        }
        if self.cpp && word == b"operator" {
            let start = self.c.pos - word.len();
            self.c.skip_spaces();
            while self.c.byte().is_some_and(|byte| b"+-*/%^&|~!=<>,[]".contains(&byte)) {
                self.c.bump(1);
            }
            if self.c.looking_at(b"()") {
                self.c.bump(2);
            }
            let name = &self.c.src[start..self.c.pos];
            return self.statement.candidate(name, line, true);
        }
        self.c.skip_spaces();
        let call = self.c.byte() == Some(b'(');
        let linkage = self.c.byte() == Some(b'"');
        let member = before == SCOPE || matches!(self.open.last(), Some(Block::Class { .. }));
        self.statement.word(word, line, call, linkage, member, self.cpp);
    }

    /// Moves over `<…>` behind `template`.
    fn angles(&mut self) {
        self.c.skip_white();
        let mut depth = 0_u32;
        while let Some(byte) = self.c.byte() {
            match byte {
                b'<' => depth += 1,
                b'>' => depth = depth.saturating_sub(1),
                b'\n' => {
                    self.c.newline();
                    continue;
                }
                b';' | b'{' | b'}' | b'#' => return,
                _ if is_word(byte) && depth == 0 => return,
                b' ' | b'\t' | b'\r' => {
                    self.c.pos += 1;
                    continue;
                }
                _ if self.comment_or_string(byte) => continue,
                _ => {}
            }
            self.c.bump(1);
            if depth == 0 {
                return;
            }
        }
    }

    fn brace(&mut self) {
        self.c.bump(1);
        if self.nesting > 0 {
            (self.opaque, self.body) = (1, false);
            return;
        }
        let before = std::mem::replace(&mut self.before, b'{');
        match self.statement.brace(self.f, before, self.cpp) {
            Some(block) => {
                self.open.push(block);
                self.statement = Statement::default();
            }
            None => (self.opaque, self.body) = (1, self.statement.is_function()),
        }
    }
}
