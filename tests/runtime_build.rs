//! Options are checked before anything starts; what cannot start is told; what starts is named, hooked and pinned as asked.

use shardrun::{BuildError, Driver, Pinning, Place, Priority, Runtime, RuntimeBuilder, WorkerKind};
use std::collections::VecDeque;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(300);

fn builder() -> RuntimeBuilder {
    Runtime::builder().workers(1).io_threads(1)
}

fn refused(builder: RuntimeBuilder) -> &'static str {
    match builder.build() {
        Err(BuildError::Option { option, .. }) => option,
        other => panic!("{other:?}"),
    }
}

/// Runs one job wherever it may be placed.
fn runs(runtime: &Runtime) {
    let (sender, receiver) = channel();
    for place in [Place::default(), Place::io(Priority::Maintenance)] {
        let sender = sender.clone();
        runtime.execute_on(place, move || sender.send(()).unwrap()).unwrap();
        receiver.recv_timeout(SOON).expect("the job runs");
    }
}

#[test]
fn b87_a_runtime_that_would_never_run_anything_is_not_built() {
    assert_eq!(refused(builder().workers(0)), "workers");
    runs(&builder().workers(1).max_spares(0).io_threads(0).build().unwrap());
}

#[test]
fn b88_every_number_runs_or_is_refused_by_name() {
    for max in [usize::MAX, 16_385] {
        assert_eq!(refused(builder().workers(max)), "workers");
        assert_eq!(refused(builder().io_threads(max)), "io_threads");
        assert_eq!(refused(builder().max_spares(max)), "max_spares");
    }
    for bytes in [0, 1, usize::MAX] {
        assert_eq!(refused(builder().stack_size(bytes)), "stack_size");
    }
    assert_eq!(refused(builder().spin(Duration::MAX)), "spin");
    for name in ["", "a\0b"] {
        assert_eq!(refused(builder().thread_name(name)), "thread_name");
    }
    for few in [0, 1] {
        runs(&builder().io_threads(few).build().unwrap());
        runs(&builder().max_spares(few).build().unwrap());
        runs(&builder().spin(Duration::from_nanos(few as u64)).build().unwrap());
    }
    runs(&builder().stack_size(64 << 10).build().unwrap());
}

#[test]
fn b91_a_thread_that_cannot_start_is_told_and_none_is_left() {
    for after in 0..3 {
        let started = Arc::new(Mutex::new((0, 0)));
        let (starts, stops) = (started.clone(), started.clone());
        let outcome = Runtime::builder()
            .workers(2)
            .io_threads(1)
            .on_start(move |_| starts.lock().unwrap().0 += 1)
            .on_stop(move |_| stops.lock().unwrap().1 += 1)
            .fail_thread_starts_after(after)
            .build();
        match outcome {
            Err(error @ BuildError::Thread { started, .. }) => {
                assert_eq!(started, after);
                assert!(std::error::Error::source(&error).is_some());
            }
            other => panic!("{other:?}"),
        }
        let (starts, stops) = *started.lock().unwrap();
        assert_eq!((starts, stops), (after, after), "what was started has ended");
    }
}

#[test]
fn threads_have_names_stacks_and_hooks() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (starts, stops) = (seen.clone(), seen.clone());
    let name = || std::thread::current().name().map(str::to_owned).unwrap_or_default();
    let runtime = builder()
        .thread_name("named")
        .on_start(move |id| starts.lock().unwrap().push((id, name(), true)))
        .on_stop(move |id| {
            stops.lock().unwrap().push((id, name(), false));
            panic!("a hook that panics");
        })
        .build()
        .unwrap();
    runs(&runtime);
    std::panic::set_hook(Box::new(|_| {}));
    let end = runtime.shutdown();
    let _ = std::panic::take_hook();
    assert_eq!(end.running, 0);
    let mut seen = seen.lock().unwrap().clone();
    seen.sort();
    let names: Vec<_> = seen.iter().map(|(id, name, start)| (id.kind, name.as_str(), *start)).collect();
    let expected = [
        (WorkerKind::Worker, "named-w0", false),
        (WorkerKind::Worker, "named-w0", true),
        (WorkerKind::Io, "named-io0", false),
        (WorkerKind::Io, "named-io0", true),
    ];
    assert_eq!(names, expected);
    assert_eq!(runtime.counters().panics(), 2);
}

#[test]
fn b103_named_cpus_must_exist_and_are_used() {
    assert_eq!(refused(builder().pinning(Pinning::Cores(vec![100_000]))), "pinning");
    assert_eq!(refused(builder().workers(2).pinning(Pinning::Cores(vec![0]))), "pinning");
    assert_eq!(refused(Runtime::builder().pinning(Pinning::Cores(vec![]))), "workers");
    let cpu = core_affinity::get_core_ids().expect("the mask can be read")[0].id;
    let runtime = Runtime::builder().pinning(Pinning::Cores(vec![cpu])).build().unwrap();
    runs(&runtime);
    assert_eq!((runtime.workers(), runtime.pinning().0), (1, &[cpu][..]));
    let mask = || core_affinity::get_core_ids().expect("the mask can be read").len();
    let whole = mask();
    let (sender, receiver) = channel();
    let inner = runtime.clone();
    runtime.execute(move || sender.send((mask(), inner.unpinned(mask), mask())).unwrap()).unwrap();
    assert_eq!(receiver.recv_timeout(SOON), Ok((1, whole, 1)));
    // I/O threads start with the whole mask.
    let (sender, receiver) = channel();
    runtime.execute_on(Place::io(Priority::Critical), move || sender.send(mask()).unwrap()).unwrap();
    assert_eq!(receiver.recv_timeout(SOON), Ok(whole));
}

/// The part of the next test that runs in a process with one CPU.
fn with_one_cpu() {
    for workers in 1..=8 {
        let runtime = Runtime::builder().workers(workers).build().expect("it starts whatever the mask");
        runs(&runtime);
        let (pinned, note) = runtime.pinning();
        assert!(pinned.is_empty() && note.is_some(), "not pinned, and it says why");
    }
    assert_eq!(Runtime::builder().build().unwrap().workers(), 1);
    shares_one_cpu();
}

/// Who brings work and who does it take turns: neither goes to sleep for each job.
fn shares_one_cpu() {
    const JOBS: usize = 8192;
    // It may look around for long: other programs that take the CPU meanwhile must not count.
    let spin = Duration::from_millis(10);
    let runtime = Runtime::builder().workers(1).io_threads(0).spin(spin).build().unwrap();
    let parks = || runtime.counters().workers.iter().map(|worker| worker.parks).sum::<u64>();
    let slept = || {
        let before = parks();
        let mut outstanding = VecDeque::new();
        for at in 0..JOBS {
            outstanding.push_back((at, runtime.spawn(move || at)));
            if outstanding.len() == 64 {
                let (at, handle) = outstanding.pop_front().expect("there are 64");
                assert_eq!(handle.wait(), Ok(at));
            }
        }
        parks() - before
    };
    // If others take it for longer than that, again and again, the worker sleeps for their sake: then it is tried once more.
    let least = (0..20).map(|_| slept()).find(|parks| *parks <= JOBS as u64 / 128);
    assert!(least.is_some(), "the worker slept more than {} times for {JOBS} jobs, twenty times", JOBS / 128);
}

#[cfg(target_os = "linux")]
#[test]
fn b103_a_process_with_one_cpu_runs_any_number_of_workers() {
    const INSIDE: &str = "SHARDRUN_TEST_ONE_CPU";
    if std::env::var_os(INSIDE).is_some() {
        return with_one_cpu();
    }
    let cpu = core_affinity::get_core_ids().expect("the mask can be read").last().expect("there is a CPU").id;
    if core_affinity::get_core_ids().is_some_and(|cpus| cpus.len() == 1) {
        return with_one_cpu();
    }
    let test = "b103_a_process_with_one_cpu_runs_any_number_of_workers";
    let exe = std::env::current_exe().unwrap();
    let thread = std::thread::spawn(move || {
        assert!(core_affinity::set_for_current(core_affinity::CoreId { id: cpu }));
        std::process::Command::new(exe).args(["--exact", test]).env(INSIDE, "1").output().unwrap()
    });
    let output = thread.join().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn a_driven_runtime_has_no_threads() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let caller = std::thread::current().id();
    let (sender, receiver) = channel();
    runtime.execute(move || sender.send(std::thread::current().id()).unwrap()).unwrap();
    assert!(runtime.drive_one() && !runtime.drive_one());
    assert_eq!((receiver.try_recv(), runtime.workers()), (Ok(caller), 0));
    assert!(!Runtime::builder().workers(1).build().unwrap().drive_one(), "workers drive themselves");
}
