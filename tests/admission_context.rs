//! Request contexts: a job sees the context it was given and no other, and leaves none behind.

use shardrun::{RequestContext, Runtime};
use std::sync::{Arc, Barrier};

fn name() -> Option<String> {
    RequestContext::current().and_then(|context| context.get::<String>().cloned())
}

#[test]
fn a_context_is_nested_and_put_back_also_after_a_panic() {
    let (outer, inner) = (RequestContext::new("outer".to_owned()), RequestContext::new("inner".to_owned()));
    assert!(name().is_none());
    outer.scope(|| {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            inner.scope(|| {
                assert_eq!(name().as_deref(), Some("inner"));
                panic!("inside");
            })
        }));
        assert!(caught.is_err());
        assert_eq!(name().as_deref(), Some("outer"));
        assert!(RequestContext::current().unwrap().is_same(&outer) && !outer.is_same(&inner));
        assert!(outer.get::<u8>().is_none());
    });
    assert!(name().is_none());
}

#[test]
fn sixteen_threads_never_see_each_others_contexts() {
    let start = Barrier::new(16);
    std::thread::scope(|scope| {
        for number in 0..16 {
            let start = &start;
            scope.spawn(move || {
                let mine = RequestContext::new(format!("thread {number}"));
                start.wait();
                for _ in 0..1_000 {
                    assert!(name().is_none());
                    mine.scope(|| assert_eq!(name(), Some(format!("thread {number}"))));
                }
            });
        }
    });
}

#[test]
fn a_value_whose_destructor_asks_for_the_context_is_dropped_in_peace() {
    struct Nosy(#[expect(dead_code, reason = "counts who holds it")] Arc<()>);
    impl Drop for Nosy {
        fn drop(&mut self) {
            assert!(RequestContext::current().is_none());
        }
    }
    let kept = Arc::new(());
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let nosy = Nosy(kept.clone());
    let ran = runtime.spawn(move || {
        let context = RequestContext::new(nosy);
        context.clone().scope(move || drop(context));
        name().map_or(7, |_| 8)
    });
    assert_eq!(ran.wait(), Ok(7));
    assert_eq!(Arc::strong_count(&kept), 1);
}
