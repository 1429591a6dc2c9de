//! The graphs that `DotWriter` writes are valid DOT whatever the names hold. These tests do not know what the nodes are.

use shardrun::DotWriter;

#[test]
fn nodes_edges_and_attributes() {
    let mut dot = DotWriter::new(Vec::new(), "g").unwrap();
    dot.attribute("rankdir", "LR").unwrap();
    dot.node("a", &[]).unwrap();
    dot.node("b", &[("label", "B"), ("shape", "box")]).unwrap();
    dot.edge("a", "b", &[("color", "red")]).unwrap();
    dot.edge("b", "a", &[]).unwrap();
    let text = String::from_utf8(dot.finish().unwrap()).unwrap();
    assert_eq!(
        text,
        "digraph \"g\" {\n  \"rankdir\"=\"LR\";\n  \"a\";\n  \"b\" [\"label\"=\"B\", \"shape\"=\"box\"];\n  \"a\" -> \"b\" [\"color\"=\"red\"];\n  \"b\" -> \"a\";\n}\n"
    );
}

/// Reads the strings of a line of DOT back, as Graphviz does: only `\"` is an escape of its own.
fn strings(line: &str) -> Vec<String> {
    let (mut found, mut current, mut inside) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match (inside, c) {
            (true, '\\') => match chars.next().unwrap() {
                'n' => current.push('\n'),
                other => current.push(other),
            },
            (true, '"') => {
                found.push(std::mem::take(&mut current));
                inside = false;
            }
            (true, c) => current.push(c),
            (false, '"') => inside = true,
            (false, _) => {}
        }
    }
    assert!(!inside, "a string is left open in {line:?}");
    found
}

#[test]
fn no_name_breaks_out_of_its_string() {
    for name in ["a\" -> \"b", "\\", "\\\"", "a\\", "x\ny", "];", "é \u{202e}", "", "\"", "{}[]<>|", "\\n"] {
        let mut dot = DotWriter::new(Vec::new(), "g").unwrap();
        dot.edge(name, name, &[(name, name)]).unwrap();
        let text = String::from_utf8(dot.finish().unwrap()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "one statement is one line: {text:?}");
        assert_eq!(strings(lines[1]), [name; 4]);
    }
}
