//! Cohorts: tasks that wait for the same long list of others are counted once, by the first of them, and are ready together.
//! It does not know who counts. A graph in which no two long lists are alike has none, and is walked edge by edge.
#![forbid(unsafe_code)]

use super::edges::Lists;
use ahash::AHashMap;

/// Dependencies from which on it is worth looking whether another task has the same.
const LONG_MIN: u32 = 8;

#[derive(Debug)]
pub(crate) struct Cohorts {
    /// Of each task, who waits for it, but of those with one list only the first.
    counted: Lists,
    /// Of each first one, the others with its list.
    behind: Lists,
}

impl Cohorts {
    /// Of a graph, if it has any.
    pub(crate) fn of(deps: &Lists, dependents: &Lists) -> Option<Self> {
        let mut firsts: AHashMap<&[u32], u32> = AHashMap::new();
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        let long = deps.counts().enumerate().filter(|(_, count)| *count >= LONG_MIN);
        for task in long.map(|(task, _)| task as u32) {
            let first = *firsts.entry(deps.of(task)).or_insert(task);
            if first != task {
                pairs.push((first, task));
            }
        }
        if pairs.is_empty() {
            return None;
        }
        let mut is_behind = vec![false; deps.len()];
        pairs.iter().for_each(|(_, task)| is_behind[*task as usize] = true);
        let counted = dependents.filtered(|task| !is_behind[task as usize]);
        // Stable, so that each list stays in order of insertion.
        pairs.sort_by_key(|(first, _)| *first);
        Some(Self { counted, behind: Lists::of_pairs(deps.len(), &pairs) })
    }

    /// Who is to be counted down when this task is over.
    #[inline]
    pub(crate) fn counted(&self, task: u32) -> &[u32] {
        self.counted.of(task)
    }

    /// Who is ready together with this task.
    #[inline]
    pub(crate) fn behind(&self, first: u32) -> &[u32] {
        self.behind.of(first)
    }
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use super::Cohorts;
    use crate::graph::edges::Lists;

    #[test]
    fn tasks_with_one_long_list_are_counted_once() {
        // Eight tasks; three after all of them, one after all in another order, one after seven; the last after two of those.
        let lists: [&[u32]; 6] = [
            &[0, 1, 2, 3, 4, 5, 6, 7],
            &[0, 1, 2, 3, 4, 5, 6, 7],
            &[7, 0, 1, 2, 3, 4, 5, 6],
            &[0, 1, 2, 3, 4, 5, 6],
            &[0, 1, 2, 3, 4, 5, 6, 7],
            &[8, 9],
        ];
        let (mut items, mut begins) = (Vec::new(), vec![0; 8]);
        for list in lists {
            begins.push(items.len());
            items.extend(list);
        }
        let deps = Lists::distinct(&items, &begins, &[]).unwrap();
        let cohorts = Cohorts::of(&deps, &deps.reversed()).unwrap();
        assert_eq!(cohorts.counted(0), [8, 10, 11]);
        assert_eq!(cohorts.counted(7), [8, 10]);
        assert_eq!((cohorts.counted(8), cohorts.counted(9)), (&[13][..], &[13][..]));
        assert_eq!(cohorts.behind(8), [9, 12]);
        assert!(cohorts.behind(10).is_empty() && cohorts.behind(0).is_empty());
        assert!(Cohorts::of(&Lists::default(), &Lists::default()).is_none());
    }
}
