//! The choice among priorities: a cyclic table with a cursor, empty levels skipped.
//! It does not know what waits at a level, only whether something does.
#![forbid(unsafe_code)]

use super::place::LEVELS;

/// 8 : 4 : 2 : 1 in fifteen steps. From any cursor, whatever the other levels do, a level with work is reached within
/// 2, 4, 8 or 15 selections; smooth credit does not hold such bounds when levels come and go.
const TABLE: [u8; 15] = [0, 1, 0, 2, 0, 1, 0, 3, 0, 1, 0, 2, 0, 1, 0];

/// For each cursor and each set of levels with work: the level to serve (high four bits) and the cursor after it.
const NEXT: [[u8; 1 << LEVELS]; TABLE.len()] = build();

const fn build() -> [[u8; 1 << LEVELS]; TABLE.len()] {
    let mut next = [[0; 1 << LEVELS]; TABLE.len()];
    let mut cursor = 0;
    while cursor < TABLE.len() {
        let mut ready = 1;
        while ready < 1 << LEVELS {
            let mut at = cursor;
            while ready & (1 << TABLE[at]) == 0 {
                at = (at + 1) % TABLE.len();
            }
            next[cursor][ready] = TABLE[at] << 4 | ((at + 1) % TABLE.len()) as u8;
            ready += 1;
        }
        cursor += 1;
    }
    next
}

/// Where a chooser stands in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor(u8);

impl Cursor {
    /// The level to serve, out of those in the bit set `ready` (which must not be empty), and where the chooser stands after
    /// it has served it. A choice that finds the level empty after all is not a selection: keep the old cursor then.
    #[inline(always)]
    pub(crate) fn choose(self, ready: u8) -> (usize, Self) {
        debug_assert!(ready != 0 && ready < 1 << LEVELS);
        let packed = NEXT[usize::from(self.0)][usize::from(ready) & ((1 << LEVELS) - 1)];
        (usize::from(packed >> 4), Self(packed & 0xf))
    }
}

/// The level to serve at a turn, out of those in the bit set `ready` (which must not be empty): for several choosers who share a count
/// of turns. A level with work is reached within fifteen turns.
pub(crate) fn choose_at(turn: u64, ready: u8) -> usize {
    Cursor((turn % TABLE.len() as u64) as u8).choose(ready).0
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use super::{Cursor, TABLE};
    use crate::runtime::place::LEVELS;

    /// The longest that an adversary, who lets the other levels come and go as he likes, can keep a level with work waiting
    /// for a chooser who stands at `cursor`. The way to the level's next place in the table gets shorter with each step.
    fn wait(cursor: Cursor, level: usize, known: &mut [Option<usize>; TABLE.len()]) -> usize {
        if let Some(known) = known[usize::from(cursor.0)] {
            return known;
        }
        let mut worst = 0;
        for ready in (1..1_u8 << LEVELS).filter(|ready| ready & (1 << level) != 0) {
            let (served, next) = cursor.choose(ready);
            worst = worst.max(if served == level { 1 } else { 1 + wait(next, level, known) });
        }
        known[usize::from(cursor.0)] = Some(worst);
        worst
    }

    fn worst_wait(level: usize) -> usize {
        let mut known = [None; TABLE.len()];
        (0..TABLE.len()).map(|at| wait(Cursor(at as u8), level, &mut known)).max().expect("the table is not empty")
    }

    #[test]
    fn no_level_waits_longer_than_2_4_8_15_selections_from_any_state() {
        assert_eq!([0, 1, 2, 3].map(worst_wait), [2, 4, 8, 15]);
    }

    #[test]
    fn backlogged_levels_share_8_4_2_1() {
        let (mut cursor, mut served) = (Cursor::default(), [0; LEVELS]);
        for _ in 0..15 * 10 {
            let (level, next) = cursor.choose(0b1111);
            served[level] += 1;
            cursor = next;
        }
        assert_eq!(served, [80, 40, 20, 10]);
    }
}
