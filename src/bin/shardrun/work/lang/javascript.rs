//! The scanner of JavaScript and TypeScript: strings, templates with interpolation, regular expressions, declarations, modules.
//! It does not know JSX: its text is read as code, so an apostrophe or `//` in it may hide the rest of that line.
#![forbid(unsafe_code)]

use super::super::cursor::Cursor;
use super::super::facts::{DefinitionKind, Findings, ImportKind};
use super::javascript_regex;

/// What an open brace encloses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Block,
    Class,
    /// `${` in a template, which goes on behind the closing brace.
    Template,
}

struct Scan<'c, 'a, 'f> {
    c: &'c mut Cursor<'a>,
    f: &'f mut Findings,
    typescript: bool,
    open: Vec<Open>,
    parens: u32,
    /// A class head has been read; the next brace outside parentheses opens its body.
    class_head: bool,
    /// Behind `=` in a class body, until the line or the statement ends.
    value: bool,
    /// Behind `import` or `export`: a `from "…"` may follow.
    module_clause: bool,
    /// The last byte of code; `a` behind a name, `k` behind a keyword that a value follows, `v` behind a literal.
    before: u8,
}

/// Reads the whole file.
pub(super) fn scan(cursor: &mut Cursor<'_>, findings: &mut Findings, typescript: bool) {
    if cursor.looking_at(b"\xef\xbb\xbf") {
        cursor.pos = 3;
    }
    if cursor.looking_at(b"#!") {
        cursor.line_comment();
    }
    let mut scan = Scan {
        c: cursor,
        f: findings,
        typescript,
        open: Vec::new(),
        parens: 0,
        class_head: false,
        value: false,
        module_clause: false,
        before: b';',
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
            b'\n' => {
                self.c.newline();
                if self.in_class() {
                    self.value = false;
                }
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | 0x80.. => self.word(),
            b'0'..=b'9' => {
                self.c.number(false);
                self.before = b'v';
            }
            b'"' | b'\'' => {
                self.c.string(byte, false);
                self.before = b'v';
            }
            b'`' => {
                self.c.bump(1);
                self.template();
            }
            b'/' => self.slash(),
            _ => self.punctuation(byte),
        }
    }

    fn slash(&mut self) {
        match self.c.peek(1) {
            b'/' => self.c.line_comment(),
            b'*' => self.c.block_comment(false),
            _ => {
                let value = matches!(self.before, b'a' | b'v' | b')' | b']' | b'<');
                match if value { None } else { javascript_regex::end(self.c.src, self.c.pos) } {
                    Some(end) => {
                        self.c.code_to(end);
                        self.before = b'v';
                    }
                    None => {
                        self.c.bump(1);
                        self.before = b'/';
                    }
                }
            }
        }
    }

    /// The text of a template from the cursor on, to its end or the next `${`.
    fn template(&mut self) {
        loop {
            let src = self.c.src;
            let Some(at) = memchr::memchr3(b'`', b'\\', b'$', &src[self.c.pos..]) else {
                return self.c.code_to(src.len());
            };
            self.c.code_to(self.c.pos + at);
            match (src[self.c.pos], self.c.peek(1)) {
                (b'\\', _) => self.c.escaped(),
                (b'$', b'{') => {
                    self.c.bump(2);
                    self.open.push(Open::Template);
                    self.before = b'{';
                    return;
                }
                (b'$', _) => self.c.bump(1),
                _ => {
                    self.c.bump(1);
                    self.before = b'v';
                    return;
                }
            }
        }
    }

    fn punctuation(&mut self, byte: u8) {
        self.c.bump(1);
        self.before = byte;
        match byte {
            b'{' => {
                let class = self.class_head && self.parens == 0;
                self.class_head = self.class_head && !class;
                self.open.push(if class { Open::Class } else { Open::Block });
            }
            b'}' => {
                let closed = self.open.pop();
                if closed == Some(Open::Template) {
                    return self.template();
                }
                if self.in_class() {
                    self.value = false;
                }
                if self.open.is_empty() {
                    self.parens = 0;
                }
            }
            b'(' => {
                self.parens += 1;
                self.module_clause = false;
            }
            b')' => self.parens = self.parens.saturating_sub(1),
            b'=' => {
                self.value = self.in_class();
                self.module_clause = false;
            }
            b';' => (self.value, self.module_clause) = (false, false),
            _ => {}
        }
    }

    fn in_class(&self) -> bool {
        self.parens == 0 && self.open.last() == Some(&Open::Class)
    }

    /// A name, in which `$` may stand too.
    fn name(&mut self) -> &'a [u8] {
        let start = self.c.pos;
        if self.c.byte().is_some_and(|byte| byte.is_ascii_digit()) {
            return &[];
        }
        loop {
            self.c.word();
            if self.c.byte() != Some(b'$') {
                return &self.c.src[start..self.c.pos];
            }
            self.c.bump(1);
        }
    }

    fn next_name(&mut self) -> &'a [u8] {
        self.c.skip_white();
        self.name()
    }

    #[inline(always)]
    fn word(&mut self) {
        let line = self.c.line();
        let word = self.name();
        let before = std::mem::replace(&mut self.before, b'a');
        if before == b'.' {
            return;
        }
        if self.in_class() && !self.value {
            self.member(word, before, line);
        } else if (2..=10).contains(&word.len()) {
            self.keyword(word, line);
        }
    }

    /// A word in a class body: a method if a parenthesis follows.
    fn member(&mut self, word: &'a [u8], before: u8, line: u32) {
        self.c.skip_spaces();
        let head = matches!(before, b'{' | b'}' | b';' | b'a' | b'k' | b'v' | b'*' | b')' | b'#');
        if head && self.c.byte() == Some(b'(') {
            self.f.define(word, DefinitionKind::Method, line);
        }
    }

    fn keyword(&mut self, word: &'a [u8], line: u32) {
        use DefinitionKind as D;
        match word {
            b"function" => {
                self.c.skip_white();
                if self.c.byte() == Some(b'*') {
                    self.c.bump(1);
                }
                let name = self.next_name();
                self.define(name, D::Function, line);
            }
            b"class" => {
                let name = self.next_name();
                if name != b"extends" && name != b"implements" {
                    self.define(name, D::Class, line);
                }
                self.class_head = true;
            }
            b"const" | b"let" | b"var" if self.open.is_empty() && self.parens == 0 => self.variable(word, line),
            b"import" => self.import(line),
            b"export" => self.module_clause = true,
            b"from" if self.module_clause => self.specifier(line),
            b"require" => {
                self.c.skip_spaces();
                if self.c.byte() == Some(b'(') {
                    self.c.bump(1);
                    self.parens += 1;
                    self.before = b'(';
                    self.specifier(line);
                }
            }
            b"enum" | b"interface" | b"namespace" | b"module" | b"type" if self.typescript => self.typed(word, line),
            b"return" | b"typeof" | b"case" | b"in" | b"of" | b"delete" | b"void" | b"throw" | b"new" | b"else"
            | b"do" | b"instanceof" | b"yield" | b"await" | b"default" => self.before = b'k',
            _ => {}
        }
    }

    fn define(&mut self, name: &[u8], kind: DefinitionKind, line: u32) {
        if !name.is_empty() {
            self.f.define(name, kind, line);
        }
    }

    fn variable(&mut self, word: &[u8], line: u32) {
        let kind = if word == b"const" { DefinitionKind::Constant } else { DefinitionKind::Variable };
        match self.next_name() {
            b"enum" if self.typescript => self.typed(b"enum", line),
            name => self.define(name, kind, line),
        }
    }

    /// A word that declares a type only if a name and the right sign follow.
    fn typed(&mut self, word: &[u8], line: u32) {
        self.c.skip_spaces();
        let name = self.name();
        self.c.skip_white();
        let sign = self.c.byte().unwrap_or(0);
        let (kind, fits) = match word {
            b"enum" => (DefinitionKind::Enum, sign == b'{'),
            b"interface" => (DefinitionKind::Interface, matches!(sign, b'{' | b'<') || self.c.looking_at(b"extends")),
            b"type" => (DefinitionKind::Type, matches!(sign, b'=' | b'<')),
            _ => (DefinitionKind::Module, matches!(sign, b'{' | b'.')),
        };
        if fits {
            self.define(name, kind, line);
        }
    }

    fn import(&mut self, line: u32) {
        self.c.skip_white();
        match self.c.byte() {
            Some(b'(') => {
                self.c.bump(1);
                self.parens += 1;
                self.before = b'(';
                self.specifier(line);
            }
            Some(b'"' | b'\'') => self.specifier(line),
            Some(b'.') => {}
            _ => self.module_clause = true,
        }
    }

    /// A string that names a module, if one comes.
    fn specifier(&mut self, line: u32) {
        self.c.skip_white();
        let Some(quote @ (b'"' | b'\'')) = self.c.byte() else { return };
        let start = self.c.pos + 1;
        self.c.string(quote, false);
        (self.before, self.module_clause) = (b'v', false);
        if let Some((&last, text)) = self.c.src[start..self.c.pos].split_last()
            && last == quote
            && !text.is_empty()
        {
            self.f.import(text, ImportKind::Specifier, line);
        }
    }
}
