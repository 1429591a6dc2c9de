//! What one pass over one file finds: line counts, definitions, imports, packed so that a file costs four allocations at most.
//! It does not know any language, nor where an import leads.
#![forbid(unsafe_code)]

/// Lines of a file by what stands on them. A line of nothing but white space is blank wherever it stands, except inside a
/// string, where it is code; a line with code and comment is code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) code: u32,
    pub(crate) comment: u32,
    pub(crate) blank: u32,
}

impl Lines {
    /// All lines of the file.
    #[cfg(test)]
    pub(crate) fn total(self) -> u64 {
        u64::from(self.code) + u64::from(self.comment) + u64::from(self.blank)
    }
}

/// What kind of thing a definition makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum DefinitionKind {
    Function,
    Method,
    Struct,
    Union,
    Enum,
    Class,
    Interface,
    Trait,
    Record,
    Annotation,
    Type,
    Constant,
    Variable,
    Module,
    Macro,
}

impl DefinitionKind {
    /// The word that the outline shows.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Method => "method",
            Self::Struct => "struct",
            Self::Union => "union",
            Self::Enum => "enum",
            Self::Class => "class",
            Self::Interface => "interface",
            Self::Trait => "trait",
            Self::Record => "record",
            Self::Annotation => "annotation",
            Self::Type => "type",
            Self::Constant => "constant",
            Self::Variable => "variable",
            Self::Module => "module",
            Self::Macro => "macro",
        }
    }
}

/// How an import is written, which decides how it is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum ImportKind {
    /// Rust `mod a;`; inside inline modules the text carries their names: `outer::a`.
    Module,
    /// Rust `#[path = "text"] mod a;`.
    ModulePath,
    /// One leaf of a Rust `use` tree, as a path without its alias.
    Use,
    /// Rust `extern crate text;`.
    ExternCrate,
    /// C `#include "text"`.
    Quoted,
    /// C `#include <text>`.
    Angled,
    /// Python `import text`, one per module.
    Import,
    /// Python `from module import a, b`, as `module:a,b`.
    From,
    /// JavaScript and TypeScript: the string after `from`, `import` or `require`.
    Specifier,
    /// Go: the import path.
    Package,
    /// Java `import text;`, wild cards as `a.b.*`.
    Type,
    /// Java `import static text;`.
    Static,
}

impl ImportKind {
    /// The word that the outline shows.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Module | Self::ModulePath => "mod",
            Self::Use => "use",
            Self::ExternCrate => "extern crate",
            Self::Quoted => "include quoted",
            Self::Angled => "include angled",
            Self::Import | Self::Type | Self::Package => "import",
            Self::From => "from",
            Self::Specifier => "specifier",
            Self::Static => "import static",
        }
    }
}

/// A list of (text, kind, line) in two allocations: all texts behind one another, and one row each.
#[derive(Clone, Debug)]
pub(crate) struct Packed<K> {
    text: Box<[u8]>,
    rows: Box<[Row<K>]>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Row<K> {
    end: u32,
    line: u32,
    kind: K,
}

impl<K: Copy> Packed<K> {
    /// How many entries were found, whether they are kept or not.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Gives the entries' memory back; how many there were stays known.
    pub(crate) fn forget(&mut self) {
        (self.text, self.rows) = (Box::default(), Box::default());
    }

    /// The entries in the order in which they stand in the file: text, kind, line (the first is 1).
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], K, u32)> {
        let mut start = 0;
        self.rows.iter().map(move |row| {
            let text = &self.text[start..row.end as usize];
            start = row.end as usize;
            (text, row.kind, row.line)
        })
    }
}

/// The growing form of [`Packed`], kept by a thread and used again for the next file.
#[derive(Debug)]
pub(crate) struct Packing<K> {
    text: Vec<u8>,
    rows: Vec<Row<K>>,
}

impl<K: Copy> Packing<K> {
    pub(crate) const fn new() -> Self {
        Packing { text: Vec::new(), rows: Vec::new() }
    }

    /// Adds an entry. The text must be shorter than what is left of 4 GiB, which the size limit of a file ensures.
    #[inline]
    pub(crate) fn push(&mut self, text: &[u8], kind: K, line: u32) {
        self.text.extend_from_slice(text);
        self.rows.push(Row { end: self.text.len() as u32, line, kind });
    }

    /// What has gathered, in exactly fitting boxes; the packing is empty afterwards and keeps its room.
    pub(crate) fn take(&mut self) -> Packed<K> {
        let (text, rows) = (self.text.as_slice().into(), self.rows.as_slice().into());
        let packed = Packed { text, rows, len: self.rows.len() };
        self.text.clear();
        self.rows.clear();
        packed
    }
}

/// What a scanner reports to, kept by a thread and used again for the next file.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) definitions: Packing<DefinitionKind>,
    pub(crate) imports: Packing<ImportKind>,
}

impl Findings {
    pub(crate) const fn new() -> Self {
        Findings { definitions: Packing::new(), imports: Packing::new() }
    }

    #[inline]
    pub(crate) fn define(&mut self, name: &[u8], kind: DefinitionKind, line: u32) {
        self.definitions.push(name, kind, line);
    }

    #[inline]
    pub(crate) fn import(&mut self, text: &[u8], kind: ImportKind, line: u32) {
        self.imports.push(text, kind, line);
    }
}

/// What one pass over one file found.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) lines: Lines,
    pub(crate) definitions: Packed<DefinitionKind>,
    pub(crate) imports: Packed<ImportKind>,
}
