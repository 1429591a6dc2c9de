//! Where imports lead, language by language, in small made-up trees.
//! It does not know scanners: imports are given as they would be found.

use super::super::facts::ImportKind;
use super::{Tree, Verdict};

fn tree(paths: &[&str], manifests: &[(&str, &str)]) -> Tree {
    let owned: Vec<Box<str>> = paths.iter().map(|&path| path.into()).collect();
    Tree::new(owned, |number| {
        let path = paths[number as usize];
        manifests.iter().find(|(manifest, _)| *manifest == path).map(|(_, text)| (*text).to_owned())
    })
}

/// What the import leads to: paths, or the verdict in capitals.
fn lead(tree: &Tree, from: &str, kind: ImportKind, text: &str) -> String {
    let number = (0..tree.len() as u32).find(|&number| tree.path(number) == from).expect("the importer is in the tree");
    let mut files = Vec::new();
    match tree.resolve(number, text.as_bytes(), kind, &mut files) {
        Verdict::Found => files.iter().map(|&file| tree.path(file)).collect::<Vec<_>>().join(" "),
        verdict => format!("{verdict:?}").to_uppercase(),
    }
}

#[track_caller]
fn check(tree: &Tree, kind: ImportKind, cases: &[(&str, &str, &str)]) {
    for (from, text, want) in cases {
        assert_eq!(lead(tree, from, kind, text), *want, "{text} in {from}");
    }
}

fn rust_tree() -> Tree {
    tree(
        &[
            "Cargo.toml",
            "build.rs",
            "src/lib.rs",
            "src/main.rs",
            "src/a.rs",
            "src/a/b.rs",
            "src/c/mod.rs",
            "src/c/d.rs",
            "src/bin/e.rs",
            "src/bin/t/main.rs",
            "src/bin/t/f.rs",
            "tests/g.rs",
            "tests/h/mod.rs",
            "k/Cargo.toml",
            "k/root.rs",
            "k/l.rs",
            "src/m/tests/n.rs",
            "src/m/tests.rs",
            "src/m/mod.rs",
        ],
        &[
            ("Cargo.toml", "[package]\nname = \"my-lib\"\n"),
            ("k/Cargo.toml", "[package]\nname=\"k\"\n[lib]\npath=\"root.rs\""),
        ],
    )
}

#[test]
fn rust_modules_and_external_crates() {
    let tree = rust_tree();
    check(
        &tree,
        ImportKind::Module,
        &[
            ("src/lib.rs", "a", "src/a.rs"),
            ("src/lib.rs", "c", "src/c/mod.rs"),
            ("src/a.rs", "b", "src/a/b.rs"),
            ("src/c/mod.rs", "d", "src/c/d.rs"),
            ("src/lib.rs", "c::d", "src/c/d.rs"),
            ("tests/g.rs", "h", "tests/h/mod.rs"),
            ("src/m/tests.rs", "n", "src/m/tests/n.rs"),
            ("src/lib.rs", "z", "MISSING"),
        ],
    );
    check(
        &tree,
        ImportKind::ModulePath,
        &[("src/lib.rs", "../tests/h/mod.rs", "tests/h/mod.rs"), ("src/lib.rs", "x.rs", "MISSING")],
    );
    check(&tree, ImportKind::ExternCrate, &[("src/lib.rs", "k", "k/root.rs"), ("src/lib.rs", "alloc", "EXTERNAL")]);
}

#[test]
fn rust_use_paths() {
    let tree = rust_tree();
    check(
        &tree,
        ImportKind::Use,
        &[
            ("src/a/b.rs", "crate::c::d::Thing", "src/c/d.rs"),
            ("src/a/b.rs", "crate::Thing", "src/lib.rs"),
            ("src/main.rs", "crate::a", "src/a.rs"),
            ("src/bin/t/f.rs", "crate::f::x", "src/bin/t/f.rs"),
            ("src/a/b.rs", "super::X", "src/a.rs"),
            ("src/a/b.rs", "super::super::c::d", "src/c/d.rs"),
            ("src/c/d.rs", "super::X", "src/c/mod.rs"),
            ("src/c/mod.rs", "super::a::X", "src/a.rs"),
            ("src/c/mod.rs", "self::d::X", "src/c/d.rs"),
            ("src/c/mod.rs", "self::X", "src/c/mod.rs"),
            ("src/lib.rs", "a::b::C", "src/a/b.rs"),
            ("src/bin/e.rs", "my_lib::a::X", "src/a.rs"),
            ("src/bin/e.rs", "::k::l::X", "k/l.rs"),
            ("src/lib.rs", "k::Y", "k/root.rs"),
            ("src/lib.rs", "std::io", "EXTERNAL"),
            ("src/lib.rs", "serde::Serialize", "EXTERNAL"),
            ("src/lib.rs", "::a::b", "EXTERNAL"),
            ("src/a.rs", "Kind::*", ""),
            ("src/lib.rs", "super::x", "MISSING"),
            ("tests/h/mod.rs", "crate::a::X", "src/a.rs"),
        ],
    );
}

#[test]
fn c_includes_beside_above_and_elsewhere() {
    let tree = tree(
        &[
            "include/linux/a.h",
            "tools/include/linux/a.h",
            "arch/x86/include/asm/io.h",
            "arch/arm/include/asm/io.h",
            "arch/x86/k/m.c",
            "drivers/d/d.c",
            "drivers/d/d.h",
            "drivers/e/inc2/only.h",
            "drivers/e/x/two.h",
            "drivers/f/x/two.h",
            "drivers/e/y.c",
            "tools/p/p.c",
            "include/uapi/linux/u.h",
            "lib/string.h",
            "lib/s.c",
            "arch/mips/include/asm/mips.h",
            "root.h",
        ],
        &[],
    );
    check(
        &tree,
        ImportKind::Angled,
        &[
            ("drivers/d/d.c", "linux/a.h", "include/linux/a.h"),
            ("tools/p/p.c", "linux/a.h", "tools/include/linux/a.h"),
            ("arch/x86/k/m.c", "asm/io.h", "arch/x86/include/asm/io.h"),
            ("drivers/d/d.c", "asm/io.h", "AMBIGUOUS"),
            ("drivers/d/d.c", "asm/mips.h", "arch/mips/include/asm/mips.h"),
            ("drivers/d/d.c", "linux/u.h", "include/uapi/linux/u.h"),
            ("drivers/d/d.c", "vector", "EXTERNAL"),
            ("lib/s.c", "string.h", "EXTERNAL"),
            ("drivers/d/d.c", "boost/x.hpp", "EXTERNAL"),
        ],
    );
    check(
        &tree,
        ImportKind::Quoted,
        &[
            ("drivers/d/d.c", "d.h", "drivers/d/d.h"),
            ("drivers/e/y.c", "../d/d.h", "drivers/d/d.h"),
            ("drivers/e/y.c", "./inc2/only.h", "drivers/e/inc2/only.h"),
            ("drivers/d/d.c", "only.h", "drivers/e/inc2/only.h"),
            ("drivers/e/y.c", "two.h", "drivers/e/x/two.h"),
            ("drivers/d/d.c", "two.h", "AMBIGUOUS"),
            ("drivers/d/d.c", "none.h", "MISSING"),
            ("drivers/d/d.c", "stdio.h", "EXTERNAL"),
            ("drivers/d/d.c", "../../../x.h", "MISSING"),
            ("drivers/d/d.c", "linux/../root.h", "root.h"),
            ("lib/s.c", "string.h", "lib/string.h"),
        ],
    );
}

#[test]
fn python_packages() {
    let tree = tree(
        &["a/__init__.py", "a/b.py", "a/c/__init__.py", "a/c/d.py", "tool.py", "src/e/f.py", "n/g.py", "a/json.py"],
        &[],
    );
    check(
        &tree,
        ImportKind::Import,
        &[
            ("tool.py", "a.b", "a/b.py"),
            ("a/c/d.py", "a.c", "a/c/__init__.py"),
            ("tool.py", "e.f", "src/e/f.py"),
            ("a/b.py", "json", "EXTERNAL"),
            ("tool.py", "os.path", "EXTERNAL"),
        ],
    );
    check(
        &tree,
        ImportKind::From,
        &[
            ("a/c/d.py", ".:x", "a/c/__init__.py"),
            ("a/c/d.py", "..:b,c", "a/b.py a/c/__init__.py"),
            ("a/c/d.py", "..b:thing", "a/b.py"),
            ("a/b.py", ".c:d,thing", "a/c/d.py a/c/__init__.py"),
            ("tool.py", "n:g", "n/g.py"),
            ("tool.py", "a:*", "a/__init__.py"),
            ("a/b.py", ".nope:x", "MISSING"),
            ("a/b.py", "....x:y", "MISSING"),
            ("tool.py", "typing:List", "EXTERNAL"),
        ],
    );
}

#[test]
fn javascript_specifiers() {
    let tree = tree(
        &["a/x.ts", "a/y.js", "a/z/index.tsx", "a/w.d.ts", "b.json", "c.mjs", "a/v.ts", "a/v.js", "d.vue", "index.js"],
        &[],
    );
    check(
        &tree,
        ImportKind::Specifier,
        &[
            ("a/x.ts", "./y", "a/y.js"),
            ("a/x.ts", "./z", "a/z/index.tsx"),
            ("a/x.ts", "./z/", "a/z/index.tsx"),
            ("a/x.ts", "./w", "a/w.d.ts"),
            ("a/x.ts", "../b.json", "b.json"),
            ("a/y.js", "./x.js", "a/x.ts"),
            ("a/y.js", "./v", "a/v.js"),
            ("a/x.ts", "./v", "a/v.ts"),
            ("c.mjs", "./d.vue?raw", "d.vue"),
            ("a/y.js", "..", "index.js"),
            ("c.mjs", "react", "EXTERNAL"),
            ("c.mjs", "@scope/x", "EXTERNAL"),
            ("c.mjs", "@/x", "MISSING"),
            ("c.mjs", "./nope", "MISSING"),
        ],
    );
}

#[test]
fn go_modules_and_java_packages() {
    let tree = tree(
        &[
            "go.mod",
            "p/a.go",
            "p/p.go",
            "q/doc.go",
            "q/b.go",
            "r/c_test.go",
            "m/go.mod",
            "m/s/s.go",
            "vendor/x.org/v/v.go",
            "one/src/com/k/A.java",
            "one/src/com/k/B.java",
            "two/src/com/k/A.java",
            "two/src/com/l/package-info.java",
            "two/src/com/l/C.java",
        ],
        &[("go.mod", "module ex.org/t\n"), ("m/go.mod", "module ex.org/t/m\n")],
    );
    check(
        &tree,
        ImportKind::Package,
        &[
            ("p/a.go", "ex.org/t/q", "q/doc.go"),
            ("q/b.go", "ex.org/t/p", "p/p.go"),
            ("p/a.go", "ex.org/t/m/s", "m/s/s.go"),
            ("p/a.go", "ex.org/t/r", "MISSING"),
            ("p/a.go", "x.org/v", "vendor/x.org/v/v.go"),
            ("p/a.go", "fmt", "EXTERNAL"),
            ("p/a.go", "ex.org/tt", "EXTERNAL"),
        ],
    );
    check(
        &tree,
        ImportKind::Type,
        &[
            ("one/src/com/k/B.java", "com.k.A", "one/src/com/k/A.java"),
            ("two/src/com/l/C.java", "com.k.A.Inner", "two/src/com/k/A.java"),
            ("one/src/com/k/B.java", "com.l.*", "two/src/com/l/package-info.java"),
            ("one/src/com/k/B.java", "com.k.B.*", "one/src/com/k/B.java"),
            ("one/src/com/k/B.java", "com.k.Nope", "MISSING"),
            ("one/src/com/k/B.java", "java.util.List", "EXTERNAL"),
        ],
    );
    check(
        &tree,
        ImportKind::Static,
        &[
            ("one/src/com/k/B.java", "com.l.C.f", "two/src/com/l/C.java"),
            ("one/src/com/k/B.java", "com.l.C.*", "two/src/com/l/C.java"),
        ],
    );
}

#[test]
fn no_text_whatever_makes_resolution_panic() {
    let tree = tree(&["a/b.rs", "a/lib.rs", "a/c.h", "a/d.py", "a/e.js", "a/f.go", "a/G.java"], &[]);
    let kinds = [
        ImportKind::Module,
        ImportKind::ModulePath,
        ImportKind::Use,
        ImportKind::ExternCrate,
        ImportKind::Quoted,
        ImportKind::Angled,
        ImportKind::Import,
        ImportKind::From,
        ImportKind::Specifier,
        ImportKind::Package,
        ImportKind::Type,
        ImportKind::Static,
    ];
    let pieces =
        ["a", "..", ".", "/", "::", "super", "crate", "self", ":", ",", "*", "é", "", "b", "c.h", "G", "@/", "#"];
    let mut state = 7_u64;
    for round in 0..20_000 {
        let mut text = String::new();
        for _ in 0..(round % 7) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(pieces[(state >> 33) as usize % pieces.len()]);
        }
        for kind in kinds {
            for number in 0..tree.len() as u32 {
                tree.resolve(number, text.as_bytes(), kind, &mut Vec::new());
            }
        }
    }
    assert_eq!(tree.resolve(0, b"\xff", ImportKind::Use, &mut Vec::new()), Verdict::Missing);
}
