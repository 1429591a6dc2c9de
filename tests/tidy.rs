//! Holds the house to its rules: sizes, headers, arrows, and where unsafe code, orderings and locks may stand.
//! It reads the sources as text; it knows nothing of what they do.

#[path = "tidy/lists.rs"]
mod lists;
#[path = "tidy/source.rs"]
mod source;

use lists::{ARROWS, LOCKS, ORDERINGS, UNSAFE};
use source::{Source, root, sources};
use std::fs;

/// Lines a file of `src` may have.
const FILE_LINES_MAX: usize = 500;
/// Lines a function may have, from its `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

/// Fails with every breach at once, one a line.
fn hold(rule: &str, breaches: Vec<String>) {
    assert!(breaches.is_empty(), "{rule}:\n  {}", breaches.join("\n  "));
}

fn listed(list: &[(&str, &str)], path: &str) -> bool {
    list.iter().any(|(file, _)| *file == path)
}

/// The file is the tool, a host of the library like any other, and bound by fewer rules.
fn is_host(source: &Source) -> bool {
    source.path.starts_with("src/bin/")
}

#[test]
fn each_file_opens_with_what_it_does_and_what_it_does_not_know() {
    let breaches = sources().into_iter().filter_map(|source| {
        let header = source.header();
        let sentences = header.matches(". ").count() + usize::from(header.trim_end().ends_with('.'));
        if header.is_empty() && !source.text.starts_with("#![doc = include_str!(") {
            Some(format!("{}: no //! header", source.path))
        } else if sentences < 2 && !source.is_entry() {
            Some(format!("{}: the header wants two sentences, what it does and what it does not know", source.path))
        } else {
            None
        }
    });
    hold("a file opens with a //! header", breaches.collect());
}

#[test]
fn files_and_functions_stay_small() {
    let mut breaches = Vec::new();
    for source in sources() {
        let lines = source.text.lines().count();
        if lines > FILE_LINES_MAX {
            breaches.push(format!("{}: {lines} lines of at most {FILE_LINES_MAX}: is it still one idea?", source.path));
        }
        for function in source.functions() {
            if function.lines > FUNCTION_LINES_MAX {
                breaches.push(format!(
                    "{}:{}: fn {} has {} lines of at most {FUNCTION_LINES_MAX}",
                    source.path, function.line, function.name, function.lines
                ));
            }
        }
    }
    hold("one idea a file, functions you can see whole", breaches);
}

#[test]
fn unsafe_code_stands_only_where_it_is_listed() {
    let mut breaches = Vec::new();
    for source in sources() {
        let has = source.has_word("unsafe");
        let allowed = listed(UNSAFE, &source.path);
        if has && !allowed {
            breaches.push(format!("{}: unsafe code outside the list in tests/tidy/lists.rs", source.path));
        }
        if !has && allowed {
            breaches.push(format!("{}: listed for unsafe code but has none: take it off the list", source.path));
        }
        let above_unsafe =
            source.folder().is_some_and(|folder| UNSAFE.iter().any(|(file, _)| file.starts_with(folder)));
        if !allowed && !above_unsafe && !is_host(&source) && !source.text.contains("#![forbid(unsafe_code)]") {
            breaches.push(format!("{}: say #![forbid(unsafe_code)]", source.path));
        }
    }
    for (file, _) in UNSAFE {
        if !root().join(file).exists() {
            breaches.push(format!("{file}: listed for unsafe code but not there"));
        }
    }
    hold("unsafe code", breaches);
}

#[test]
fn orderings_and_locks_stand_only_where_they_are_listed() {
    let mut breaches = Vec::new();
    for source in sources().iter().filter(|source| !is_host(source)) {
        if source.has_text("Ordering::") && !source.has_text("cmp::Ordering") && !listed(ORDERINGS, &source.path) {
            breaches.push(format!("{}: an atomic's ordering outside the list", source.path));
        }
        let locks = ["Mutex", "RwLock", "Condvar"].iter().any(|lock| source.has_word(lock));
        if locks && !listed(LOCKS, &source.path) {
            breaches.push(format!("{}: a lock outside the list", source.path));
        }
        if !locks && listed(LOCKS, &source.path) {
            breaches.push(format!("{}: listed for a lock but has none: take it off the list", source.path));
        }
    }
    for (file, reason) in LOCKS.iter().chain(ORDERINGS).chain(UNSAFE) {
        if reason.len() < 20 || !root().join(file).exists() {
            breaches.push(format!("{file}: a listed file exists and has its reason beside it"));
        }
    }
    hold("orderings and locks", breaches);
}

#[test]
fn threads_atomics_and_concurrent_crates_come_through_the_door() {
    let outside = ["std::sync", "std::thread", "std :: sync", "crossbeam_", "papaya::", "loom::", "shuttle::"];
    let breaches = sources()
        .iter()
        .filter(|source| !source.path.starts_with("src/sync/") && !is_host(source))
        .flat_map(|source| {
            outside
                .iter()
                .filter(|name| source.has_text(name))
                .map(|name| format!("{}: names {name} itself; take it through crate::sync", source.path))
                .collect::<Vec<_>>()
        })
        .collect();
    hold("src/sync is the one door", breaches);
}

#[test]
fn dependencies_point_down() {
    let mut breaches = Vec::new();
    for source in sources().iter().filter(|source| !is_host(source)) {
        let Some(part) = source.part() else { continue };
        let Some((_, below)) = ARROWS.iter().find(|(name, _)| *name == part) else {
            breaches.push(format!("{}: part {part} has no row in ARROWS", source.path));
            continue;
        };
        for other in source.parts_named() {
            if other != part && ARROWS.iter().any(|(name, _)| *name == other) && !below.contains(&other.as_str()) {
                breaches.push(format!("{}: {part} may not know {other}", source.path));
            }
        }
    }
    hold("each part knows only what stands below it", breaches);
}

#[test]
fn the_tool_stands_on_the_public_surface_alone() {
    let breaches = sources()
        .iter()
        .filter(|source| is_host(source) && source.has_text("#[path"))
        .map(|source| format!("{}: reaches into the library by path", source.path))
        .collect();
    hold("bin/shardrun is a host like any other", breaches);
}

#[test]
fn every_guarantee_names_a_test_that_exists() {
    let text = fs::read_to_string(root().join("docs/guarantees.md")).expect("docs/guarantees.md is there");
    let tests = source::all_rust_under(&["tests", "src", "benches", "perf"]);
    let mut breaches = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| line.starts_with("| `")) {
        let names: Vec<&str> = line.rsplit('|').nth(1).unwrap_or("").split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            breaches.push(format!("docs/guarantees.md:{}: names no test", number + 1));
        }
        for name in names {
            let function = format!("fn {}(", name.rsplit("::").next().unwrap_or(name));
            let found = tests.iter().any(|source| source.text.contains(&function));
            if !found && !root().join(name).exists() {
                breaches.push(format!("docs/guarantees.md:{}: no test {name}", number + 1));
            }
        }
    }
    hold("a guarantee is shown by a test", breaches);
}

#[test]
fn every_feature_is_documented() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml is there");
    let readme = fs::read_to_string(root().join("README.md")).expect("README.md is there");
    let features = manifest.split("[features]").nth(1).and_then(|rest| rest.split("\n[").next()).unwrap_or("");
    let breaches = features
        .lines()
        .filter_map(|line| line.split_once(" = ["))
        .map(|(name, _)| name.trim())
        .filter(|name| *name != "default" && !readme.contains(&format!("`{name}`")))
        .map(|name| format!("feature {name}: not in README.md"))
        .collect();
    hold("features are documented", breaches);
}
