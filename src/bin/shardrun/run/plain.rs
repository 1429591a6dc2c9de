//! Reads a plain TOML text in one pass: most task files are nothing else, and long ones are made by programs.
//! It does not know what is wrong with a text: whatever it does not understand at once it leaves to the reader of any TOML.
//!
//! It understands tables by headers, simple keys, texts with the usual escapes, whole numbers, truth values, arrays and inline
//! tables on one line. What it accepts means the same to the other reader; the tests compare the two.
#![forbid(unsafe_code)]

use super::document::{Document, List, Value};
use ahash::AHashMap;
use std::borrow::Cow;

/// Tables with more keys are searched by a hash.
const NARROW: u32 = 12;
/// Arrays and inline tables within one another.
const DEPTH_MAX: u32 = 8;

/// The document, if the text is plain and has no fault.
pub(super) fn read(text: &str) -> Option<Document<'_>> {
    let (document, wide) = (Document::new(), AHashMap::new());
    let mut reader = Reader { text, bytes: text.as_bytes(), at: 0, document, wide, headed: vec![Document::ROOT] };
    reader.read()?;
    Some(reader.document)
}

struct Reader<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    document: Document<'t>,
    /// The keys of wide tables.
    wide: AHashMap<(u32, &'t str), u32>,
    /// The tables that headers have made, in order. Others are closed once they are read.
    headed: Vec<u32>,
}

impl<'t> Reader<'t> {
    fn read(&mut self) -> Option<()> {
        let mut table = Document::ROOT;
        loop {
            self.blank();
            match self.peek() {
                None => return Some(()),
                Some(b'[') => table = self.header()?,
                Some(b'#' | b'\n' | b'\r') => {}
                Some(_) => self.entry(table, DEPTH_MAX)?,
            }
            self.line_end()?;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Takes this byte, if it is the next.
    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek() == Some(byte)).then(|| self.at += 1)
    }

    fn blank(&mut self) {
        while let Some(b' ' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// The rest of a line: blanks, a comment perhaps, and its end or that of the text.
    fn line_end(&mut self) -> Option<()> {
        self.blank();
        if self.peek() == Some(b'#') {
            while let Some(byte) = self.peek().filter(|byte| !matches!(byte, b'\n' | b'\r')) {
                is_printed(byte).then_some(())?;
                self.at += 1;
            }
        }
        match self.peek() {
            None => Some(()),
            Some(b'\r') => {
                self.at += 1;
                self.take(b'\n')
            }
            Some(_) => self.take(b'\n'),
        }
    }

    /// `[a.b.c]`: the table of that name, which must be new; those that it is in are made if they are not there.
    fn header(&mut self) -> Option<u32> {
        let begin = self.at;
        self.at += 1;
        let mut parent = Document::ROOT;
        loop {
            self.blank();
            let (key, key_at) = self.key()?;
            self.blank();
            let found = self.find(parent, key);
            let is_last = self.take(b'.').is_none();
            parent = match found {
                // Said twice, or its inner tables before it.
                Some(_) if is_last => return None,
                Some(table) => self.headed.binary_search(&table).ok().map(|_| table)?,
                None => {
                    let at = if is_last { begin } else { key_at };
                    let table = self.push(parent, key, key_at, at, Value::Table(List::EMPTY));
                    self.headed.push(table);
                    table
                }
            };
            if is_last {
                self.take(b']')?;
                return Some(parent);
            }
        }
    }

    /// `key = value`, as a new entry of a table.
    fn entry(&mut self, table: u32, depth: u32) -> Option<()> {
        let (key, key_at) = self.key()?;
        self.blank();
        self.take(b'=')?;
        self.blank();
        if self.find(table, key).is_some() {
            return None;
        }
        self.value(table, key, key_at, depth)
    }

    fn key(&mut self) -> Option<(&'t str, usize)> {
        let begin = self.at;
        match self.peek()? {
            quote @ (b'"' | b'\'') => {
                self.at += 1;
                let end = self.plain_end(quote)?;
                let key = self.text.get(begin + 1..end)?;
                self.at = end + 1;
                Some((key, begin))
            }
            _ => {
                while let Some(b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-') = self.peek() {
                    self.at += 1;
                }
                let key = self.text.get(begin..self.at).filter(|key| !key.is_empty())?;
                Some((key, begin))
            }
        }
    }

    /// Where the quote stands that ends a text of one line without escapes.
    fn plain_end(&self, quote: u8) -> Option<usize> {
        let rest = &self.bytes[self.at..];
        let end =
            rest.iter().position(|byte| *byte == quote || !is_printed(*byte) || *byte == b'\\' && quote == b'"')?;
        (rest[end] == quote).then_some(self.at + end)
    }

    fn value(&mut self, parent: u32, key: &'t str, key_at: usize, depth: u32) -> Option<()> {
        let at = self.at;
        let value = match self.peek()? {
            quote @ (b'"' | b'\'') => Value::Text(self.string(quote)?),
            b'0'..=b'9' => Value::Whole(Cow::Borrowed(self.whole()?), 10),
            b't' => self.word("true", true)?,
            b'f' => self.word("false", false)?,
            b'[' => {
                let array = self.push(parent, key, key_at, at, Value::Array(List::EMPTY));
                return self.array(array, depth.checked_sub(1)?);
            }
            b'{' => {
                let table = self.push(parent, key, key_at, at, Value::Table(List::EMPTY));
                return self.inline(table, depth.checked_sub(1)?);
            }
            _ => return None,
        };
        self.push(parent, key, key_at, at, value);
        Some(())
    }

    fn string(&mut self, quote: u8) -> Option<Cow<'t, str>> {
        if self.bytes[self.at..].starts_with(&[quote; 3]) {
            return self.block(quote).map(Cow::Borrowed);
        }
        self.at += 1;
        let begin = self.at;
        match self.plain_end(quote) {
            Some(end) => {
                self.at = end + 1;
                self.text.get(begin..end).map(Cow::Borrowed)
            }
            None if quote == b'"' => self.escaped().map(Cow::Owned),
            None => None,
        }
    }

    /// The rest of a text of one line in double quotes, with escapes.
    fn escaped(&mut self) -> Option<String> {
        let mut text = String::new();
        loop {
            let rest = self.text.get(self.at..)?;
            let stop = rest.bytes().position(|byte| matches!(byte, b'"' | b'\\') || !is_printed(byte))?;
            text.push_str(&rest[..stop]);
            self.at += stop + 1;
            match rest.as_bytes()[stop] {
                b'"' => return Some(text),
                b'\\' => text.push(match self.peek()? {
                    byte @ (b'"' | b'\\') => char::from(byte),
                    b'n' => '\n',
                    b't' => '\t',
                    _ => return None,
                }),
                _ => return None,
            }
            self.at += 1;
        }
    }

    /// A text of several lines, without escapes.
    fn block(&mut self, quote: u8) -> Option<&'t str> {
        self.at += 3;
        if self.take(b'\n').is_none() && self.take(b'\r').is_some() {
            self.take(b'\n')?;
        }
        let begin = self.at;
        loop {
            match self.peek()? {
                byte if byte == quote => {
                    let quotes = self.bytes[self.at..].iter().take_while(|byte| **byte == quote).count();
                    let end = self.at;
                    self.at += quotes;
                    match quotes {
                        1 | 2 => {}
                        3 => return self.text.get(begin..end),
                        _ => return None,
                    }
                }
                b'\\' if quote == b'"' => return None,
                byte if byte == b'\n' || is_printed(byte) => self.at += 1,
                _ => return None,
            }
        }
    }

    fn whole(&mut self) -> Option<&'t str> {
        let begin = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        self.is_end_of_value().then_some(())?;
        let digits = self.text.get(begin..self.at)?;
        // Others are faults, or too large for some readers.
        (digits == "0" || (!digits.starts_with('0') && digits.len() <= 18)).then_some(digits)
    }

    fn word(&mut self, word: &str, truth: bool) -> Option<Value<'t>> {
        self.bytes[self.at..].starts_with(word.as_bytes()).then(|| self.at += word.len())?;
        self.is_end_of_value().then_some(Value::Truth(truth))
    }

    fn is_end_of_value(&self) -> bool {
        matches!(self.peek(), None | Some(b' ' | b'\t' | b'\n' | b'\r' | b'#' | b',' | b']' | b'}'))
    }

    fn array(&mut self, array: u32, depth: u32) -> Option<()> {
        let begin = self.at;
        self.at += 1;
        loop {
            self.blank_lines()?;
            if self.take(b']').is_some() {
                return Some(());
            }
            self.value(array, "", begin, depth)?;
            self.blank_lines()?;
            if self.take(b',').is_none() {
                return self.take(b']');
            }
        }
    }

    /// Blanks, ends of lines, and comments.
    fn blank_lines(&mut self) -> Option<()> {
        loop {
            self.blank();
            match self.peek()? {
                b'\n' | b'\r' | b'#' => self.line_end()?,
                _ => return Some(()),
            }
        }
    }

    fn inline(&mut self, table: u32, depth: u32) -> Option<()> {
        self.at += 1;
        self.blank();
        if self.take(b'}').is_some() {
            return Some(());
        }
        loop {
            self.entry(table, depth)?;
            self.blank();
            if self.take(b',').is_none() {
                return self.take(b'}');
            }
            self.blank();
        }
    }

    fn find(&self, table: u32, key: &'t str) -> Option<u32> {
        let list = self.document.table(table)?;
        if list.count > NARROW {
            return self.wide.get(&(table, key)).copied();
        }
        self.document.children(list).find(|(_, node)| node.key == key).map(|(at, _)| at)
    }

    fn push(&mut self, parent: u32, key: &'t str, key_at: usize, at: usize, value: Value<'t>) -> u32 {
        let new = self.document.push(parent, Cow::Borrowed(key), key_at, at, value);
        let Some(list) = self.document.table(parent) else { return new };
        if list.count == NARROW + 1 {
            for (at, node) in self.document.children(list) {
                if let Cow::Borrowed(key) = node.key {
                    self.wide.insert((parent, key), at);
                }
            }
        } else if list.count > NARROW {
            self.wide.insert((parent, key), new);
        }
        new
    }
}

/// Whether the byte may stand in a text of one line.
fn is_printed(byte: u8) -> bool {
    (byte >= b' ' && byte != 0x7f) || byte == b'\t'
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::faults::Faults;

    /// From the first whole line on they are lines.
    const PIECES: [&str; 52] = [
        "[",
        "]",
        "[a]",
        "[a.b]",
        "[c]",
        "['c d']",
        ".",
        "=",
        "\n",
        "\n",
        "\n",
        "\r\n",
        " ",
        "\t",
        "#x",
        "a",
        "b",
        "c",
        "\"",
        "'",
        "\"\"\"",
        "'''",
        "\\n",
        "\\",
        "{",
        "}",
        ",",
        "1",
        "0",
        "23",
        "true",
        "false",
        "a = 1\n",
        "b = 'x'\n",
        "c = [1, 'y']\n",
        "d = { a = 1 }\n",
        "e = \"z\\\"\"\n",
        "\u{e9}",
        "\u{7f}",
        "k1=1\n",
        "k2=1\n",
        "k3=1\n",
        "k4=1\n",
        "k5=1\n",
        "k6=1\n",
        "k7=1\n",
        "k8=1\n",
        "k9=1\n",
        "_=1\n",
        "-=1\n",
        "1.5",
        "- ",
    ];

    /// A document as text, with where everything stands.
    fn dump(document: &Document<'_>, at: u32, into: &mut String) {
        let node = document.node(at);
        *into += &format!("{}@{}:{}=", node.key, node.key_at, node.at);
        match &node.value {
            Value::Array(list) | Value::Table(list) => {
                *into += if matches!(node.value, Value::Array(_)) { "[" } else { "{" };
                document.children(*list).for_each(|(at, _)| dump(document, at, into));
                *into += "}";
            }
            value => *into += &format!("{value:?},"),
        }
    }

    fn dumped(document: &Document<'_>) -> String {
        let mut text = String::new();
        dump(document, Document::ROOT, &mut text);
        text
    }

    /// Whether the text is plain. If it is, the reader of any TOML must find no fault in it and read the same.
    fn is_plain(text: &str) -> bool {
        let Some(document) = read(text) else { return false };
        let faults = Faults::new("file", text);
        let any = Document::read_any(text, &faults);
        assert!(faults.are_none(), "{text:?}: {:?}", faults.lines());
        assert_eq!(dumped(&document), dumped(&any), "{text:?}");
        true
    }

    #[test]
    fn what_task_files_say_is_plain() {
        let plain = [
            "",
            "# only a comment",
            "concurrency = 4\r\ncontinue = 'never' # so\r\n",
            "[tasks.a]\ncommand = \"echo \\\"x\\\" \\\\ \\t\\n\"\n[tasks . 'b c']\ncommand = ['a', \"b\",\n # more\n 'c',\n]\n",
            "[tasks.a]\nretries = { times = 3, wait = '1s' }\npersistent = true\n[tasks.a.resources]\ngpu = 0\n[tasks.b]\nexclusive=false",
            "x = '''\nfirst\n'second' ''third''\n'''\ny = \"\"\"a\"b\"\"c\"\"\"\nz = \"\"\n",
            "a = { b = { c = [ { } , [ ] ] } }",
            "[a]\n[a.b]\n[a.b.c]\n[a.d]\n",
        ];
        plain.into_iter().for_each(|text| assert!(is_plain(text), "{text:?}"));
        let many: String = (0..40).map(|at| format!("k{at} = {at}\n")).collect();
        assert!(is_plain(&many) && !is_plain(&format!("{many}k7 = 1\n")) && !is_plain(&format!("{many}k39 = 1\n")));
    }

    #[test]
    fn what_is_not_plain_is_left_to_the_other_reader() {
        let other = [
            "a = 1\na = 2",
            "[a]\n[a]",
            "[a.b]\n[a]",
            "a.b = 1",
            "a = 1.5",
            "a = 01",
            "a = 1979-05-27",
            "[[a]]",
            "a = { b = 1, }",
            "a = { b = 1, b = 2 }",
            "a = {\nb = 1 }",
            "a = \"\\u00e9\"",
            "a = 'x",
            "a = '''x''''",
            "a = \"x\ny\"",
            "a = 1 b = 2",
            "# \u{1}",
            "a = 'x\u{7f}'",
            "a\r= 1",
            "a = { b = 1 }\n[a.c]",
            "a = 1\n[a.c]",
            "= 1",
            "[]",
            "[a.]",
            "a = tru",
            "a = truest",
        ];
        other.into_iter().for_each(|text| assert!(!is_plain(text), "{text:?}"));
    }

    #[test]
    fn random_texts_mean_the_same_to_both_readers() {
        let seed = 0x5eed_u64;
        println!("seed {seed}");
        let mut state = seed;
        let mut below = |bound: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % bound
        };
        let mut plain = 0;
        for _ in 0..40_000 {
            let count = 1 + below(24);
            let lines = below(3) > 0;
            let text: String = (0..count)
                .map(|_| PIECES[if lines { 30 + below(PIECES.len() - 30) } else { below(PIECES.len()) }])
                .collect();
            plain += usize::from(is_plain(&text));
        }
        println!("{plain} of them are plain");
        assert!(plain > 1_000);
    }
}
