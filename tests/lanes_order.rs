//! In which order one actor's jobs begin: lanes, reads first, promotion, turns between reads and writers, fences, drains.

#[path = "support/lanes.rs"]
#[allow(dead_code, reason = "each test file uses a part of it")]
mod support;

use shardrun::{ActorOptions, Driver, LaneClass, LaneError, LaneKind, LaneOrder, LanesConfig};
use std::time::Duration;
use support::{Bench, Gated, Log};

const READ: LaneKind = LaneKind::PureRead;
const LSP: LaneKind = LaneKind::SerialLspStatus;
const HEAVY: LaneKind = LaneKind::HeavyInit;
const WRITE: LaneKind = LaneKind::Mutating;
const COMMIT: LaneKind = LaneKind::MaintenanceCommit;
const NOW: LaneClass = LaneClass::Interactive;
const LATER: LaneClass = LaneClass::Maintenance;

fn done(gated: Gated) {
    let mut handle = gated.handle;
    assert!(matches!(handle.try_get(), Some(Ok(_))), "it is answered with its result");
}

#[test]
fn s20_s21_no_more_reads_run_at_once_than_the_read_cap() {
    let bench = Bench::new((4, 2, 3, 2));
    let reads: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(|name| bench.post(0, READ, NOW, name)).into();
    bench.settle();
    assert_eq!(bench.seen(), "+a +b");
    bench.open(&[&reads[1]]);
    assert_eq!(bench.seen(), "-b +c");
    bench.open(&reads.iter().collect::<Vec<_>>());
    assert_eq!(bench.seen().split(' ').count(), 8);
    reads.into_iter().for_each(done);
}

#[test]
fn s23_status_jobs_run_one_by_one_and_beside_reads() {
    let bench = Bench::new((4, 2, 3, 2));
    let (one, two) = (bench.gated(0, LSP, NOW, "one"), bench.gated(0, LSP, NOW, "two"));
    let read = bench.read(0, "read");
    assert_eq!(bench.seen(), "+one +read");
    bench.open(&[&one]);
    assert_eq!(bench.seen(), "-one +two");
    bench.open(&[&two, &read]);
}

#[test]
fn s24_the_actor_cap_counts_reads_and_status_jobs() {
    let bench = Bench::new((8, 4, 2, 1));
    let (one, two) = (bench.read(0, "one"), bench.read(0, "two"));
    let status = bench.gated(0, LSP, NOW, "status");
    assert_eq!(bench.seen(), "+one +two");
    bench.open(&[&one]);
    assert_eq!(bench.seen(), "-one +status");
    bench.open(&[&two, &status]);
}

#[test]
fn s25_reads_begin_in_the_order_in_which_they_came() {
    let bench = Bench::new((4, 1, 1, 1));
    let gate = bench.read(0, "gate");
    let handles: Vec<_> = (0..100)
        .map(|number| {
            let log = bench.log.clone();
            let job = bench.lanes.job(READ, move |_| log.lock().unwrap().push(number.to_string()));
            bench.lanes.submit(&0, job)
        })
        .collect();
    bench.seen();
    bench.open(&[&gate]);
    let expected: Vec<_> = (0..100).map(|number| number.to_string()).collect();
    assert_eq!(bench.seen(), format!("-gate {}", expected.join(" ")));
    assert!(handles.iter().all(|handle| handle.is_resolved()));
}

#[test]
fn s26_a_heavy_build_of_one_actor_does_not_hold_up_another() {
    let bench = Bench::new((4, 2, 3, 2));
    let build = bench.gated(0, HEAVY, NOW, "build");
    let read = bench.read(1, "read");
    assert_eq!(bench.seen(), "+build +read");
    bench.open(&[&build, &read]);
}

#[test]
fn s27_a_late_read_goes_before_a_young_writer_which_then_sees_no_reader() {
    let bench = Bench::new((4, 2, 3, 2));
    let (one, two) = (bench.read(0, "one"), bench.read(0, "two"));
    let (write, late) = (bench.write(0, "write"), bench.read(0, "late"));
    assert_eq!(bench.seen(), "+one +two");
    bench.open(&[&one]);
    assert_eq!(bench.seen(), "-one +late");
    bench.open(&[&two, &late]);
    assert_eq!(bench.seen(), "-two -late +write");
    bench.open(&[&write]);
}

#[test]
fn s28_writers_run_one_at_a_time_in_order_and_take_one_slot() {
    let bench = Bench::new((4, 2, 3, 2));
    let writes = ["one", "two", "three"].map(|name| bench.write(0, name));
    assert_eq!(bench.seen(), "+one");
    let live = bench.lanes.liveness();
    assert_eq!((live.interactive.running, live.interactive.queued, live.idle), (1, 2, 3));
    for write in &writes {
        bench.open(&[write]);
    }
    assert_eq!(bench.seen(), "-one +two -two +three -three");
}

#[test]
fn s29_s31_nothing_begins_beside_a_writer() {
    let bench = Bench::new((8, 4, 4, 3));
    let write = bench.write(0, "write");
    let others = [
        bench.read(0, "read"),
        bench.gated(0, LSP, NOW, "status"),
        bench.gated(0, HEAVY, NOW, "build"),
        bench.commit(0, "commit"),
    ];
    assert_eq!(bench.seen(), "+write");
    bench.open(&[&write]);
    assert_eq!(bench.seen(), "-write +read +status +build +commit");
    bench.open(&others.iter().collect::<Vec<_>>());
}

#[test]
fn s30_f16_a_writer_begins_beside_a_heavy_build_also_where_an_actor_has_one_slot() {
    let bench = Bench::new((2, 1, 1, 1));
    let build = bench.gated(0, HEAVY, NOW, "build");
    let write = bench.write(0, "write");
    assert_eq!(bench.seen(), "+build +write");
    bench.open(&[&build, &write]);
}

#[test]
fn s33_h14_a_commit_keeps_writers_out_and_reads_in() {
    let bench = Bench::new((4, 1, 1, 1));
    let commit = bench.commit(0, "commit");
    let (write, read) = (bench.write(0, "write"), bench.read(0, "read"));
    assert_eq!(bench.seen(), "+commit +read");
    bench.open(&[&read]);
    assert_eq!(bench.seen(), "-read");
    bench.open(&[&commit]);
    assert_eq!(bench.seen(), "-commit +write");
    bench.open(&[&write]);
}

#[test]
fn s37_a_read_goes_before_a_queued_writer() {
    let bench = Bench::new((2, 1, 1, 1));
    let first = bench.write(0, "first");
    let (second, read) = (bench.write(0, "second"), bench.read(0, "read"));
    bench.open(&[&first]);
    assert_eq!(bench.seen(), "+first -first +read");
    bench.open(&[&read]);
    assert_eq!(bench.seen(), "-read +second");
    bench.open(&[&second]);
}

/// A writer that waits behind a writer for so long, with a read beside it.
fn after(wait: Duration) -> String {
    let bench = Bench::new((2, 1, 1, 1));
    let first = bench.write(0, "first");
    let read = bench.post(0, READ, NOW, "read");
    let write = bench.post(0, WRITE, NOW, "write");
    bench.pass(wait);
    bench.seen();
    bench.open(&[&first]);
    let seen = bench.seen();
    bench.open(&[&read, &write]);
    seen
}

#[test]
fn s38_s39_a_writer_goes_first_from_the_promotion_age_on() {
    assert_eq!(after(Duration::from_secs(7)), "-first +write");
    assert_eq!(after(Duration::from_secs(6)), "-first +write");
    assert_eq!(after(Duration::from_millis(5_999)), "-first +read");
}

#[test]
fn s40_r47_under_endless_reads_writers_run_and_take_turns_with_them() {
    let bench = Bench::new((2, 1, 1, 1));
    let mut reads = vec![bench.read(0, "r")];
    let mut next = |bench: &Bench| {
        // Two are always queued; one is let go at a time.
        while reads.len() < 3 {
            reads.push(bench.post(0, READ, NOW, "r"));
        }
        let read = reads.remove(0);
        bench.open(&[&read]);
        bench.pass(Duration::from_millis(100));
    };
    let writes: Vec<_> = (0..4).map(|_| bench.post(0, WRITE, NOW, "W")).collect();
    writes.iter().for_each(|write| write.gate.open());
    for _ in 0..58 {
        next(&bench);
    }
    assert!(!bench.seen().contains('W'), "younger than the promotion age");
    for _ in 0..40 {
        next(&bench);
    }
    let seen = bench.seen();
    assert_eq!(seen.matches("+W").count(), 4, "all four have run: {seen}");
    let rounds: Vec<usize> = seen.split("+W").map(|round| round.matches("+r").count()).collect();
    assert!(rounds[1..4].iter().all(|reads| (1..=4).contains(reads)), "reads and writers take turns: {rounds:?}");
    bench.lanes.shutdown();
}

#[test]
fn s43_a_stuck_reader_does_not_stop_other_readers() {
    let bench = Bench::new((4, 3, 3, 1));
    let stuck = bench.read(0, "stuck");
    let write = bench.write(0, "write");
    bench.pass(Duration::from_secs(7));
    let reads = ["a", "b", "c"].map(|name| bench.read(0, name));
    assert_eq!(bench.seen(), "+stuck +a +b", "the others go on, as many as there may be");
    bench.open(&reads.iter().collect::<Vec<_>>());
    assert_eq!(bench.seen(), "-a -b +c -c");
    bench.open(&[&stuck]);
    assert_eq!(bench.seen(), "-stuck +write");
    bench.open(&[&write]);
}

#[test]
fn a_due_writer_keeps_new_readers_out_until_one_inside_counts_as_stuck() {
    let bench = Bench::new((4, 3, 3, 1));
    let first = bench.read(0, "first");
    let write = bench.write(0, "write");
    bench.pass(Duration::from_secs(4));
    let second = bench.read(0, "second");
    bench.open(&[&first]);
    bench.pass(Duration::from_secs(2));
    let late = bench.read(0, "late");
    assert_eq!(bench.seen(), "+first +second -first", "the writer is due, and the second may end soon");
    bench.pass(Duration::from_secs(3));
    assert_eq!(bench.seen(), "");
    bench.pass(Duration::from_secs(1));
    assert_eq!(bench.seen(), "+late", "now the second has run for as long as a writer may wait");
    bench.open(&[&late, &second]);
    assert_eq!(bench.seen(), "-late -second +write");
    bench.open(&[&write]);
}

#[test]
fn s45_readers_come_in_again_at_once_when_a_due_writer_is_cancelled() {
    let bench = Bench::new((4, 3, 3, 1));
    let first = bench.read(0, "first");
    let write = bench.write(0, "write");
    bench.pass(Duration::from_secs(3));
    let second = bench.read(0, "second");
    bench.open(&[&first]);
    bench.pass(Duration::from_secs(3));
    let late = bench.read(0, "late");
    bench.seen();
    write.ticket().cancel();
    bench.settle();
    assert_eq!(bench.seen(), "+late");
    assert_eq!(bench.refused(write.handle), LaneError::Cancelled);
    bench.open(&[&late, &second]);
}

#[test]
fn s46_f19_a_maintenance_writer_begins_within_its_age_under_endless_reads() {
    for order in [LaneOrder::ReadsFirst, LaneOrder::Arrival] {
        begins_under_endless_reads(order);
    }
}

fn begins_under_endless_reads(order: LaneOrder) {
    let bench = Bench::new((4, 2, 2, 1));
    assert!(bench.lanes.register_with(100, Log::default(), ActorOptions::new().order(order)).is_ok());
    let mut reads = vec![bench.read(100, "r"), bench.read(100, "r")];
    let write = bench.gated(100, WRITE, LATER, "W");
    let mut rounds = 0;
    while !bench.seen().contains("+W") {
        reads.push(bench.post(100, READ, NOW, "r"));
        bench.open(&[&reads.remove(0)]);
        bench.pass(Duration::from_millis(100));
        rounds += 1;
        assert!(rounds < 105, "{order:?}: it waits for longer than its age and the reads that were inside");
    }
    assert!(rounds > 95, "{order:?}: it goes before reads that came later");
    bench.open(&[&write]);
    done(write);
    bench.lanes.shutdown();
}

#[test]
fn f4_status_jobs_and_builds_begin_within_the_promotion_age_under_endless_reads() {
    for lane in [LSP, HEAVY] {
        let bench = Bench::new((2, 1, 1, 1));
        let mut reads = vec![bench.read(0, "r"), bench.post(0, READ, NOW, "r")];
        let other = bench.post(0, lane, NOW, "X");
        let mut rounds = 0;
        loop {
            reads.push(bench.post(0, READ, NOW, "r"));
            bench.open(&[&reads.remove(0)]);
            bench.pass(Duration::from_millis(100));
            rounds += 1;
            if bench.seen().contains("+X") {
                break;
            }
            assert!(rounds < 70, "{lane} waits for longer than the promotion age");
        }
        bench.open(&[&other]);
        bench.lanes.shutdown();
    }
}

#[test]
fn f5_the_next_lane_is_tried_when_the_first_cannot_run() {
    let bench = Bench::new((8, 2, 4, 1));
    let elsewhere = bench.gated(1, HEAVY, NOW, "elsewhere");
    let build = bench.gated(0, HEAVY, NOW, "build");
    let status = bench.gated(0, LSP, NOW, "status");
    assert_eq!(bench.seen(), "+elsewhere +status", "the build lacks a permit, and holds nobody up");
    let reads = ["a", "b", "c"].map(|name| bench.read(0, name));
    let commit = bench.gated(0, COMMIT, NOW, "commit");
    assert_eq!(bench.seen(), "+a +b +commit", "the third read is over the cap, and holds nobody up");
    bench.open(&[&elsewhere]);
    assert_eq!(bench.seen(), "-elsewhere +build");
    bench.open(&[&build, &status, &commit, &reads[0], &reads[1], &reads[2]]);
}

#[test]
fn in_order_of_arrival_a_writer_is_a_barrier() {
    let bench = Bench::new((8, 4, 4, 1));
    let options = ActorOptions::new().order(LaneOrder::Arrival);
    assert!(bench.lanes.register_with(100, Log::default(), options).is_ok());
    let first = bench.read(100, "first");
    let write = bench.write(100, "write");
    let (late, status) = (bench.read(100, "late"), bench.gated(100, LSP, NOW, "status"));
    assert_eq!(bench.seen(), "+first");
    bench.open(&[&first]);
    assert_eq!(bench.seen(), "-first +write");
    bench.open(&[&write]);
    assert_eq!(bench.seen(), "-write +late +status");
    bench.open(&[&late, &status]);
}

#[test]
fn a_read_after_my_write_sees_it_and_other_reads_do_not_wait() {
    let bench = Bench::new((4, 2, 3, 1));
    let reader = bench.read(0, "reader");
    let write = bench.write(0, "write");
    let log = bench.log.clone();
    let mine = bench.lanes.job(READ, move |_| log.lock().unwrap().push("mine".to_owned())).after(write.ticket());
    let mine = bench.lanes.submit(&0, mine);
    let other = bench.read(0, "other");
    assert_eq!(bench.seen(), "+reader +other");
    bench.open(&[&reader, &other]);
    assert_eq!(bench.seen(), "-reader -other +write");
    bench.open(&[&write]);
    assert_eq!(bench.seen(), "-write mine");
    assert!(mine.is_resolved());
}

#[test]
fn a_read_after_a_write_that_is_cancelled_runs() {
    let bench = Bench::new((4, 2, 3, 1));
    let reader = bench.read(0, "reader");
    let write = bench.write(0, "write");
    let mine = bench.lanes.submit(&0, bench.lanes.job(READ, |_| 7).after(write.ticket()));
    bench.settle();
    assert!(!mine.is_resolved());
    write.ticket().cancel();
    bench.settle();
    assert!(mine.is_resolved());
    bench.open(&[&reader]);
}

#[test]
fn a_drain_waits_for_what_was_submitted_before_it_and_for_nothing_else() {
    let bench = Bench::new((4, 2, 3, 1));
    let (one, two) = (bench.read(0, "one"), bench.write(0, "two"));
    let mut drain = bench.lanes.drain(&0);
    bench.settle();
    let late = bench.read(0, "late");
    assert!(drain.try_get().is_none());
    bench.open(&[&one]);
    bench.settle();
    assert!(drain.try_get().is_none(), "the writer has not run");
    bench.open(&[&two]);
    bench.open(&[&late]);
    assert_eq!(drain.try_get(), Some(Ok(())));
    let stays = bench.read(0, "stays");
    let mut second = bench.lanes.drain(&0);
    bench.settle();
    let more = bench.read(0, "more");
    assert!(second.try_get().is_none());
    bench.open(&[&stays]);
    assert_eq!(second.try_get(), Some(Ok(())), "what came later runs on");
    bench.open(&[&more]);
    assert_eq!(bench.lanes.drain(&0).try_get(), None, "asked for, and not looked at yet");
    assert_eq!(bench.lanes.drain(&99).try_get(), Some(Ok(())));
}

#[test]
fn b18_a_read_that_a_reader_submits_runs_under_its_share() {
    let bench = Bench::new((4, 1, 1, 1));
    let inner = bench.lanes.clone();
    let (log, gate) = (bench.log.clone(), support::Gate::default());
    let at = gate.clone();
    let outer = bench.lanes.future(READ, move |_| async move {
        at.await;
        let nested = inner.job(READ, move |_| log.lock().unwrap().push("nested".to_owned()));
        inner.submit(&0, nested).await
    });
    let outer = bench.lanes.submit(&0, outer);
    bench.settle();
    let write = bench.write(0, "write");
    bench.pass(Duration::from_secs(7));
    gate.open();
    bench.settle();
    assert!(outer.is_resolved(), "though a writer is due and there is one read at a time");
    assert_eq!(bench.seen(), "nested +write");
    bench.open(&[&write]);
}

#[test]
fn f17_the_install_of_a_build_is_queued_like_a_writer() {
    let bench = Bench::new((4, 2, 3, 1));
    let log = bench.log.clone();
    let job = bench.lanes.heavy(|_| 42, move |_, built| log.lock().unwrap().push(format!("install {built}")));
    let (read, commit) = (bench.read(0, "read"), bench.commit(0, "commit"));
    let install = bench.lanes.submit(&0, job);
    bench.settle();
    let other = bench.read(0, "other");
    let build = bench.gated(1, HEAVY, NOW, "build");
    assert_eq!(bench.seen(), "+read +commit +other +build", "the permit is free again, and reads go on");
    bench.open(&[&read, &other, &commit]);
    assert_eq!(bench.seen(), "-read -other -commit install 42");
    assert!(install.is_resolved());
    bench.open(&[&build]);
}

#[test]
fn s17_the_same_order_whatever_order_the_runtimes_jobs_run_in() {
    for seed in 0..50 {
        let bench = Bench::with(Driver::Seeded { seed }, LanesConfig::preset(4, 2, 3, 1));
        let (one, write) = (bench.read(0, "one"), bench.write(0, "write"));
        bench.open(&[&one]);
        let late = bench.read(0, "late");
        assert_eq!(bench.seen(), "+one -one +write", "seed {seed}");
        bench.open(&[&write]);
        assert_eq!(bench.seen(), "-write +late", "seed {seed}");
        bench.open(&[&late]);
    }
}
