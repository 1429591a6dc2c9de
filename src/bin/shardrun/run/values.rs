//! Values of a task file, read as what they should be; what is something else is a fault with its line.
//! It does not know which keys there are.
#![forbid(unsafe_code)]

use super::document::{Document, List, Node, Value};
use super::faults::Faults;
use smallvec::SmallVec;
use std::time::Duration;

/// The longest time that can be asked for.
const SECONDS_MAX: f64 = 1e9;

/// A text of the file, and the byte at which it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Named<'a> {
    pub(super) name: &'a str,
    pub(super) at: usize,
}

/// A table whose keys are taken out one by one.
pub(super) struct Section<'a> {
    faults: &'a Faults<'a>,
    task: Option<&'a str>,
    fields: SmallVec<[Field<'a>; 8]>,
}

/// A key and its value.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    faults: &'a Faults<'a>,
    document: &'a Document<'a>,
    task: Option<&'a str>,
    pub(super) key: &'a str,
    pub(super) key_at: usize,
    pub(super) at: usize,
    value: &'a Value<'a>,
}

impl<'a> Section<'a> {
    /// The whole document.
    pub(super) fn root(document: &'a Document<'a>, faults: &'a Faults<'a>) -> Self {
        let list = document.table(Document::ROOT).unwrap_or(List::EMPTY);
        Self::new(document, faults, None, list)
    }

    /// A table, in the words on this task if it is one's.
    fn new(document: &'a Document<'a>, faults: &'a Faults<'a>, task: Option<&'a str>, list: List) -> Self {
        let field = |(_, node): (u32, &'a Node<'a>)| {
            let (key, key_at, at, value) = (&*node.key, node.key_at, node.at, &node.value);
            Field { faults, document, task, key, key_at, at, value }
        };
        Self { faults, task, fields: document.children(list).map(field).collect() }
    }

    /// The field of this key, which then counts as known.
    pub(super) fn take(&mut self, key: &str) -> Option<Field<'a>> {
        let at = self.fields.iter().position(|field| field.key == key)?;
        Some(self.fields.remove(at))
    }

    /// All fields in the order of the file.
    pub(super) fn all(self) -> impl Iterator<Item = Field<'a>> {
        self.fields.into_iter()
    }

    /// What is left is unknown.
    pub(super) fn finish(self, known: &[&str]) {
        for field in &self.fields {
            let hint = self.faults.suggestion(field.key, known.iter().copied());
            self.faults.add(field.key_at, self.task, format!("unknown key `{}`{hint}", field.key));
        }
    }
}

impl<'a> Field<'a> {
    /// Says what is wrong with it.
    pub(super) fn wrong<T>(&self, what: &str) -> Option<T> {
        self.faults.add(self.at, self.task, format!("`{}` {what}", self.key));
        None
    }

    pub(super) fn is_table(&self) -> bool {
        matches!(self.value, Value::Table(_))
    }

    pub(super) fn as_text(&self) -> Option<&'a str> {
        match self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn is_string(&self) -> bool {
        matches!(self.value, Value::Text(_))
    }

    pub(super) fn is_true(&self) -> bool {
        matches!(self.value, Value::Truth(true))
    }

    pub(super) fn is_false(&self) -> bool {
        matches!(self.value, Value::Truth(false))
    }

    pub(super) fn string(&self) -> Option<Named<'a>> {
        match self.value {
            Value::Text(text) if text.contains('\0') => self.wrong("must not contain a zero byte"),
            Value::Text(text) => Some(Named { name: text, at: self.at }),
            _ => self.wrong("must be a string"),
        }
    }

    /// One string, or an array of them.
    pub(super) fn strings(&self) -> Option<Vec<Named<'a>>> {
        match self.value {
            Value::Text(_) => self.string().map(|one| vec![one]),
            Value::Array(list) => {
                let strings = self.document.children(*list).map(|(_, node)| {
                    let element = Field { at: node.at, value: &node.value, ..*self };
                    match node.value {
                        Value::Text(_) => element.string(),
                        _ => element.wrong("must hold strings only"),
                    }
                });
                strings.collect()
            }
            _ => self.wrong("must be a string or an array of strings"),
        }
    }

    pub(super) fn bool(&self) -> Option<bool> {
        match self.value {
            Value::Truth(value) => Some(*value),
            _ => self.wrong("must be true or false"),
        }
    }

    /// A whole number of at least `least`.
    pub(super) fn count(&self, least: u32) -> Option<u32> {
        match self.whole().and_then(|number| u32::try_from(number).ok()).filter(|number| *number >= least) {
            Some(number) => Some(number),
            None => self.wrong(&format!("must be a whole number of at least {least}")),
        }
    }

    fn whole(&self) -> Option<u64> {
        match self.value {
            Value::Whole(digits, base) => u64::from_str_radix(digits, *base).ok(),
            _ => None,
        }
    }

    /// A span of time: seconds as a number, or a text such as `500ms`, `1.5s`, `2m`, `1h`.
    pub(super) fn duration(&self) -> Option<Duration> {
        let seconds = match self.value {
            Value::Whole(..) => self.whole().map(|whole| whole as f64),
            Value::Real(number) => number.parse().ok(),
            Value::Text(text) => seconds(text),
            _ => None,
        };
        match seconds.filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds)) {
            Some(seconds) => Some(Duration::from_secs_f64(seconds)),
            None => {
                self.wrong("must be a time: seconds as a number, or a text such as \"500ms\", \"30s\", \"2m\", \"1h\"")
            }
        }
    }

    /// As [`duration`](Self::duration), and not zero.
    pub(super) fn some_time(&self) -> Option<Duration> {
        self.duration()
            .and_then(|time| if time.is_zero() { self.wrong("must be longer than nothing") } else { Some(time) })
    }

    /// An amount: a whole number, or a text such as `512MiB`.
    pub(super) fn amount(&self) -> Option<u64> {
        self.amount_or("must be a whole number, or a size such as \"512MiB\" or \"2GB\"")
    }

    /// The same, with other words for what is none.
    pub(super) fn amount_or(&self, what: &str) -> Option<u64> {
        let amount = match self.value {
            Value::Text(text) => bytes(text),
            _ => self.whole(),
        };
        match amount {
            Some(amount) => Some(amount),
            None => self.wrong(what),
        }
    }

    pub(super) fn section(&self) -> Option<Section<'a>> {
        match self.value {
            Value::Table(list) => Some(Section::new(self.document, self.faults, self.task, *list)),
            _ => self.wrong("must be a table"),
        }
    }

    /// The same, with what is wrong in it said of this task.
    pub(super) fn section_of(&self, task: &'a str) -> Option<Section<'a>> {
        Field { task: Some(task), ..*self }.section()
    }
}

fn seconds(text: &str) -> Option<f64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim() {
        "ms" => 0.001,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Some(number * unit)
}

fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim() {
        "" | "B" => 1,
        "kB" | "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "KiB" | "K" => 1 << 10,
        "MiB" | "M" => 1 << 20,
        "GiB" | "G" => 1 << 30,
        "TiB" | "T" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::{bytes, seconds};

    #[test]
    fn times_and_sizes_have_units() {
        assert_eq!(["500ms", "1.5s", "2m", "1 h"].map(seconds), [Some(0.5), Some(1.5), Some(120.0), Some(3600.0)]);
        assert_eq!(["", "5", "ms", "1d", "-1s", "1.2.3s"].map(seconds), [None; 6]);
        assert_eq!(["12", "2 KiB", "3MB", "1G"].map(bytes), [Some(12), Some(2048), Some(3_000_000), Some(1 << 30)]);
        assert_eq!(["", "GiB", "1.5G", "-1", "99999999999999999999", "16777216TiB"].map(bytes), [None; 6]);
    }
}
