//! Where threads stand and what they cost: affinity masks, CPU time of the process and of the machine.
//! It does not know which thread is a worker: the binaries say so.

use std::time::Duration;

/// The CPUs that the calling thread may use, in order.
pub fn allowed() -> Vec<usize> {
    let mut set = empty_set();
    // SAFETY: the set is valid for writes of its own size; 0 names the calling thread.
    let outcome = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) };
    assert_eq!(outcome, 0, "the affinity mask can be read");
    // SAFETY: CPU_ISSET only reads the set, and the index stays below its size.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// Lets the calling thread, and those that it will start, run on `cpus` only.
pub fn pin(cpus: &[usize]) {
    let mut set = empty_set();
    for &cpu in cpus {
        // SAFETY: CPU_SET writes within the set; indices come from `allowed`.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: the set is valid for reads of its own size; 0 names the calling thread.
    let outcome = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) };
    assert_eq!(outcome, 0, "the thread can be pinned to {cpus:?}");
}

fn empty_set() -> libc::cpu_set_t {
    // SAFETY: a CPU set is plain bits; all zeros is the empty set.
    unsafe { std::mem::zeroed() }
}

fn clock(id: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid for writes; both ids used here exist on every Linux.
    let outcome = unsafe { libc::clock_gettime(id, &mut time) };
    assert_eq!(outcome, 0, "the clock can be read");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// CPU time of all threads of this process: the figure of `getrusage`, but up to date.
///
/// The kernel adds a running thread's time to its process only at the next tick, which is a large part of a short round. A look
/// at the thread's own clock brings its figure up to date first.
pub fn cpu_of_process() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    for task in tasks.filter_map(|task| task.file_name().to_str().and_then(|name| name.parse::<i32>().ok())) {
        // The kernel's own way to name the CPU clock of one thread: MAKE_THREAD_CPUCLOCK(task, CPUCLOCK_SCHED).
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer is valid for writes; a thread that is gone meanwhile is an error that says nothing.
        unsafe { libc::clock_gettime((!task << 3) | 6, &mut time) };
    }
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// How often threads of this process have gone to sleep or lost their CPU: what wakes too much shows here.
pub fn switches_of_process() -> u64 {
    let usage = usage(libc::RUSAGE_SELF);
    (usage.ru_nvcsw + usage.ru_nivcsw) as u64
}

fn usage(whose: libc::c_int) -> libc::rusage {
    // SAFETY: rusage is plain numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for writes.
    unsafe { libc::getrusage(whose, &mut usage) };
    usage
}

/// CPU time of the children that have been waited for.
pub fn cpu_of_children() -> Duration {
    let usage = usage(libc::RUSAGE_CHILDREN);
    let of = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1_000);
    of(usage.ru_utime) + of(usage.ru_stime)
}

/// Busy time of all CPUs of the machine since it started, with the time that a hypervisor took.
pub fn cpu_of_machine() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal
    let busy: u64 = [0, 1, 2, 5, 6, 7].iter().filter_map(|&at| ticks.get(at)).sum();
    // SAFETY: sysconf only reads.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    Duration::from_millis(busy * 1_000 / per_second)
}
