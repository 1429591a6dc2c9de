//! The names of a plan's tasks in one piece of text, and an index to find a task by name.
//! It does not know what a task is.
#![forbid(unsafe_code)]

use ahash::RandomState;

/// No task stands in this place of the index.
const EMPTY: u32 = u32::MAX;

/// Names by dense number; an empty name is no name, and is not found.
#[derive(Debug)]
pub(crate) struct Names {
    text: String,
    ends: Vec<u32>,
    index: Box<[u32]>,
    hasher: RandomState,
}

impl Names {
    pub(crate) fn new() -> Self {
        Self { text: String::new(), ends: Vec::new(), index: Box::default(), hasher: RandomState::new() }
    }

    /// Appends a name. False if all names together are longer than offsets of 32 bits can say.
    pub(crate) fn push(&mut self, name: &str) -> bool {
        self.text.push_str(name);
        match u32::try_from(self.text.len()) {
            Ok(end) => {
                self.ends.push(end);
                true
            }
            Err(_) => false,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, id: u32) -> &str {
        let id = id as usize;
        let start = if id == 0 { 0 } else { self.ends[id - 1] as usize };
        &self.text[start..self.ends[id] as usize]
    }

    /// Builds the index, once all names are in. The number of a task whose name another bears, if there is one.
    pub(crate) fn seal(&mut self) -> Result<(), u32> {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
        if self.text.is_empty() {
            return Ok(());
        }
        let mut index = vec![EMPTY; (self.len() * 2).next_power_of_two()].into_boxed_slice();
        for id in 0..self.len() as u32 {
            let name = self.get(id);
            if name.is_empty() {
                continue;
            }
            let (place, found) = self.probe(&index, name);
            if found.is_some() {
                return Err(id);
            }
            index[place] = id;
        }
        self.index = index;
        Ok(())
    }

    /// The task of this name.
    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        if name.is_empty() || self.index.is_empty() { None } else { self.probe(&self.index, name).1 }
    }

    /// Where the name stands or would stand: there is always an empty place, since at most half are taken.
    fn probe(&self, index: &[u32], name: &str) -> (usize, Option<u32>) {
        let mask = index.len() - 1;
        let mut place = self.hasher.hash_one(name) as usize & mask;
        loop {
            match index[place] {
                EMPTY => return (place, None),
                id if self.get(id) == name => return (place, Some(id)),
                _ => place = (place + 1) & mask,
            }
        }
    }
}
