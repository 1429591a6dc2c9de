//! The languages: how a file is told to be in one, and which scanner reads it. To add a language, add a variant, its row in
//! `SPECS`, a scanner beside the others, and an arm in `scan`.
//! It does not know what a scanner does inside, nor how imports are resolved.
#![forbid(unsafe_code)]

mod c;
mod c_statement;
mod go;
mod java;
mod javascript;
mod javascript_regex;
mod plain;
mod python;
mod rust;
mod rust_use;
#[cfg(test)]
mod tests;

use super::cursor::Cursor;
use super::facts::{Facts, Findings};

/// A language that the index tells apart. `Other` is any text that no row of the table claims, `Binary` is what holds a NUL
/// byte near its beginning, or anywhere if it is not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Language {
    Rust,
    C,
    Cpp,
    Python,
    JavaScript,
    TypeScript,
    Go,
    Java,
    Assembly,
    Shell,
    Perl,
    Make,
    Kconfig,
    DeviceTree,
    Markdown,
    ReStructuredText,
    Json,
    Yaml,
    Toml,
    Html,
    Css,
    Other,
    Binary,
}

/// What tells a language: its name in print, extensions in lower case, whole file names.
struct Spec {
    language: Language,
    name: &'static str,
    extensions: &'static [&'static str],
    names: &'static [&'static str],
}

const fn spec(
    language: Language,
    name: &'static str,
    extensions: &'static [&'static str],
    names: &'static [&'static str],
) -> Spec {
    Spec { language, name, extensions, names }
}

/// One row per language, in the order of the enum. `.h` is taken as C.
static SPECS: [Spec; 23] = [
    spec(Language::Rust, "Rust", &["rs"], &[]),
    spec(Language::C, "C", &["c", "h"], &[]),
    spec(Language::Cpp, "C++", &["cc", "cpp", "cxx", "c++", "hh", "hpp", "hxx", "h++", "inl", "ipp", "tpp"], &[]),
    spec(Language::Python, "Python", &["py", "pyi", "pyw"], &["SConstruct", "SConscript"]),
    spec(Language::JavaScript, "JavaScript", &["js", "mjs", "cjs", "jsx"], &[]),
    spec(Language::TypeScript, "TypeScript", &["ts", "mts", "cts", "tsx"], &[]),
    spec(Language::Go, "Go", &["go"], &[]),
    spec(Language::Java, "Java", &["java"], &[]),
    spec(Language::Assembly, "Assembly", &["s", "asm"], &[]),
    spec(Language::Shell, "Shell", &["sh", "bash", "zsh"], &[]),
    spec(Language::Perl, "Perl", &["pl", "pm"], &[]),
    spec(Language::Make, "Make", &["mk", "mak"], &["Makefile", "makefile", "GNUmakefile", "Kbuild"]),
    spec(Language::Kconfig, "Kconfig", &[], &["Kconfig"]),
    spec(Language::DeviceTree, "Device tree", &["dts", "dtsi"], &[]),
    spec(Language::Markdown, "Markdown", &["md", "markdown"], &[]),
    spec(Language::ReStructuredText, "reStructuredText", &["rst"], &[]),
    spec(Language::Json, "JSON", &["json"], &[]),
    spec(Language::Yaml, "YAML", &["yaml", "yml"], &[]),
    spec(Language::Toml, "TOML", &["toml"], &[]),
    spec(Language::Html, "HTML", &["html", "htm"], &[]),
    spec(Language::Css, "CSS", &["css"], &[]),
    spec(Language::Other, "Other", &[], &[]),
    spec(Language::Binary, "Binary", &[], &[]),
];

/// How many bytes at the beginning are searched for a NUL, which tells a binary file.
const BINARY_PREFIX: usize = 8192;

impl Language {
    /// How many languages there are.
    pub(crate) const COUNT: usize = SPECS.len();

    /// All languages, in the order of their numbers.
    pub(crate) fn all() -> impl Iterator<Item = Language> {
        SPECS.iter().map(|spec| spec.language)
    }

    /// The name for people.
    pub(crate) fn name(self) -> &'static str {
        SPECS[self as usize].name
    }

    /// The language of a file by its path: the whole name first, else the extension.
    pub(crate) fn of_path(path: &str) -> Language {
        let name = path.rsplit('/').next().unwrap_or(path);
        let mut lower = [0_u8; 8];
        let extension = match name.rsplit_once('.') {
            Some((_, extension)) if (1..=lower.len()).contains(&extension.len()) => {
                let lower = &mut lower[..extension.len()];
                lower.copy_from_slice(extension.as_bytes());
                lower.make_ascii_lowercase();
                &*lower
            }
            _ => &[],
        };
        // The common case first: four of five source files are told by their extension alone.
        let by_extension = SPECS.iter().find(|spec| spec.extensions.iter().any(|known| known.as_bytes() == extension));
        by_extension
            .or_else(|| SPECS.iter().find(|spec| spec.names.contains(&name)))
            .map_or(Language::Other, |spec| spec.language)
    }

    /// The language of a file by its path and its first bytes.
    pub(crate) fn detect(path: &str, text: &[u8]) -> Language {
        let prefix = &text[..text.len().min(BINARY_PREFIX)];
        if memchr::memchr(0, prefix).is_some() { Language::Binary } else { Language::of_path(path) }
    }
}

/// Reads a file once and tells what is in it. Any bytes will do: a scanner never panics and always reaches the end.
///
/// `findings` is scratch room that the calling thread keeps between files.
pub(crate) fn scan(language: Language, text: &[u8], findings: &mut Findings) -> Facts {
    let mut cursor = Cursor::new(text);
    match language {
        Language::Rust => rust::scan(&mut cursor, findings),
        Language::C => c::scan(&mut cursor, findings, false),
        Language::Cpp => c::scan(&mut cursor, findings, true),
        Language::Python => python::scan(&mut cursor, findings),
        Language::JavaScript => javascript::scan(&mut cursor, findings, false),
        Language::TypeScript => javascript::scan(&mut cursor, findings, true),
        Language::Go => go::scan(&mut cursor, findings),
        Language::Java => java::scan(&mut cursor, findings),
        Language::Binary => cursor = Cursor::new(&[]),
        _ => plain::scan(&mut cursor),
    }
    let lines = cursor.finish();
    Facts { lines, definitions: findings.definitions.take(), imports: findings.imports.take() }
}
