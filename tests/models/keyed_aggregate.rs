//! Models of a computation with many owners: the builder's token is raised by the last owner's withdrawal and by nothing else, who
//! comes later begins anew, and the end of an old computation leaves its successor where it stands.

#![cfg(any(shardrun_loom, shardrun_shuttle))]

use super::check;
use crate::flight::{Completion, Interrupt};
use crate::keyed::aggregate::{Aggregate, Over};
use crate::runtime::Priority;
use crate::sync::thread::spawn;
use crate::sync::{Arc, Mutex};

type Joint = Aggregate<u64, Interrupt>;
type Waiter = Completion<u64, Interrupt>;

/// Where an identity stands, as a cache's map holds it: exchanged against what was seen.
#[derive(Default)]
struct Place(Mutex<Option<Arc<Joint>>>);

impl Place {
    fn seen(&self) -> Option<Arc<Joint>> {
        self.0.lock().clone()
    }

    fn exchange(&self, seen: Option<&Arc<Joint>>, new: Option<Arc<Joint>>) -> bool {
        let mut now = self.0.lock();
        let same = match (&*now, seen) {
            (Some(now), Some(seen)) => Arc::ptr_eq(now, seen),
            (None, None) => true,
            _ => false,
        };
        if same {
            let old = std::mem::replace(&mut *now, new);
            drop(now);
            drop(old);
        }
        same
    }
}

/// Joins what stands there, or begins anew. True if it began.
fn ask(place: &Place) -> (Arc<Joint>, Arc<Waiter>, bool) {
    loop {
        let seen = place.seen();
        let waiter = Waiter::new();
        if let Some(joint) = &seen {
            match joint.join(waiter.clone()) {
                Ok(()) => return (joint.clone(), waiter, false),
                Err(Over::Value(value)) => {
                    waiter.resolve(Ok(value));
                    return (joint.clone(), waiter, false);
                }
                Err(Over::Nothing) => {}
                Err(Over::Full) => panic!("two owners are not too many"),
            }
        }
        let fresh = Arc::new(Joint::begun(Priority::Interactive, waiter.clone()));
        if place.exchange(seen.as_ref(), Some(fresh.clone())) {
            return (fresh, waiter, true);
        }
    }
}

/// Computes, as a worker that found the ticket does. True if the value was published.
fn run(place: &Place, joint: &Arc<Joint>, value: u64) -> bool {
    if joint.flight.word().claim().is_err() {
        return false;
    }
    let published = joint.flight.publish(Ok(value)).is_ok();
    if published {
        place.exchange(Some(joint), None);
        joint.flight.deliver();
    }
    published
}

/// Withdraws, as a handle does.
fn leave(place: &Place, joint: &Arc<Joint>) -> bool {
    let last = joint.leave().is_some();
    if last {
        place.exchange(Some(joint), None);
        joint.flight.deliver();
    }
    last
}

/// Two owners withdraw while the builder ends: the token is raised if and only if the last withdrawal came first, and then nothing
/// is published.
#[test]
fn two_owners_withdraw_beside_the_end_of_the_builder() {
    check(|| {
        let place = Arc::new(Place::default());
        let (joint, _first, began) = ask(&place);
        let (same, _second, joined) = ask(&place);
        assert!(began && !joined && Arc::ptr_eq(&joint, &same));
        let leaver = || {
            let (place, joint) = (place.clone(), joint.clone());
            spawn(move || leave(&place, &joint))
        };
        let leavers = [leaver(), leaver()];
        let published = run(&place, &joint, 7);
        let last = leavers.into_iter().map(|leaver| leaver.join().unwrap()).filter(|last| *last).count();
        assert!(last <= 1, "one owner is the last");
        assert_eq!(joint.token().is_cancelled(), last == 1);
        assert!(published != (last == 1), "a value, or all have gone");
        assert!(place.seen().is_none(), "what is over stands nowhere");
    });
}

/// One of two owners withdraws while the builder ends: nobody is the last, the token stays down, and the other gets the value.
#[test]
fn one_of_two_owners_withdraws_beside_the_end_of_the_builder() {
    check(|| {
        let place = Arc::new(Place::default());
        let (joint, _first, _) = ask(&place);
        let (_, second, _) = ask(&place);
        let leaver = {
            let (place, joint) = (place.clone(), joint.clone());
            spawn(move || leave(&place, &joint))
        };
        assert!(run(&place, &joint, 7));
        assert!(!leaver.join().unwrap() && !joint.token().is_cancelled());
        assert_eq!(second.told(), Some(Ok(7)));
    });
}

/// The only owner withdraws while two others ask: each is told a value, of the old flight if it joined in time, else of one fresh
/// flight, which the end of the old one leaves in its place.
#[test]
fn a_late_owner_begins_anew_and_the_old_end_leaves_its_flight_alone() {
    check(|| {
        let place = Arc::new(Place::default());
        let (old, _gone, _) = ask(&place);
        let asker = || {
            let place = place.clone();
            spawn(move || ask(&place))
        };
        let askers = [asker(), asker()];
        let last = leave(&place, &old);
        assert_eq!(old.token().is_cancelled(), last);
        let asked = askers.map(|asker| asker.join().unwrap());
        for (joint, _, _) in &asked {
            assert!(!joint.token().is_cancelled(), "somebody wants it");
            assert_eq!(Arc::ptr_eq(joint, &old), !last, "who joined in time kept it alive");
        }
        assert!(Arc::ptr_eq(&asked[0].0, &asked[1].0), "they share one");
        let stands = place.seen().expect("it is under way");
        assert!(Arc::ptr_eq(&stands, &asked[0].0), "and it stands in its place");
        assert!(run(&place, &stands, 7));
        for (_, waiter, _) in asked {
            assert_eq!(waiter.told(), Some(Ok(7)));
        }
        assert!(place.seen().is_none());
    });
}
