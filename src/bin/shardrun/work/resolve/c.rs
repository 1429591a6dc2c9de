//! Includes of C and C++, without the compiler's flags: a header is looked for beside the file, then under the `include`
//! directories of the directories above it, then wherever only one fits.
//! It does not know `-I`: where several headers elsewhere fit equally well, the include is ambiguous.
#![forbid(unsafe_code)]

use super::{Tree, Verdict, found, nearest, paths};

/// Headers of the C library that are told apart by name when an include is quoted; angled ones are external anyway.
const STANDARD: [&str; 34] = [
    "assert.h",
    "complex.h",
    "ctype.h",
    "errno.h",
    "fcntl.h",
    "fenv.h",
    "float.h",
    "getopt.h",
    "inttypes.h",
    "iso646.h",
    "limits.h",
    "locale.h",
    "math.h",
    "poll.h",
    "pthread.h",
    "setjmp.h",
    "signal.h",
    "stdalign.h",
    "stdarg.h",
    "stdatomic.h",
    "stdbool.h",
    "stddef.h",
    "stdint.h",
    "stdio.h",
    "stdlib.h",
    "stdnoreturn.h",
    "string.h",
    "strings.h",
    "tgmath.h",
    "threads.h",
    "time.h",
    "unistd.h",
    "wchar.h",
    "wctype.h",
];

/// Whether the name is one of the C or C++ library: listed, or without an extension, or under `sys/`.
fn standard(text: &str) -> bool {
    STANDARD.contains(&text) || text.starts_with("sys/") || !paths::name(text).contains('.')
}

/// The directory to which an include directory belongs: `arch/x86` for `arch/x86/include` and `arch/x86/include/uapi`.
fn owner(directory: &str) -> Option<&str> {
    let directory = match paths::name(directory) {
        "uapi" | "generated" => paths::parent(directory),
        _ => directory,
    };
    matches!(paths::name(directory), "include" | "includes" | "inc").then(|| paths::parent(directory))
}

pub(super) fn resolve(tree: &Tree, from: u32, text: &str, quoted: bool, into: &mut Vec<u32>) -> Verdict {
    let here = paths::parent(tree.path(from));
    if text.starts_with('/') {
        return Verdict::External;
    }
    if text.starts_with('.') || text.contains("/.") {
        let file = paths::join(here, text).and_then(|path| tree.find(&path));
        if file.is_some() || text.starts_with("..") {
            return found(file, into, if quoted { Verdict::Missing } else { Verdict::External });
        }
        // `a/../b.h` below some include directory.
        let Some(plain) = paths::join("", text) else { return Verdict::Missing };
        return search(tree, from, here, &plain, quoted, into);
    }
    search(tree, from, here, text, quoted, into)
}

fn search(tree: &Tree, from: u32, here: &str, text: &str, quoted: bool, into: &mut Vec<u32>) -> Verdict {
    // The directory above that owns it and is innermost; of two the one with the shorter path.
    let mut above: Option<(usize, usize, u32)> = None;
    let (mut includes, mut include) = (0_usize, 0_u32);
    let mut any = false;
    for (number, directory) in tree.ending(text) {
        any = true;
        if quoted && directory == here {
            return found(Some(number), into, Verdict::Missing);
        }
        let owner = owner(directory);
        if owner.is_some() {
            (includes, include) = (includes + 1, number);
        }
        let owner = owner.or_else(|| (quoted || directory.is_empty()).then_some(directory));
        if let Some(owner) = owner
            && paths::holds(owner, here)
            && above.is_none_or(|(inner, length, _)| (owner.len(), length) > (inner, directory.len()))
        {
            above = Some((owner.len(), directory.len(), number));
        }
    }
    if let Some((_, _, number)) = above {
        return found(Some(number), into, Verdict::Missing);
    }
    if standard(text) || !(any || quoted) {
        return Verdict::External;
    }
    if includes == 1 {
        return found(Some(include), into, Verdict::Missing);
    }
    if includes > 1 {
        return Verdict::Ambiguous;
    }
    match nearest(tree, from, tree.ending(text).map(|(number, _)| number)) {
        Some(Ok(number)) => found(Some(number), into, Verdict::Missing),
        Some(Err(verdict)) => verdict,
        None => Verdict::Missing,
    }
}
