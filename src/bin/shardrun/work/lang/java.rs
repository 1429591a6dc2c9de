//! The scanner of Java: comments, strings, text blocks, types, methods and constructors, imports.
//! It does not know types: a method is told by its place in a class body and the words before its name.
#![forbid(unsafe_code)]

use super::super::cursor::Cursor;
use super::super::facts::{DefinitionKind, Findings, ImportKind};

struct Scan<'c, 'a, 'f> {
    c: &'c mut Cursor<'a>,
    f: &'f mut Findings,
    /// The open braces: the name of the type whose body it is, or nothing.
    open: Vec<Option<&'a [u8]>>,
    parens: u32,
    /// The type whose body the next brace opens.
    pending: Option<&'a [u8]>,
    /// Behind `=` in a class body, until the `;`.
    value: bool,
    before: u8,
    /// The word before the cursor, if nothing else came since.
    last: &'a [u8],
}

/// Reads the whole file.
pub(super) fn scan(cursor: &mut Cursor<'_>, findings: &mut Findings) {
    if cursor.looking_at(b"\xef\xbb\xbf") {
        cursor.pos = 3;
    }
    let mut scan = Scan {
        c: cursor,
        f: findings,
        open: Vec::new(),
        parens: 0,
        pending: None,
        value: false,
        before: b';',
        last: &[],
    };
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
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | 0x80.. => self.word(),
            b'0'..=b'9' => {
                self.c.number(false);
                self.before = b'0';
            }
            b'/' if self.c.peek(1) == b'/' => self.c.line_comment(),
            b'/' if self.c.peek(1) == b'*' => self.c.block_comment(false),
            b'"' if self.c.looking_at(b"\"\"\"") => self.text_block(),
            b'"' | b'\'' => {
                self.c.string(byte, false);
                self.before = b'"';
            }
            _ => self.punctuation(byte),
        }
    }

    /// `"""…"""`, in which a backslash takes the next byte along.
    fn text_block(&mut self) {
        let src = self.c.src;
        let mut at = self.c.pos + 3;
        let end = loop {
            let rest = src.get(at..).unwrap_or(&[]);
            let Some(found) = memchr::memchr2(b'"', b'\\', rest) else { break src.len() };
            at += found;
            if src[at] == b'\\' {
                at += 2;
            } else if src[at..].starts_with(b"\"\"\"") {
                break at + 3;
            } else {
                at += 1;
            }
        };
        self.c.code_to(end);
        self.before = b'"';
    }

    fn punctuation(&mut self, byte: u8) {
        match byte {
            b'{' => {
                let body = if self.parens == 0 { self.pending.take() } else { None };
                self.open.push(body);
                self.value = self.value && body.is_none();
            }
            b'}' => {
                self.open.pop();
                self.parens = 0;
            }
            b'(' => self.parens += 1,
            b')' => self.parens = self.parens.saturating_sub(1),
            b'=' if self.in_class() => self.value = true,
            b';' if self.parens == 0 => {
                if self.in_class() {
                    self.value = false;
                }
                self.pending = None;
            }
            _ => {}
        }
        self.before = byte;
        self.last = &[];
        self.c.bump(1);
    }

    fn in_class(&self) -> bool {
        self.parens == 0 && self.open.last().is_some_and(Option::is_some)
    }

    #[inline(always)]
    fn word(&mut self) {
        let line = self.c.line();
        let start = self.c.pos;
        loop {
            self.c.word();
            if self.c.byte() != Some(b'$') {
                break;
            }
            self.c.bump(1);
        }
        let word = &self.c.src[start..self.c.pos];
        let before = std::mem::replace(&mut self.before, b'a');
        let last = std::mem::replace(&mut self.last, word);
        if before == b'.' {
            return;
        }
        use DefinitionKind as D;
        match word {
            b"import" if self.open.is_empty() => self.import(line),
            b"class" => self.define_type(D::Class, line),
            b"enum" => self.define_type(D::Enum, line),
            b"interface" if before == b'@' => self.define_type(D::Annotation, line),
            b"interface" => self.define_type(D::Interface, line),
            b"record" if record_start(before, last) => self.record(line),
            _ => self.method(word, before, last, line),
        }
    }

    fn define_type(&mut self, kind: DefinitionKind, line: u32) {
        self.c.skip_white();
        let name = self.c.word();
        if !name.is_empty() {
            self.f.define(name, kind, line);
            self.pending = Some(name);
            self.value = false;
        }
    }

    /// `record Name(` or `record Name<`; `record` is a name like any other elsewhere.
    fn record(&mut self, line: u32) {
        self.c.skip_spaces();
        let name = self.c.word();
        self.c.skip_spaces();
        if !name.is_empty() && matches!(self.c.byte(), Some(b'(' | b'<')) {
            self.f.define(name, DefinitionKind::Record, line);
            self.pending = Some(name);
        }
    }

    /// A method: a name before a parenthesis in a class body, with a type or a modifier before it; or the name of the class.
    fn method(&mut self, word: &'a [u8], before: u8, last: &'a [u8], line: u32) {
        if self.value || !self.in_class() {
            return;
        }
        self.c.skip_spaces();
        if self.c.byte() != Some(b'(') {
            return;
        }
        let constructor = self.open.last().copied().flatten() == Some(word);
        let typed = matches!(before, b'>' | b']') || (before == b'a' && !matches!(last, b"new" | b"return" | b"throw"));
        if constructor && before != b',' || typed {
            self.f.define(word, DefinitionKind::Method, line);
        }
    }

    fn import(&mut self, line: u32) {
        let mut kind = ImportKind::Type;
        let mut path = Vec::with_capacity(64);
        loop {
            self.c.skip_white();
            match self.c.byte() {
                Some(b'.') => {
                    self.c.bump(1);
                    path.push(b'.');
                }
                Some(b'*') => {
                    self.c.bump(1);
                    path.push(b'*');
                }
                Some(b'$') => {
                    self.c.bump(1);
                    path.push(b'$');
                }
                _ => match self.c.word() {
                    b"" => break,
                    b"static" if path.is_empty() => kind = ImportKind::Static,
                    word => path.extend_from_slice(word),
                },
            }
        }
        if !path.is_empty() {
            self.f.import(&path, kind, line);
        }
    }
}

/// Whether `record` may begin a declaration here: behind a statement, a block, an annotation or a modifier.
fn record_start(before: u8, last: &[u8]) -> bool {
    let modifier: &[&[u8]] = &[b"public", b"private", b"protected", b"static", b"final", b"strictfp"];
    matches!(before, b';' | b'{' | b'}' | b')') || (before == b'a' && modifier.contains(&last))
}
