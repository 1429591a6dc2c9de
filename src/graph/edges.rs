//! The edges of a graph as lists in one piece: kept once in each direction, put in order, and searched for rings.
//! It does not know what the numbers stand for. Every walk is a loop over lists; nothing recurs.
#![forbid(unsafe_code)]

/// One list of numbers per number, all in one piece.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    starts: Box<[u32]>,
    items: Box<[u32]>,
}

/// Lists up to this length are searched for twins by comparing, longer ones with a mark per number.
const COMPARED_MAX: usize = 8;

impl Lists {
    /// Of `items`, cut at the places where lists begin, with `late` appended to the lists that they name, each number once per list, at its
    /// first place. None if there are too many for offsets of 32 bits.
    pub(crate) fn distinct(items: &[u32], begins: &[usize], late: &[(u32, u32)]) -> Option<Self> {
        let lists = begins.len();
        let mut late = late.to_vec();
        late.sort_by_key(|(list, _)| *list);
        let mut late = late.into_iter().peekable();
        let mut starts = Vec::with_capacity(lists + 1);
        let mut kept: Vec<u32> = Vec::with_capacity(items.len() + late.len());
        let mut marks: Vec<u32> = Vec::new();
        starts.push(0);
        for list in 0..lists as u32 {
            let start = kept.len();
            let end = begins.get(list as usize + 1).copied().unwrap_or(items.len());
            let own = &items[begins[list as usize]..end];
            let few = own.len() <= COMPARED_MAX;
            if !few && marks.is_empty() {
                marks = vec![u32::MAX; lists];
            }
            for &item in own {
                let twin = if few { kept[start..].contains(&item) } else { marks[item as usize] == list };
                if !twin {
                    if !few {
                        marks[item as usize] = list;
                    }
                    kept.push(item);
                }
            }
            while let Some((_, item)) = late.next_if(|(of, _)| *of == list) {
                if !kept[start..].contains(&item) {
                    kept.push(item);
                }
            }
            starts.push(u32::try_from(kept.len()).ok()?);
        }
        Some(Self { starts: starts.into(), items: kept.into() })
    }

    /// The lists of who names each number, in ascending order.
    pub(crate) fn reversed(&self) -> Self {
        let lists = self.len();
        let mut starts = vec![0u32; lists + 1];
        for &item in &self.items {
            starts[item as usize + 1] += 1;
        }
        for list in 0..lists {
            starts[list + 1] += starts[list];
        }
        let mut next = starts.clone();
        let mut items = vec![0u32; self.items.len()];
        for list in 0..lists as u32 {
            for &item in self.of(list) {
                let place = &mut next[item as usize];
                items[*place as usize] = list;
                *place += 1;
            }
        }
        Self { starts: starts.into(), items: items.into() }
    }

    /// The same lists with only those numbers that are wanted.
    pub(crate) fn filtered(&self, wanted: impl Fn(u32) -> bool) -> Self {
        let mut starts = Vec::with_capacity(self.starts.len());
        let mut items = Vec::new();
        starts.push(0);
        for list in 0..self.len() as u32 {
            items.extend(self.of(list).iter().copied().filter(|item| wanted(*item)));
            starts.push(items.len() as u32);
        }
        Self { starts: starts.into(), items: items.into() }
    }

    /// Of so many lists, each with the numbers that stand beside its own in `pairs`, which are in order of the lists.
    pub(crate) fn of_pairs(lists: usize, pairs: &[(u32, u32)]) -> Self {
        let starts = (0..=lists).map(|list| pairs.partition_point(|(of, _)| (*of as usize) < list) as u32);
        Self { starts: starts.collect(), items: pairs.iter().map(|(_, item)| *item).collect() }
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    pub(crate) fn edges(&self) -> usize {
        self.items.len()
    }

    #[inline]
    pub(crate) fn of(&self, list: u32) -> &[u32] {
        &self.items[self.starts[list as usize] as usize..self.starts[list as usize + 1] as usize]
    }

    #[inline]
    pub(crate) fn count(&self, list: u32) -> u32 {
        self.starts[list as usize + 1] - self.starts[list as usize]
    }

    /// How long each list is, in order.
    pub(crate) fn counts(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.starts.windows(2).map(|pair| pair[1] - pair[0])
    }

    /// The first number whose list holds itself.
    pub(crate) fn self_edge(&self) -> Option<u32> {
        (0..self.len() as u32).find(|list| self.of(*list).contains(list))
    }
}

/// An order in which every number comes after those in its list. If there is none, a ring: each number's list holds the
/// next, and the last is the first again.
pub(crate) fn order(deps: &Lists, dependents: &Lists) -> Result<Box<[u32]>, Vec<u32>> {
    let count = deps.len();
    let mut left: Vec<u32> = (0..count as u32).map(|task| deps.count(task)).collect();
    let mut order: Vec<u32> = (0..count as u32).filter(|task| left[*task as usize] == 0).collect();
    order.reserve_exact(count - order.len());
    let mut at = 0;
    while at < order.len() {
        for &dependent in dependents.of(order[at]) {
            let left = &mut left[dependent as usize];
            *left -= 1;
            if *left == 0 {
                order.push(dependent);
            }
        }
        at += 1;
    }
    if order.len() == count { Ok(order.into()) } else { Err(ring(deps, &left)) }
}

/// Follows what is still waited for until it comes round. Whoever waits still waits for somebody who waits still.
fn ring(deps: &Lists, left: &[u32]) -> Vec<u32> {
    let mut seen = vec![u32::MAX; left.len()];
    let mut path = Vec::new();
    let mut task = left.iter().position(|left| *left > 0).map_or(0, |task| task as u32);
    while seen[task as usize] == u32::MAX {
        seen[task as usize] = path.len() as u32;
        path.push(task);
        let next = deps.of(task).iter().find(|dep| left[**dep as usize] > 0);
        task = *next.unwrap_or(&task);
    }
    path.drain(..seen[task as usize] as usize);
    path.push(task);
    path
}
