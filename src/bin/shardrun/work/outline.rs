//! The Artifact profile *outline*: one file as one line of JSON.
//! It does not know where the line goes.
#![forbid(unsafe_code)]

use super::analysis::Analysis;
use super::json;
use super::resolve::{Tree, Verdict};
use super::source::Source;
use std::fmt::Write;

/// One JSON object on one line, with its line end: `path`, `language`, `bytes`, `hash` (blake3, hexadecimal), `lines` (`code`,
/// `comment`, `blank`), `definitions` (`name`, `kind`, `line`), `imports` (`text`, `kind`, `line`, `verdict`, `files`).
pub(crate) fn outline(tree: &Tree, number: u32, source: &Source, analysis: &Analysis) -> String {
    let facts = &source.facts;
    let mut out = String::with_capacity(256 + 64 * (facts.definitions.len() + facts.imports.len()));
    out.push_str("{\"path\":");
    json::string(&mut out, tree.path(number).as_bytes());
    let lines = analysis.lines;
    let _ = write!(out, ",\"language\":\"{}\",\"bytes\":{},\"hash\":\"", source.language.name(), source.bytes);
    json::hex(&mut out, &source.hash);
    let _ = write!(
        out,
        "\",\"lines\":{{\"code\":{},\"comment\":{},\"blank\":{}}},\"definitions\":[",
        lines.code, lines.comment, lines.blank
    );
    for (at, (name, kind, line)) in facts.definitions.iter().enumerate() {
        out.push_str(if at == 0 { "{\"name\":" } else { ",{\"name\":" });
        json::string(&mut out, name);
        let _ = write!(out, ",\"kind\":\"{}\",\"line\":{line}}}", kind.word());
    }
    out.push_str("],\"imports\":[");
    for (at, ((text, kind, line), (verdict, files))) in facts.imports.iter().zip(analysis.outcomes()).enumerate() {
        out.push_str(if at == 0 { "{\"text\":" } else { ",{\"text\":" });
        json::string(&mut out, text);
        let _ =
            write!(out, ",\"kind\":\"{}\",\"line\":{line},\"verdict\":\"{}\",\"files\":[", kind.word(), word(verdict));
        for (at, &file) in files.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            json::string(&mut out, tree.path(file).as_bytes());
        }
        out.push_str("]}");
    }
    out.push_str("]}\n");
    out
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Found => "found",
        Verdict::External => "external",
        Verdict::Missing => "missing",
        Verdict::Ambiguous => "ambiguous",
    }
}
