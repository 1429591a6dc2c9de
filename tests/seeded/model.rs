//! What the random timelines know of a file: its lives, its generations, and from which texts each may have been made.

use std::collections::{HashMap, HashSet};

/// What the model knows of a file.
#[derive(Clone, Default)]
pub(crate) struct File {
    /// The last generation of each life that has ended.
    pub(crate) ended: Vec<u64>,
    pub(crate) generation: u64,
    pub(crate) overlay: Option<u64>,
    /// The texts from which each generation of each life may have been made.
    pub(crate) texts: HashMap<(usize, u64), HashSet<u64>>,
}

impl File {
    /// Which life of the file in which generation stands.
    pub(crate) fn now(&self) -> (usize, u64) {
        (self.ended.len(), self.generation)
    }

    pub(crate) fn moves_on(&mut self, overlay: Option<u64>, stored: u64) {
        self.generation += 1;
        self.overlay = overlay;
        let (life, generation) = self.now();
        self.texts.insert((life, generation), HashSet::from([overlay.unwrap_or(stored)]));
        if generation == 1 && overlay.is_none() {
            let before = self.texts.remove(&(life, 0)).unwrap_or_default();
            self.texts.entry((life, 1)).or_default().extend(before);
        }
    }

    /// Its life ends. Whether there was one.
    pub(crate) fn ends(&mut self) -> bool {
        let lived = self.generation > 0;
        if lived {
            self.ended.push(self.generation);
            (self.generation, self.overlay) = (0, None);
        }
        lived
    }

    /// The newest generation that a life had, or has.
    pub(crate) fn newest(&self, life: usize) -> u64 {
        self.ended.get(life).copied().unwrap_or(self.generation)
    }
}
