//! A worker's own queue: its owner pushes and pops while thieves take.
//! It does not know the workers.

use crate::models::check;
use crate::runtime::modelled::Fifo;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, thread};

type Taken = Arc<[AtomicUsize; 4]>;

fn note(taken: &Taken, item: usize) {
    taken[item].fetch_add(1, Ordering::AcqRel);
}

/// Each item is taken once, by its owner or by one of two thieves, and no cell is written before who claimed it has read it.
#[test]
fn each_item_has_one_taker_who_reads_it_before_its_cell_is_written_again() {
    check(|| {
        let taken: Taken = Arc::new(std::array::from_fn(|_| AtomicUsize::new(0)));
        let fifo = Fifo::near_the_end();
        // The ring is full; what the owner pushes below goes where the thieves take from, if they are done, or further.
        (0..2).for_each(|item| assert!(fifo.push(item).is_ok()));
        let thief = || {
            let (tap, taken) = (fifo.tap(), taken.clone());
            thread::spawn(move || {
                let one = tap.steal(|other| note(&taken, other));
                one.into_iter().for_each(|one| note(&taken, one));
            })
        };
        let thieves = [thief(), thief()];
        for item in 2..4 {
            assert!(fifo.push(item).is_ok());
        }
        fifo.pop().into_iter().for_each(|item| note(&taken, item));
        for thief in thieves {
            thief.join().unwrap();
        }
        while let Some(item) = fifo.pop() {
            note(&taken, item);
        }
        assert!(fifo.tap().is_empty());
        let counts = taken.each_ref().map(|count| count.load(Ordering::Acquire));
        assert_eq!(counts, [1; 4]);
    });
}
