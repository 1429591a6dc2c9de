//! Writes directed graphs in DOT, the language of Graphviz.
//! It does not know what the nodes are.
#![forbid(unsafe_code)]

use super::escape::Dot;
use std::io::{self, Write};

/// Writes a directed graph statement by statement, so that a large graph needs no memory.
///
/// Names and values are quoted and escaped, whatever they hold: an `a -> "b"` in a name stays a name. Wrap the output in a
/// [`std::io::BufWriter`], and call [`finish`](Self::finish) at the end.
///
/// ```
/// let mut dot = shardrun::DotWriter::new(Vec::new(), "imports")?;
/// dot.node("a", &[("shape", "box")])?;
/// dot.edge("a", "b \"c\"", &[])?;
/// let text = String::from_utf8(dot.finish()?).unwrap();
/// assert_eq!(text, "digraph \"imports\" {\n  \"a\" [\"shape\"=\"box\"];\n  \"a\" -> \"b \\\"c\\\"\";\n}\n");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct DotWriter<W: Write> {
    out: W,
}

impl<W: Write> DotWriter<W> {
    /// Begins a graph.
    ///
    /// # Errors
    /// What the output says.
    pub fn new(mut out: W, name: &str) -> io::Result<Self> {
        writeln!(out, "digraph {} {{", Dot(name))?;
        Ok(DotWriter { out })
    }

    /// An attribute of the whole graph, such as `rankdir`.
    ///
    /// # Errors
    /// What the output says.
    pub fn attribute(&mut self, name: &str, value: &str) -> io::Result<()> {
        writeln!(self.out, "  {}={};", Dot(name), Dot(value))
    }

    /// A node. One that only edges name need not be written.
    ///
    /// # Errors
    /// What the output says.
    pub fn node(&mut self, node: &str, attributes: &[(&str, &str)]) -> io::Result<()> {
        write!(self.out, "  {}", Dot(node))?;
        self.end(attributes)
    }

    /// An edge from one node to another.
    ///
    /// # Errors
    /// What the output says.
    pub fn edge(&mut self, from: &str, to: &str, attributes: &[(&str, &str)]) -> io::Result<()> {
        write!(self.out, "  {} -> {}", Dot(from), Dot(to))?;
        self.end(attributes)
    }

    fn end(&mut self, attributes: &[(&str, &str)]) -> io::Result<()> {
        for (at, (name, value)) in attributes.iter().enumerate() {
            let before = if at == 0 { " [" } else { ", " };
            write!(self.out, "{before}{}={}", Dot(name), Dot(value))?;
        }
        self.out.write_all(if attributes.is_empty() { b";\n" } else { b"];\n" })
    }

    /// Ends the graph, flushes, and gives the output back.
    ///
    /// # Errors
    /// What the output says.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(b"}\n")?;
        self.out.flush()?;
        Ok(self.out)
    }
}
