//! Module specifiers of JavaScript and TypeScript: relative ones with the extensions and index files that bundlers try.
//! It does not know `tsconfig.json` or `package.json`: a bare name is external, an alias such as `@/x` is missing.
#![forbid(unsafe_code)]

use super::{Tree, Verdict, found, paths};

/// What is tried behind a path without an extension, for a TypeScript and for any other importer.
const TYPED: [&str; 10] = [".ts", ".tsx", ".d.ts", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".json"];
const UNTYPED: [&str; 10] = [".js", ".jsx", ".mjs", ".cjs", ".json", ".ts", ".tsx", ".mts", ".cts", ".d.ts"];

pub(super) fn resolve(tree: &Tree, from: u32, text: &str, into: &mut Vec<u32>) -> Verdict {
    // What a bundler's loader is asked for behind `?` or `!` is not part of the path.
    let text = text.split('?').next().unwrap_or(text);
    let here = tree.path(from);
    if !(text.starts_with("./") || text.starts_with("../") || text == "." || text == "..") {
        let alias = ["@/", "~/", "#", "/"].iter().any(|prefix| text.starts_with(prefix));
        return if alias { Verdict::Missing } else { Verdict::External };
    }
    let Some(mut path) = paths::join(paths::parent(here), text) else { return Verdict::External };
    let typed = here.ends_with("ts") || here.ends_with("tsx");
    let extensions = if typed { &TYPED } else { &UNTYPED };
    let directory = text.ends_with('/') || text.ends_with('.');
    let file = if directory { None } else { file(tree, &mut path, extensions) };
    let file = file.or_else(|| {
        paths::push(&mut path, "index");
        with_extension(tree, &mut path, extensions)
    });
    found(file, into, Verdict::Missing)
}

/// The file as it is spelled, as the TypeScript that the spelled JavaScript is made from, or with an extension added.
fn file(tree: &Tree, path: &mut String, extensions: &[&str]) -> Option<u32> {
    tree.find(path).or_else(|| made_from(tree, path)).or_else(|| with_extension(tree, path, extensions))
}

fn made_from(tree: &Tree, path: &str) -> Option<u32> {
    let sources: [(&str, &[&str]); 4] =
        [(".js", &[".ts", ".tsx", ".d.ts"]), (".jsx", &[".tsx"]), (".mjs", &[".mts"]), (".cjs", &[".cts"])];
    let (stem, extensions) =
        sources.iter().find_map(|(made, from)| path.strip_suffix(made).map(|stem| (stem, from)))?;
    extensions.iter().find_map(|extension| tree.find(&format!("{stem}{extension}")))
}

fn with_extension(tree: &Tree, path: &mut String, extensions: &[&str]) -> Option<u32> {
    let length = path.len();
    let file = extensions.iter().find_map(|extension| {
        path.truncate(length);
        path.push_str(extension);
        tree.find(path)
    });
    path.truncate(length);
    file
}
