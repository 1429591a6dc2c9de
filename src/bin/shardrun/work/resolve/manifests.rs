//! The few lines of `Cargo.toml` and `go.mod` that say under which name a directory is imported.
//! It does not know TOML: it reads the tables `[package]` and `[lib]` line by line.
#![forbid(unsafe_code)]

use super::paths;

/// A manifest larger than this, in bytes, counts as none.
pub(crate) const MANIFEST_BYTES_MAX: usize = 1 << 20;

/// Whether a file of this path is one.
pub(crate) fn is_manifest(path: &str) -> bool {
    matches!(paths::name(path), "Cargo.toml" | "go.mod")
}

/// What a `Cargo.toml` says of its library: the name in `use`, and where its root file is if not at `src/lib.rs`.
pub(crate) fn cargo(text: &str) -> Option<(String, Option<String>)> {
    let (mut table, mut package, mut library, mut path) = ("", None, None, None);
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with('[') {
            table = line.split('#').next().unwrap_or(line).trim();
            continue;
        }
        match (table, value(line)) {
            ("[package]", Some(("name", value))) => package = Some(value),
            ("[lib]", Some(("name", value))) => library = Some(value),
            ("[lib]", Some(("path", value))) => path = Some(value.to_owned()),
            _ => {}
        }
    }
    Some((library.or(package)?.replace('-', "_"), path))
}

/// `key = "value"`.
fn value(line: &str) -> Option<(&str, &str)> {
    let (key, rest) = line.split_once('=')?;
    let rest = rest.trim_start();
    let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    Some((key.trim(), rest[1..].split(quote).next()?))
}

/// The module path of a `go.mod`.
pub(crate) fn go(text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let rest = line.trim().strip_prefix("module")?;
        let path = rest.strip_prefix([' ', '\t'])?.split("//").next()?.trim().trim_matches('"');
        (!path.is_empty()).then(|| path.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_packages_and_modules() {
        let text = "# x\n[package] # p\nname = \"a-b\" # c\n[lib]\npath = 'lib.rs'\n[dependencies]\nname = \"no\"\n";
        assert_eq!(cargo(text), Some(("a_b".into(), Some("lib.rs".into()))));
        assert_eq!(cargo("[package]\nname = \"a\"\n[lib]\nname = \"c\""), Some(("c".into(), None)));
        assert_eq!((cargo("[workspace]\nname = \"a\""), cargo("= \n[package]\nname = é")), (None, None));
        assert_eq!(go("// x\nmodule a.b/c // d\ngo 1.2\n"), Some("a.b/c".into()));
        assert_eq!((go("modules x"), go("")), (None, None));
    }
}
