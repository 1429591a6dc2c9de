//! Plans: what is refused before anything starts, in which words, and how tasks are ranked.

use shardrun::{Limit, Plan, PlanBuilder, PlanError, TaskId};
use std::time::{Duration, Instant};

/// A plan of tasks `t0`, `t1`, …, each depending on the numbers listed.
fn plan_of(deps: &[&[usize]]) -> Plan {
    builder_of(deps).build().expect("the plan is sound")
}

fn builder_of(deps: &[&[usize]]) -> PlanBuilder {
    let mut plan = Plan::builder();
    for (at, deps) in deps.iter().enumerate() {
        let mut task = plan.task(&format!("t{at}"));
        for dep in *deps {
            task = task.after_named(&format!("t{dep}"));
        }
    }
    plan
}

#[test]
fn s09_an_unknown_dependency_is_refused_with_both_names() {
    let mut plan = Plan::builder();
    plan.task("d").after_named("zz");
    let error = plan.build().unwrap_err();
    assert_eq!(error, PlanError::UnknownDependency { task: "d".into(), dependency: "zz".into() });
    assert_eq!(error.to_string(), "d depends on zz, which is not in the plan");
}

#[test]
fn a_number_of_another_plan_is_refused() {
    let mut other = Plan::builder();
    other.task("a");
    let foreign = other.task("b").id();
    let mut plan = Plan::builder();
    let a = plan.task("x").after(foreign).id();
    assert!(matches!(plan.build(), Err(PlanError::UnknownDependency { task, .. }) if task == "x"));
    let mut plan = Plan::builder();
    plan.task("x");
    plan.depend(a, foreign);
    assert!(matches!(plan.build(), Err(PlanError::UnknownDependency { .. })));
}

#[test]
fn s10_b63_a_ring_is_refused_with_its_path() {
    let mut plan = Plan::builder();
    plan.task("c");
    plan.task("a").after_named("b");
    plan.task("b").after_named("a");
    let error = plan.build().unwrap_err();
    assert_eq!(error, PlanError::Cycle { path: vec!["a".into(), "b".into(), "a".into()] });
    assert!(error.to_string().ends_with("a -> b -> a"));

    let three = builder_of(&[&[], &[0, 3], &[1], &[2], &[3]]).build().unwrap_err();
    assert_eq!(three, PlanError::Cycle { path: ["t1", "t3", "t2", "t1"].map(String::from).to_vec() });
}

#[test]
fn b63_a_ring_behind_a_long_chain_is_found_in_linear_time() {
    let mut plan = Plan::builder();
    let mut last = plan.task("").id();
    for _ in 0..100_000 {
        last = plan.task("").after(last).id();
    }
    let first = plan.task("first").after(last).id();
    let second = plan.task("second").after(first).id();
    plan.depend(first, second);
    let begun = Instant::now();
    let error = plan.build().unwrap_err();
    assert_eq!(error, PlanError::Cycle { path: ["first", "second", "first"].map(String::from).to_vec() });
    assert!(begun.elapsed() < Duration::from_secs(120), "took {:?}", begun.elapsed());
}

#[test]
fn s11_b65_a_task_that_depends_on_itself_is_refused() {
    let error = builder_of(&[&[], &[0, 1]]).build().unwrap_err();
    assert_eq!(error, PlanError::SelfDependency { task: "t1".into() });
}

#[test]
fn a_name_borne_twice_is_refused() {
    let mut plan = Plan::builder();
    plan.task("a");
    plan.task("");
    plan.task("");
    plan.task("a");
    assert_eq!(plan.build().unwrap_err(), PlanError::DuplicateTask { name: "a".into() });
}

#[test]
fn limits_that_are_no_count_are_refused() {
    for wrong in [Limit::from(0), Limit::from(-1), Limit::from(f64::NAN), Limit::from(0.5), Limit::from(f64::INFINITY)]
    {
        let mut plan = Plan::builder();
        plan.concurrency(wrong);
        assert!(matches!(plan.build(), Err(PlanError::Concurrency { .. })), "{wrong}");
        let mut plan = Plan::builder();
        plan.pool("gpu", wrong);
        let error = plan.build().unwrap_err();
        assert!(error.to_string().contains("gpu"), "{error}");
    }
    let mut plan = Plan::builder();
    plan.concurrency(4.0).pool("gpu", 1u8);
    assert_eq!(plan.build().unwrap().concurrency(), Some(4));
}

#[test]
fn pools_must_be_declared_once_and_may_be_declared_late() {
    let mut plan = Plan::builder();
    plan.task("a").pool("gpu");
    let error = plan.build().unwrap_err();
    assert_eq!(error, PlanError::UnknownPool { task: "a".into(), pool: "gpu".into() });

    let mut plan = Plan::builder();
    plan.pool("gpu", 1).pool("gpu", 2);
    assert_eq!(plan.build().unwrap_err(), PlanError::DuplicatePool { pool: "gpu".into() });

    let mut plan = Plan::builder();
    let a = plan.task("a").pool("gpu").id();
    let b = plan.task("b").id();
    plan.pool("cpu", 3).pool("gpu", 2);
    let plan = plan.build().unwrap();
    let pool = plan.pool_of(a).expect("it was assigned");
    assert_eq!(plan.pool(pool), ("gpu", 2));
    assert_eq!(plan.pool_of(b), None);
}

#[test]
fn s24_weights_must_be_finite() {
    for weight in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut plan = Plan::builder();
        plan.task("heavy").weight(weight);
        assert!(matches!(plan.build(), Err(PlanError::Weight { task, .. }) if task == "heavy"));
    }
}

#[test]
fn b68_a_dependency_listed_five_times_counts_once() {
    let mut plan = Plan::builder();
    let a = plan.task("a").id();
    let b = plan.task("b").after(a).after_all([a, a]).after_named("a").id();
    plan.depend(b, a);
    let many = plan.task("c").after_all([a; 20]).after(b).after_all([a; 20]).id();
    let plan = plan.build().unwrap();
    assert_eq!(plan.dependencies(b).collect::<Vec<_>>(), [a]);
    assert_eq!(plan.dependencies(many).collect::<Vec<_>>(), [a, b]);
    assert_eq!(plan.dependents(a).collect::<Vec<_>>(), [b, many]);
}

#[test]
fn dependencies_keep_the_order_in_which_they_were_said() {
    let plan = plan_of(&[&[], &[], &[1, 0]]);
    let deps: Vec<_> = plan.dependencies(plan.find("t2").unwrap()).map(TaskId::index).collect();
    assert_eq!(deps, [1, 0]);
}

/// The number of distinct tasks behind each, by walking from each.
fn reachable(plan: &Plan) -> Vec<u32> {
    let count = |task: TaskId| {
        let mut seen = vec![false; plan.len()];
        let mut stack = vec![task];
        while let Some(task) = stack.pop() {
            for next in plan.dependents(task) {
                if !std::mem::replace(&mut seen[next.index()], true) {
                    stack.push(next);
                }
            }
        }
        seen.iter().filter(|seen| **seen).count() as u32
    };
    plan.tasks().map(count).collect()
}

#[test]
fn s17_tasks_are_ranked_by_distinct_tasks_behind_them() {
    let plan = plan_of(&[&[], &[0], &[0], &[1, 2], &[3], &[4]]);
    let waiting: Vec<_> = plan.tasks().map(|task| plan.waiting_behind(task)).collect();
    assert_eq!(waiting, [5, 3, 3, 2, 1, 0]);

    let mut random = 0x5EED_u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    let mut plan = Plan::builder();
    let mut ids: Vec<TaskId> = Vec::new();
    for _ in 0..1_500 {
        let deps: Vec<_> = (0..3).filter(|_| !ids.is_empty()).map(|_| ids[next(ids.len())]).collect();
        ids.push(plan.task("").after_all(deps).id());
    }
    let plan = plan.build().unwrap();
    assert_eq!(plan.tasks().map(|task| plan.waiting_behind(task)).collect::<Vec<_>>(), reachable(&plan));
}

#[test]
fn what_waits_is_counted_through_a_restore() {
    // x gates e, though the restore between them starts at once.
    let mut plan = Plan::builder();
    let x = plan.task("x").id();
    let r = plan.task("r").after(x).restore().id();
    let e = plan.task("e").after(r).id();
    let plan = plan.build().unwrap();
    assert_eq!([x, r, e].map(|task| plan.waiting_behind(task)), [1, 1, 0]);
}

#[test]
fn the_remaining_path_takes_the_longest_way_and_fills_gaps_with_the_median() {
    let mut plan = Plan::builder();
    let ms = Duration::from_millis;
    let a = plan.task("a").predicted(ms(10)).id();
    let quick = plan.task("quick").predicted(ms(1)).after(a).id();
    let unknown = plan.task("unknown").after(a).id();
    let cached = plan.task("cached").after(a).restore().predicted(ms(500)).id();
    let end = plan.task("end").predicted(ms(20)).after_all([quick, unknown, cached]).id();
    let plan = plan.build().unwrap();
    // Known: 1, 10, 20, 500, so the median is 20. A restore gates, but its own time does not.
    assert_eq!(plan.remaining_path(end), Some(ms(20)));
    assert_eq!(plan.remaining_path(unknown), Some(ms(40)));
    assert_eq!(plan.remaining_path(a), Some(ms(50)));
    assert_eq!(plan_of(&[&[]]).remaining_path(a), None);
}

#[test]
fn b113_a_chain_a_star_and_a_ladder_of_a_million_are_planned_on_a_small_stack() {
    const COUNT: usize = 1_000_000;
    let shapes: [fn(usize) -> Vec<usize>; 3] = [
        |at| if at == 0 { vec![] } else { vec![at - 1] },
        |at| if at == 0 { vec![] } else { vec![0] },
        |at| match at % 3 {
            _ if at == 0 => vec![],
            0 => vec![at - 1, at - 2],
            1 => vec![at - 1],
            _ => vec![at - 2],
        },
    ];
    for shape in shapes {
        let run = move || {
            let mut plan = Plan::builder();
            let mut ids = Vec::with_capacity(COUNT);
            for at in 0..COUNT {
                let deps = shape(at).into_iter().map(|dep| ids[dep]);
                ids.push(plan.task("").after_all(deps).id());
            }
            let plan = plan.build().expect("the plan is sound");
            assert!(plan.is_uniform());
            plan.waiting_behind(ids[0])
        };
        let small = std::thread::Builder::new().stack_size(256 * 1024);
        let behind = small.spawn(run).expect("a thread starts").join().expect("nothing overflows");
        assert!(behind > 0);
    }
}

#[test]
fn sixty_thousand_pools_are_found_at_once_each() {
    let mut plan = Plan::builder();
    for at in 0..60_000_u32 {
        plan.task(&format!("t{at}")).pool(&format!("p{}", 59_999 - at));
    }
    for at in 0..60_000_u32 {
        plan.pool(&format!("p{at}"), at + 1);
    }
    let plan = plan.build().unwrap();
    let pool = plan.pool_of(plan.find("t7").unwrap()).unwrap();
    assert_eq!(plan.pool(pool), ("p59992", 59_993));
}
