//! The declaration that is being read in C or C++, and what it turns out to define when its `;`, `=` or `{` comes.
//! It does not know the text: it is told the words that stand outside parentheses.
#![forbid(unsafe_code)]

use super::super::facts::{DefinitionKind, Findings};

/// A brace whose inside is read for declarations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Block {
    Namespace,
    Class { typedef: bool },
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    /// Words are being gathered.
    #[default]
    Words,
    /// Behind the colon of a constructor's initialisers.
    Initialisers,
    /// Behind `=`: a value follows, a brace is an initialiser.
    Value,
    /// The brace of a function has come.
    Body,
    /// Nothing more can be defined until the `;`.
    Spent,
}

/// What has been read since the last statement ended.
#[derive(Default)]
pub(super) struct Statement<'a> {
    stage: Stage,
    /// The last word before an opening parenthesis: the name of a function, if a brace follows.
    called: Option<(&'a [u8], u32, bool)>,
    /// `struct`, `union`, `enum`, `class`, and the last word behind it.
    type_kind: Option<DefinitionKind>,
    type_name: &'a [u8],
    type_line: u32,
    type_named: bool,
    namespace: bool,
    linkage: bool,
    typedef: bool,
    alias: bool,
    /// The last word, and the line of the first one.
    last: &'a [u8],
    line: u32,
    /// The name in `(*name)`.
    pointer: &'a [u8],
}

/// Words before a parenthesis that name no function.
const NOT_CALLED: [&[u8]; 19] = [
    b"if",
    b"while",
    b"for",
    b"switch",
    b"return",
    b"sizeof",
    b"defined",
    b"__attribute__",
    b"__attribute",
    b"__declspec",
    b"__extension__",
    b"alignas",
    b"_Alignas",
    b"decltype",
    b"noexcept",
    b"throw",
    b"static_assert",
    b"_Static_assert",
    b"requires",
];

impl<'a> Statement<'a> {
    /// Behind the brace of a class: its variables follow, which define nothing here, or the name of the typedef.
    pub(super) fn behind_class(typedef: bool) -> Self {
        Statement { stage: if typedef { Stage::Words } else { Stage::Spent }, typedef, ..Statement::default() }
    }

    pub(super) fn is_function(&self) -> bool {
        self.stage == Stage::Body
    }

    /// A word outside parentheses. `call`: a parenthesis follows; `linkage`: a string follows; `member`: it stands in a class
    /// or behind `::`.
    #[inline(always)]
    pub(super) fn word(&mut self, word: &'a [u8], line: u32, call: bool, linkage: bool, member: bool, cpp: bool) {
        if self.stage != Stage::Words {
            return;
        }
        if call {
            return self.candidate(word, line, member);
        }
        if self.line == 0 {
            self.line = line;
        }
        match word {
            b"struct" => self.type_word(DefinitionKind::Struct, line),
            b"union" => self.type_word(DefinitionKind::Union, line),
            // `enum class`, `enum struct`: the first word stands.
            b"enum" => self.type_word(DefinitionKind::Enum, line),
            b"class" if cpp => self.type_word(DefinitionKind::Class, line),
            b"namespace" if cpp => self.namespace = true,
            b"typedef" => self.typedef = true,
            b"using" if cpp => self.alias = true,
            b"extern" if linkage => self.linkage = true,
            b"final" if cpp && self.type_kind.is_some() => {}
            _ => {
                if self.type_kind.is_some() && !self.type_named {
                    self.type_name = word;
                    self.type_line = line;
                }
                self.last = word;
            }
        }
    }

    fn type_word(&mut self, kind: DefinitionKind, line: u32) {
        if self.type_kind.is_none() || self.type_kind != Some(DefinitionKind::Enum) {
            self.type_kind = Some(kind);
        }
        (self.type_name, self.type_line) = (&[], line);
    }

    /// A word before an opening parenthesis. Attributes (`__acquires(x)`) do not take the place of a name.
    pub(super) fn candidate(&mut self, word: &'a [u8], line: u32, member: bool) {
        let attribute = word.starts_with(b"__") && self.called.is_some();
        if self.stage == Stage::Words && !attribute && !NOT_CALLED.contains(&word) {
            self.called = Some((word, line, member));
            if !word.starts_with(b"__") {
                self.last = word;
            }
        }
    }

    /// A word behind a star in the outermost parentheses.
    pub(super) fn pointer(&mut self, word: &'a [u8]) {
        if self.typedef && self.pointer.is_empty() {
            self.pointer = word;
        }
    }

    /// A lone colon: initialisers of a constructor, bases of a class, or a label.
    pub(super) fn colon(&mut self) {
        if self.called.is_some() {
            if self.stage == Stage::Words {
                self.stage = Stage::Initialisers;
            }
        } else if self.type_kind.is_some() {
            self.type_named = true;
        } else if self.stage == Stage::Words {
            *self = Statement::default();
        }
    }

    pub(super) fn assign(&mut self, findings: &mut Findings) {
        if self.stage == Stage::Words {
            if self.alias && !self.last.is_empty() {
                findings.define(self.last, DefinitionKind::Type, self.line);
            }
            self.stage = Stage::Value;
        }
    }

    /// The `;`.
    pub(super) fn end(&mut self, findings: &mut Findings) {
        if self.typedef {
            let name = if self.pointer.is_empty() { self.last } else { self.pointer };
            if !name.is_empty() {
                findings.define(name, DefinitionKind::Type, self.line);
            }
        }
        *self = Statement::default();
    }

    /// An opening brace outside parentheses: what it opens if its inside is to be read, nothing if not.
    pub(super) fn brace(&mut self, findings: &mut Findings, before: u8, cpp: bool) -> Option<Block> {
        match self.stage {
            Stage::Value | Stage::Spent | Stage::Body => return None,
            // `: member{1}` against `: member(1) {`.
            Stage::Initialisers if matches!(before, b'a' | b'>') => return None,
            Stage::Words | Stage::Initialisers => {}
        }
        if self.namespace {
            if !self.last.is_empty() {
                findings.define(self.last, DefinitionKind::Module, self.line);
            }
            return Some(Block::Namespace);
        }
        if self.linkage && self.called.is_none() && self.type_kind.is_none() {
            return Some(Block::Namespace);
        }
        if let Some((name, line, member)) = self.called {
            let kind = if member { DefinitionKind::Method } else { DefinitionKind::Function };
            findings.define(name, kind, line);
            self.stage = Stage::Body;
            return None;
        }
        let kind = self.type_kind?;
        if !self.type_name.is_empty() {
            findings.define(self.type_name, kind, self.type_line);
        }
        let class = cpp && kind != DefinitionKind::Enum;
        // Behind the brace the variables or the typedef's name follow.
        (self.type_kind, self.last) = (None, &[]);
        class.then_some(Block::Class { typedef: self.typedef })
    }
}
