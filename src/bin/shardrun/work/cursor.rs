//! The place of a scanner in a file: moves over code, comments and strings, and counts the lines by what it moved over.
//! It does not know any language: how comments and strings begin and end is told by the caller.
#![forbid(unsafe_code)]

use super::facts::Lines;
use memchr::{memchr, memchr_iter, memchr2, memchr3};

const CODE: u8 = 1;
const COMMENT: u8 = 2;

/// A position in the bytes of a file, with what has been seen on the current line.
pub(crate) struct Cursor<'a> {
    pub(crate) src: &'a [u8],
    pub(crate) pos: usize,
    line: u32,
    seen: u8,
    lines: Lines,
}

/// Whether a byte may stand in an identifier: letters, digits, `_`, and everything beyond ASCII.
#[inline(always)]
pub(crate) fn is_word(byte: u8) -> bool {
    WORD[byte as usize]
}

static WORD: [bool; 256] = {
    let mut table = [false; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        table[at] = byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
        at += 1;
    }
    table
};

/// White space within a line.
#[inline(always)]
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c)
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(src: &'a [u8]) -> Self {
        Cursor { src, pos: 0, line: 1, seen: 0, lines: Lines::default() }
    }

    /// The number of the current line; the first is 1.
    #[inline(always)]
    pub(crate) fn line(&self) -> u32 {
        self.line
    }

    /// The byte at the cursor.
    #[inline(always)]
    pub(crate) fn byte(&self) -> Option<u8> {
        self.src.get(self.pos).copied()
    }

    /// The byte `ahead` places after the cursor, zero behind the end.
    #[inline(always)]
    pub(crate) fn peek(&self, ahead: usize) -> u8 {
        self.src.get(self.pos + ahead).copied().unwrap_or(0)
    }

    /// Whether the bytes at the cursor begin with `text`.
    #[inline]
    pub(crate) fn looking_at(&self, text: &[u8]) -> bool {
        self.src[self.pos..].starts_with(text)
    }

    /// Notes that there is code on this line.
    #[inline(always)]
    pub(crate) fn mark_code(&mut self) {
        self.seen |= CODE;
    }

    /// Whether code has been seen on this line.
    pub(crate) fn has_code(&self) -> bool {
        self.seen & CODE != 0
    }

    /// Moves over `count` bytes of code that hold no line end.
    #[inline(always)]
    pub(crate) fn bump(&mut self, count: usize) {
        self.seen |= CODE;
        self.pos = (self.pos + count).min(self.src.len());
    }

    /// Moves over the line end at the cursor.
    #[inline(always)]
    pub(crate) fn newline(&mut self) {
        self.pos += 1;
        self.end_line(0);
    }

    #[inline(always)]
    fn end_line(&mut self, next: u8) {
        let (code, comment) = (u32::from(self.seen & CODE), u32::from(self.seen == COMMENT));
        self.lines.code += code;
        self.lines.comment += comment;
        self.lines.blank += 1 - code - comment;
        self.line += 1;
        self.seen = next;
    }

    /// Moves over white space within the line.
    #[inline(always)]
    pub(crate) fn skip_spaces(&mut self) {
        while self.pos < self.src.len() && is_space(self.src[self.pos]) {
            self.pos += 1;
        }
    }

    /// Moves over white space and line ends.
    pub(crate) fn skip_white(&mut self) {
        while let Some(byte) = self.byte() {
            match byte {
                b'\n' => self.newline(),
                _ if is_space(byte) => self.pos += 1,
                _ => break,
            }
        }
    }

    /// Takes the word at the cursor, which may be empty.
    #[inline(always)]
    pub(crate) fn word(&mut self) -> &'a [u8] {
        let start = self.pos;
        let mut end = start;
        while end < self.src.len() && is_word(self.src[end]) {
            end += 1;
        }
        self.pos = end;
        self.seen |= u8::from(end > start);
        &self.src[start..end]
    }

    /// Moves over a number: letters, digits, points, and `'` between digits where the language separates with it.
    pub(crate) fn number(&mut self, tick: bool) {
        self.seen |= CODE;
        while let Some(byte) = self.byte() {
            let separator = tick && byte == b'\'' && self.peek(1).is_ascii_alphanumeric();
            let point = byte == b'.' && self.peek(1) != b'.';
            if !(is_word(byte) || separator || point) {
                break;
            }
            self.pos += 1;
        }
    }

    /// Moves over a comment that ends with the line; the line end stays.
    #[inline]
    pub(crate) fn line_comment(&mut self) {
        self.seen |= COMMENT;
        self.pos = memchr(b'\n', &self.src[self.pos..]).map_or(self.src.len(), |at| self.pos + at);
    }

    /// Moves over a comment that ends with the line unless a backslash stands before the line end (C and C++).
    pub(crate) fn spliced_line_comment(&mut self) {
        loop {
            self.line_comment();
            if self.pos >= self.src.len() || !self.after_backslash() {
                return;
            }
            self.newline();
        }
    }

    /// Whether the line end at the cursor is spliced away by a backslash.
    pub(crate) fn after_backslash(&self) -> bool {
        let before = &self.src[..self.pos];
        let before = before.strip_suffix(b"\r").unwrap_or(before);
        before.last() == Some(&b'\\')
    }

    /// Moves over a comment from `/*` to `*/`; with `nested`, inner ones are balanced. Ends at the end of the file at the latest.
    pub(crate) fn block_comment(&mut self, nested: bool) {
        let mut at = self.pos + 2;
        let mut depth = 1_usize;
        while depth > 0 {
            let rest = self.src.get(at..).unwrap_or(&[]);
            let found = if nested { memchr2(b'*', b'/', rest) } else { memchr(b'*', rest) };
            let Some(found) = found else {
                at = self.src.len();
                break;
            };
            at += found;
            match (self.src[at], self.src.get(at + 1)) {
                (b'*', Some(b'/')) => (depth, at) = (depth - 1, at + 2),
                (b'/', Some(b'*')) => (depth, at) = (depth + 1, at + 2),
                _ => at += 1,
            }
        }
        self.comment_to(at.min(self.src.len()));
    }

    /// Moves to `end`; everything on the way is comment.
    pub(crate) fn comment_to(&mut self, end: usize) {
        loop {
            while self.pos < end && is_space(self.src[self.pos]) {
                self.pos += 1;
            }
            if self.pos >= end {
                return;
            }
            if self.src[self.pos] != b'\n' {
                self.seen |= COMMENT;
                match memchr(b'\n', &self.src[self.pos..end]) {
                    None => return self.pos = end,
                    Some(at) => self.pos += at,
                }
            }
            self.newline();
        }
    }

    /// Moves to `end`; everything on the way is code, blank lines too.
    pub(crate) fn code_to(&mut self, end: usize) {
        self.seen |= CODE;
        let ends = memchr_iter(b'\n', &self.src[self.pos..end]).count();
        for _ in 0..ends {
            self.end_line(CODE);
        }
        self.pos = end;
        if ends > 0 && self.src[end - 1] == b'\n' {
            self.seen = 0;
        }
    }

    /// Moves over a string whose opening quote is at the cursor. A backslash takes the next byte along. A string that is not
    /// `multiline` ends before an unescaped line end, so that a lone apostrophe spoils one line and no more.
    pub(crate) fn string(&mut self, quote: u8, multiline: bool) {
        self.seen |= CODE;
        self.pos += 1;
        loop {
            let Some(at) = memchr3(quote, b'\\', b'\n', &self.src[self.pos..]) else {
                return self.pos = self.src.len();
            };
            self.pos += at;
            match self.src[self.pos] {
                b'\\' => self.escaped(),
                b'\n' if multiline => self.line_end_in_code(),
                b'\n' => return,
                _ => return self.pos += 1,
            }
        }
    }

    /// Moves over a backslash and the byte that it escapes, a line end included.
    pub(crate) fn escaped(&mut self) {
        self.seen |= CODE;
        self.pos += 1;
        if self.looking_at(b"\r\n") {
            self.pos += 1;
        }
        match self.byte() {
            Some(b'\n') => self.line_end_in_code(),
            Some(_) => self.pos += 1,
            None => {}
        }
    }

    /// Moves over a line end inside a string: the next line is code, whatever stands there.
    pub(crate) fn line_end_in_code(&mut self) {
        self.pos += 1;
        self.end_line(if self.pos < self.src.len() { CODE } else { 0 });
    }

    /// Moves behind the next `delimiter` from `from` on, or to the end; everything on the way is code.
    pub(crate) fn code_past(&mut self, from: usize, delimiter: &[u8]) {
        let from = from.min(self.src.len());
        let end =
            memchr::memmem::find(&self.src[from..], delimiter).map_or(self.src.len(), |at| from + at + delimiter.len());
        self.code_to(end);
    }

    /// The line counts, when the cursor has reached the end.
    pub(crate) fn finish(mut self) -> Lines {
        if self.pos < self.src.len() {
            self.code_to(self.src.len());
        }
        if self.src.last().is_some_and(|&last| last != b'\n') {
            self.end_line(0);
        }
        self.lines
    }
}
