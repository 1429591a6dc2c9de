//! A TOML document as a flat list of nodes that borrow its text.
//! It does not know what a task file is.
#![forbid(unsafe_code)]

use super::faults::Faults;
use super::plain;
use std::borrow::Cow;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// No node.
const NONE: u32 = u32::MAX;

/// A document: its tables and values, each once.
#[derive(Debug)]
pub(super) struct Document<'t> {
    nodes: Vec<Node<'t>>,
}

/// A key and its value, or an element of an array.
#[derive(Debug)]
pub(super) struct Node<'t> {
    /// Empty for an element.
    pub(super) key: Cow<'t, str>,
    /// Where the key begins.
    pub(super) key_at: usize,
    /// Where the value begins.
    pub(super) at: usize,
    pub(super) value: Value<'t>,
    /// The next of the same table or array.
    next: u32,
}

#[derive(Debug)]
pub(super) enum Value<'t> {
    Text(Cow<'t, str>),
    /// Digits without underscores, and their base.
    Whole(Cow<'t, str>, u32),
    Real(Cow<'t, str>),
    Truth(bool),
    /// A date, a time, or both: nothing that a task file has any use for.
    Moment,
    Array(List),
    Table(List),
}

/// The children of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    first: u32,
    last: u32,
    pub(super) count: u32,
}

impl List {
    pub(super) const EMPTY: List = List { first: NONE, last: NONE, count: 0 };
}

impl<'t> Document<'t> {
    /// The table that holds all others.
    pub(super) const ROOT: u32 = 0;

    /// An empty one.
    pub(super) fn new() -> Self {
        let root = Node { key: Cow::Borrowed(""), key_at: 0, at: 0, value: Value::Table(List::EMPTY), next: NONE };
        Self { nodes: vec![root] }
    }

    /// Reads a text. What is wrong is in `faults`; what is returned then is incomplete.
    pub(super) fn read(text: &'t str, faults: &Faults<'_>) -> Self {
        plain::read(text).unwrap_or_else(|| Self::read_any(text, faults))
    }

    /// As [`read`](Self::read), whatever the text has in it.
    pub(super) fn read_any(text: &'t str, faults: &Faults<'_>) -> Self {
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let message = error.message().replace('\n', ", ");
            faults.add(error.span().map_or(0, |span| span.start), None, message);
        }
        let mut document = Self::new();
        if errors.is_empty() {
            document.add_table(Self::ROOT, table.into_inner());
        }
        document
    }

    fn add_table(&mut self, parent: u32, table: DeTable<'t>) {
        let mut entries: Vec<_> = table.into_iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let key_at = key.span().start;
            self.add(parent, key.into_inner(), key_at, value);
        }
    }

    fn add(&mut self, parent: u32, key: Cow<'t, str>, key_at: usize, value: Spanned<DeValue<'t>>) {
        let at = value.span().start;
        let flat = match value.get_ref() {
            DeValue::Boolean(truth) => Value::Truth(*truth),
            DeValue::Integer(number) => Value::Whole(Cow::Owned(number.as_str().to_owned()), number.radix()),
            DeValue::Float(number) => Value::Real(Cow::Owned(number.as_str().to_owned())),
            DeValue::Datetime(_) => Value::Moment,
            DeValue::String(_) => Value::Text(Cow::Borrowed("")),
            DeValue::Array(_) => Value::Array(List::EMPTY),
            DeValue::Table(_) => Value::Table(List::EMPTY),
        };
        let node = self.push(parent, key, key_at, at, flat);
        match value.into_inner() {
            DeValue::String(text) => self.nodes[node as usize].value = Value::Text(text),
            DeValue::Array(elements) => {
                for element in elements {
                    self.add(node, Cow::Borrowed(""), at, element);
                }
            }
            DeValue::Table(table) => self.add_table(node, table),
            _ => {}
        }
    }

    /// Adds a node to a table or an array, at its end.
    pub(super) fn push(&mut self, parent: u32, key: Cow<'t, str>, key_at: usize, at: usize, value: Value<'t>) -> u32 {
        let new = self.nodes.len() as u32;
        self.nodes.push(Node { key, key_at, at, value, next: NONE });
        let (Value::Table(list) | Value::Array(list)) = &mut self.nodes[parent as usize].value else { return new };
        list.count += 1;
        let last = std::mem::replace(&mut list.last, new);
        match last {
            NONE => list.first = new,
            last => self.nodes[last as usize].next = new,
        }
        new
    }

    pub(super) fn node(&self, at: u32) -> &Node<'t> {
        &self.nodes[at as usize]
    }

    /// The children of a table or array, in the order of the text, and their numbers.
    pub(super) fn children(&self, list: List) -> impl Iterator<Item = (u32, &Node<'t>)> {
        let some = |at: u32| (at != NONE).then(|| (at, self.node(at)));
        std::iter::successors(some(list.first), move |(_, node)| some(node.next))
    }

    /// The table that a node is.
    pub(super) fn table(&self, at: u32) -> Option<List> {
        match self.node(at).value {
            Value::Table(list) => Some(list),
            _ => None,
        }
    }
}
