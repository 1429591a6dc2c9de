//! What the scanners find in tricky inputs, and that no bytes whatever make them panic or lose a line.
//! It does not know files.

use super::super::facts::{Findings, Lines};
use super::{Language, scan};

struct Found {
    lines: [u32; 3],
    definitions: String,
    imports: String,
}

fn found(language: Language, text: &str) -> Found {
    let facts = scan(language, text.as_bytes(), &mut Findings::new());
    let definitions: Vec<String> = facts
        .definitions
        .iter()
        .map(|(name, kind, line)| format!("{} {}:{line}", kind.word(), String::from_utf8_lossy(name)))
        .collect();
    let imports: Vec<String> = facts.imports.iter().map(|(text, _, _)| String::from_utf8_lossy(text).into()).collect();
    let Lines { code, comment, blank } = facts.lines;
    Found { lines: [code, comment, blank], definitions: definitions.join(", "), imports: imports.join(", ") }
}

#[track_caller]
fn lines(language: Language, text: &str, code: u32, comment: u32, blank: u32) {
    assert_eq!(found(language, text).lines, [code, comment, blank], "lines (code, comment, blank) of {text:?}");
}

#[track_caller]
fn definitions(language: Language, text: &str, want: &str) {
    assert_eq!(found(language, text).definitions, want, "definitions of {text:?}");
}

#[track_caller]
fn imports(language: Language, text: &str, want: &str) {
    assert_eq!(found(language, text).imports, want, "imports of {text:?}");
}

#[test]
fn languages_are_told_by_name_extension_and_nul() {
    for (path, want) in [
        ("a/b.rs", Language::Rust),
        ("b.C", Language::C),
        ("x.h", Language::C),
        ("x.c++", Language::Cpp),
        ("x.tar.py", Language::Python),
        ("x.d.ts", Language::TypeScript),
        ("x.mjs", Language::JavaScript),
        ("go.mod", Language::Other),
        ("x.go", Language::Go),
        ("X.java", Language::Java),
        ("lib/Makefile", Language::Make),
        ("README", Language::Other),
        (".rs", Language::Rust),
        ("x.", Language::Other),
        ("é.ünlange", Language::Other),
        ("entry.S", Language::Assembly),
    ] {
        assert_eq!(Language::of_path(path), want, "{path}");
    }
    assert_eq!(Language::detect("a.rs", b"fn a() {}\0"), Language::Binary);
    assert!(
        Language::all().enumerate().all(|(at, language)| language as usize == at),
        "the table is in the enum's order"
    );
}

#[test]
fn rust_comments_and_strings_do_not_hide_code() {
    use Language::Rust;
    lines(Rust, "", 0, 0, 0);
    lines(Rust, "\n", 0, 0, 1);
    lines(Rust, "fn a() {} // x", 1, 0, 0);
    lines(Rust, "/* a /* b */\n still */\nfn x() {}\n", 1, 2, 0);
    lines(Rust, "/*\n\n*/\n", 0, 2, 1);
    lines(Rust, "let s = \"// no\n\n/* no\";\n", 3, 0, 0);
    lines(Rust, "let s = r#\"a\"// \"#; // c\n//\n", 1, 1, 0);
    lines(Rust, "let c = '\"'; // c\n// d\n", 1, 1, 0);
    lines(Rust, "let c = '\\''; /* c */\n", 1, 0, 0);
    lines(Rust, "fn f<'a>(x: &'a str) {} // \"\n// d\n", 1, 1, 0);
    lines(Rust, "let c = b'\\\\'; // \"\n//\n", 1, 1, 0);
    lines(Rust, "let c = 'ß'; // \"\n//\n", 1, 1, 0);
    lines(Rust, "a\r\n\r\n// b\r\n", 1, 1, 1);
    lines(Rust, "#!/usr/bin/env run\nfn a() {}", 1, 1, 0);
}

#[test]
fn rust_items_and_uses() {
    use Language::Rust;
    definitions(
        Rust,
        "pub(crate) struct A<T>;\nenum B {}\nunion C { a: u8 }\ntrait D { type E; const F: u8; fn g(&self); }\n",
        "struct A:1, enum B:2, union C:3, trait D:4, type E:4, constant F:4, function g:4",
    );
    definitions(
        Rust,
        "const fn a() {}\nconst B: fn(u8) = x;\nstatic mut C: u8 = 0;\nmacro_rules! d { () => {} }\n",
        "function a:1, constant B:2, variable C:3, macro d:4",
    );
    definitions(Rust, "fn a<const N: usize>(p: *const T) { let x = r#fn; let f = y.fn; }", "function a:1");
    definitions(Rust, "// fn a() {}\n/* struct B; */ let s = \"fn c() {}\"; fn r#type() {}", "function type:2");
    definitions(Rust, "let union = 1; union as u32; const _: () = ();", "");
    imports(Rust, "use a;", "a");
    imports(
        Rust,
        "pub use crate::{a::{self, b as c}, d::*, r#mod::e};",
        "crate::a, crate::a::b, crate::d::*, crate::mod::e",
    );
    imports(Rust, "use ::std::{\n  // x::y\n  io /* , */,\n  fmt,\n};", "::std::io, ::std::fmt");
    imports(Rust, "mod a;\n#[path = \"b/c.rs\"]\nmod d;\nmod e { mod f; }\n", "a, b/c.rs, e::f");
    imports(
        Rust,
        "mod tests { use super::*; use super::super::x; use self::y; mod z { use super::w; } }",
        "self::*, super::x, self::tests::y, self::tests::w",
    );
    imports(Rust, "extern crate alloc; extern crate self as me; extern \"C\" {}", "alloc");
    imports(Rust, "fn f() -> impl T + use<'a> {} // use x;\nlet s = \"use y;\";", "");
    imports(Rust, "mod inner { use super::superb; }", "self::superb");
}

#[test]
fn c_comments_strings_and_splices() {
    use Language::{C, Cpp};
    lines(C, "int a; /* x\n\n y */ int b;\n// c \\\n d\n", 2, 2, 1);
    lines(C, "char *s = \"/* no */ // no\"; /* yes\n*/\n", 1, 1, 0);
    lines(C, "char c = '\"'; // \"\n// x\n", 1, 1, 0);
    lines(C, "#define A \\\n  1 /* x */\n#error Don't /* do */\n/* y */\n", 3, 1, 0);
    lines(Cpp, "auto s = R\"x(\n)\" // no\n\n)x\"; // yes\n//\n", 4, 1, 0);
    lines(Cpp, "int n = 1'000'000; // '\n//\n", 1, 1, 0);
    lines(C, "/* /* */ int a;\n", 1, 0, 0);
    lines(C, "void f(void)\n{\n\n  g('\\n', L'x'); /* a\n b */\n}\n", 4, 1, 1);
}

#[test]
fn c_definitions() {
    use Language::C;
    definitions(
        C,
        "static int __init a(int x)\n{\n if (x) { b(); }\n}\nint c(void);\nvoid d(void) {}\n",
        "function a:1, function d:6",
    );
    definitions(
        C,
        "struct a { int b; } c;\nstruct d *e(struct f g) { }\nenum h { I };\nunion j { int k; };\n",
        "struct a:1, function e:2, enum h:3, union j:4",
    );
    definitions(
        C,
        "typedef struct { int a; } b;\ntypedef int (*c)(int d);\ntypedef unsigned long e;\ntypedef struct f f_t;\n",
        "type b:1, type c:2, type e:3, type f_t:4",
    );
    definitions(
        C,
        "#define A 1\n#  define B(x) { x\n#define C \\\n  }\nint d(void) { }\n",
        "macro A:1, macro B:2, macro C:3, function d:5",
    );
    definitions(
        C,
        "static struct ops a = {\n .b = c,\n};\nMODULE(x);\nint y[] = { 1 };\nint z(void) __acquires(l) { }",
        "function z:6",
    );
    definitions(
        C,
        "#ifdef A\nint f(int a) {\n#else\nint f(void) {\n#endif\n return 0;\n}\nint g(void) { }\n",
        "function f:2, function g:8",
    );
    definitions(
        C,
        "void f(void) {\n#if X\n if (a) {\n#else\n if (b) {\n#endif\n }\n}\nint g(void) { }\n",
        "function f:1, function g:9",
    );
    definitions(C, "// int a() {}\nchar *s = \"int b() {}\"; /* int c() {} */\n", "");
}

#[test]
fn cpp_definitions_and_includes() {
    use Language::Cpp;
    definitions(
        Cpp,
        "namespace a::b {\ntemplate <class T, int N = 3> class C final : public D<T> {\npublic:\n  C() : x{1}, y(2) { }\n  int e() const override { return 1; }\n  bool operator==(const C& o) { }\n};\n}\nint A::f() noexcept(true) { }\nenum class G : int { H };\nusing I = int;\n",
        "module b:1, class C:2, method C:4, method e:5, method operator==:6, method f:9, enum G:10, type I:11",
    );
    definitions(Cpp, "extern \"C\" {\nint a(void) { }\n}\nextern \"C\" int b() { }\n", "function a:2, function b:4");
    definitions(Cpp, "typedef struct a { int b; } c;\nclass D;\n", "struct a:1, type c:1");
    imports(
        Cpp,
        "#include <vector>\n# include \"a/b.h\" // x\n#include MACRO\n// #include <no>\n#include_next <c.h>\n",
        "vector, a/b.h, c.h",
    );
    imports(Language::C, "#if 0\n#include \"x.h\"\n#endif\nchar *s = \"\\\n#include <y.h>\\\n\";", "x.h");
}

#[test]
fn python_strings_docstrings_and_imports() {
    use Language::Python;
    lines(Python, "# a\n'''doc\n\n# b\n'''\nx = 1  # c\n", 1, 4, 1);
    lines(Python, "x = '''a\n\n# b'''\n", 3, 0, 0);
    lines(Python, "x = 'it\\'s # no' # yes\n#\n", 1, 1, 0);
    lines(Python, "x = r'\\' # in the string'\n#\n", 1, 1, 0);
    lines(Python, "def f():\n  \"\"\"d\"\"\"\n  return f\"{a['b']}\"\n", 2, 1, 0);
    definitions(
        Python,
        "class A(B):\n    def c(self):\n        def d(): pass\n    async def e(self): pass\ndef f(): pass\n# def g()\ns = 'def h()'\n",
        "class A:1, method c:2, function d:3, method e:4, function f:5",
    );
    definitions(Python, "x = (\ndef a(): pass\n", "function a:2");
    imports(
        Python,
        "import a.b as c, d\nfrom . import e\nfrom ..f.g import (h as i, # x\n  j,\n)\nfrom k import *\n",
        "a.b, d, .:e, ..f.g:h,j, k:*",
    );
    imports(Python, "x = '''\nimport a\n'''\nraise E from e\nyield from f\nif x: import b\n", "b");
    imports(Python, "from a import \\\n  b, c\n", "a:b,c");
}

#[test]
fn javascript_templates_regexes_and_modules() {
    use Language::{JavaScript, TypeScript};
    lines(JavaScript, "`a ${ `b // ${c} ` } // no\n` // yes\n//\n", 2, 1, 0);
    lines(JavaScript, "x = /[/\"]'/g; // yes\n//\n", 1, 1, 0);
    lines(JavaScript, "x = a / b; y = c / d; // '\n//\n", 1, 1, 0);
    lines(JavaScript, "return /\\/*/.test(a)\n/* c */\n", 1, 1, 0);
    lines(JavaScript, "`\n\n`\n", 3, 0, 0);
    definitions(
        JavaScript,
        "export default class A extends B { #x = f(1)\n c() { if (d()) {} } static async *e() {} get g() {} }\nfunction* h() {}\nconst i = () => { const j = 1 }\nlet $k\n",
        "class A:1, method c:2, method e:2, method g:2, function h:3, constant i:4, variable $k:5",
    );
    definitions(
        TypeScript,
        "export interface A<T> { b(): void }\ntype C = D | E;\nenum F { G }\nnamespace H { }\nconst enum I {}\nabstract class J { abstract k(): void; }\nlet type = 1; type = 2\n",
        "interface A:1, type C:2, enum F:3, module H:4, enum I:5, class J:6, method k:6, variable type:7",
    );
    imports(
        JavaScript,
        "import a, { b as c } from './d'\nimport \"e\";\nexport * from 'f';\nexport {\n g\n} from \"../h.js\"\nconst i = require('j');\nimport('k').then()\n// import 'l'\nconst s = \"import 'm'\"; import.meta.url\n",
        "./d, e, f, ../h.js, j, k",
    );
    imports(
        TypeScript,
        "import type { A } from './a';\nimport b = require('b');\nexport const from = 'x';\n",
        "./a, b",
    );
}

#[test]
fn go_declarations_and_imports() {
    use Language::Go;
    lines(Go, "var a = `\n// no\n\n` // yes\n//\n", 4, 1, 0);
    lines(Go, "var a = '\"' // \"\n/* b\n*/\n", 1, 2, 0);
    definitions(
        Go,
        "package p\nfunc a(b int) error {\n\tvar c = 1\n}\nfunc (r *T[K]) d() {}\ntype (\n\te struct {\n\t\tf int\n\t}\n\tg = int\n)\ntype h[T any] interface {}\nconst (\n\ti, j = 1, 2\n\t_ = 3\n)\nvar k = func(x int) string { return \"\" }\n",
        "function a:2, method d:5, struct e:7, type g:10, interface h:12, constant i:14, constant j:14, variable k:17",
    );
    imports(Go, "import \"a\"\nimport (\n\tb \"c/d\"\n\t_ `e`\n\t// \"f\"\n)\nvar s = \"g\"\n", "a, c/d, e");
}

#[test]
fn java_types_methods_and_imports() {
    use Language::Java;
    lines(Java, "String s = \"\"\"\n // no\n \\\"\"\" no\n\"\"\"; // yes\n//\n", 4, 1, 0);
    lines(Java, "char c = '\"'; // \"\n/** d\n */\n", 1, 2, 0);
    definitions(
        Java,
        "package p;\n@A(x) public class B<T> extends C {\n int d = e(1), f;\n B() {}\n @Override public <U> List<U> g(int x) { h(); new I(); }\n abstract int[] j();\n enum K { L(1), M; K(int x) {} }\n record N(int a) { N {} }\n @interface O { int p() default 1; }\n}\ninterface Q { void record(int x); }\n",
        "class B:2, method B:4, method g:5, method j:6, enum K:7, method K:7, record N:8, annotation O:9, method p:9, interface Q:11, method record:11",
    );
    imports(
        Java,
        "import a.b.C;\nimport static d.E.f;\nimport g.*;\n// import h.I;\nclass J { String s = \"import k.L;\"; }",
        "a.b.C, d.E.f, g.*",
    );
}

#[test]
fn plain_files_have_code_and_blank_lines() {
    lines(Language::Other, "a\n\n \t\nb", 2, 0, 2);
    lines(Language::Yaml, "# x\n", 1, 0, 0);
}

/// A small generator of numbers, so that a seed says all.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Pieces that scanners trip over when they stand side by side.
const PIECES: [&str; 66] = [
    "\n",
    "\r\n",
    " ",
    "\t",
    "\\",
    "\\\n",
    "/",
    "//",
    "/*",
    "*/",
    "*",
    "\"",
    "'",
    "`",
    "\"\"\"",
    "'''",
    "${",
    "}",
    "{",
    "(",
    ")",
    "[",
    "]",
    "#",
    "#[",
    "#if",
    "#else",
    "#endif",
    "#define A",
    "#include <a",
    "#include \"b\"",
    "r#\"",
    "\"#",
    "R\"x(",
    ")x\"",
    "fn",
    "mod a",
    "use ",
    "::",
    "super",
    "self",
    "as",
    ",",
    ";",
    ":",
    "=",
    ".",
    "class ",
    "struct ",
    "typedef ",
    "template <",
    "namespace ",
    "extern \"C\"",
    "operator",
    "import ",
    "from ",
    "export ",
    "require(",
    "def ",
    "func ",
    "type ",
    "é",
    "0'1",
    "a",
    "$",
    "\u{feff}",
];

#[test]
fn no_bytes_whatever_make_a_scanner_panic_or_lose_a_line() {
    for seed in 1..=4000_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut text = Vec::new();
        let pieces = random.below(40);
        for _ in 0..pieces {
            match random.below(8) {
                0 => text.push(random.next() as u8),
                _ => text.extend_from_slice(PIECES[random.below(PIECES.len())].as_bytes()),
            }
        }
        let ends = text.iter().filter(|&&byte| byte == b'\n').count() as u64;
        let want = ends + u64::from(text.last().is_some_and(|&last| last != b'\n'));
        let mut findings = Findings::new();
        for language in Language::all().filter(|&language| language != Language::Binary) {
            let facts = scan(language, &text, &mut findings);
            assert_eq!(facts.lines.total(), want, "seed {seed}, {language:?}, {:?}", String::from_utf8_lossy(&text));
            let last = facts.definitions.iter().map(|row| row.2).chain(facts.imports.iter().map(|row| row.2)).max();
            assert!(u64::from(last.unwrap_or(1)) <= want.max(1), "seed {seed}, {language:?}: a line beyond the end");
        }
    }
}
