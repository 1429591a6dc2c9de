//! Which CPUs the process may use, pinning to one of them, and giving the original mask back.
//! It does not know what runs where.

use crate::sync::OnceLock;
use crate::sync::stat::{AtomicBool, Ordering};
use crate::sync::thread::available_parallelism;

/// Where the workers run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pinning {
    /// One worker per CPU, if the process may use all CPUs of the machine, its CPU quota covers them, there are no more workers
    /// than CPUs, and no other pinned runtime lives in the process; else like `Off`.
    #[default]
    Auto,
    /// Wherever the operating system likes.
    Off,
    /// Worker `i` on the `i`-th of these CPUs, by the operating system's numbers.
    Cores(Vec<usize>),
}

/// What the process could use when it first asked, before anything of ours was pinned.
#[derive(Debug)]
pub(crate) struct Machine {
    /// The CPUs of the affinity mask, if it can be read.
    pub(crate) allowed: Vec<usize>,
    /// CPUs of the machine that are switched on.
    online: usize,
    /// How many threads can run at once: the mask and the cgroup's quota (v1 and v2) counted in.
    pub(crate) parallel: usize,
    #[cfg(target_os = "linux")]
    mask: Option<libc::cpu_set_t>,
}

/// Reads the mask and the quota, once in the life of the process.
pub(crate) fn machine() -> &'static Machine {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    MACHINE.get_or_init(read)
}

#[cfg(target_os = "linux")]
fn read() -> Machine {
    let parallel = available_parallelism().map_or(1, usize::from);
    // SAFETY: a mask of zeros is a valid, empty mask.
    let mut mask: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer and the size are those of a mask of ours.
    let read = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut mask) } == 0;
    let allowed = if read {
        // SAFETY: the numbers are below the mask's capacity.
        (0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &mask) }).collect()
    } else {
        Vec::new()
    };
    // SAFETY: asks for a number.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    Machine { allowed, online: usize::try_from(online).unwrap_or(0), parallel, mask: read.then_some(mask) }
}

#[cfg(not(target_os = "linux"))]
fn read() -> Machine {
    let parallel = available_parallelism().map_or(1, usize::from);
    let allowed: Vec<_> = core_affinity::get_core_ids().into_iter().flatten().map(|core| core.id).collect();
    Machine { online: allowed.len(), allowed, parallel }
}

impl Machine {
    /// Whether every CPU of the machine can be used in full.
    fn is_whole(&self) -> bool {
        !self.allowed.is_empty() && self.allowed.len() == self.online && self.parallel >= self.allowed.len()
    }
}

/// Whether a pinned runtime lives in this process.
pub(crate) static PINNED: AtomicBool = AtomicBool::new(false);

/// What came of a wish to pin.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The CPU of each worker; empty if none is pinned.
    pub(crate) cpus: Vec<usize>,
    /// Why none is pinned, where that was not asked for.
    pub(crate) note: Option<&'static str>,
    /// The process's one place for an automatically pinned runtime, where this plan holds it.
    reserved: Option<&'static AtomicBool>,
}

impl Plan {
    pub(crate) fn off(note: Option<&'static str>) -> Self {
        Self { cpus: Vec::new(), note, reserved: None }
    }

    /// Decides where `workers` workers run; `place` says whether the process has a pinned runtime.
    ///
    /// # Errors
    /// What is wrong with the list of CPUs.
    pub(crate) fn new(
        pinning: &Pinning,
        workers: usize,
        machine: &Machine,
        place: &'static AtomicBool,
    ) -> Result<Self, String> {
        match pinning {
            Pinning::Off => Ok(Self::off(None)),
            Pinning::Auto if !machine.is_whole() => {
                Ok(Self::off(Some("the process may not use all CPUs of the machine in full")))
            }
            Pinning::Auto if workers > machine.allowed.len() => Ok(Self::off(Some("there are more workers than CPUs"))),
            Pinning::Auto if place.swap(true, Ordering::AcqRel) => {
                Ok(Self::off(Some("another pinned runtime lives in this process")))
            }
            Pinning::Auto => Ok(Self { cpus: machine.allowed[..workers].to_vec(), note: None, reserved: Some(place) }),
            Pinning::Cores(cpus) => {
                if cpus.len() < workers {
                    return Err(format!("names {} CPUs for {workers} workers", cpus.len()));
                }
                if let Some(cpu) = cpus.iter().find(|cpu| !machine.allowed.contains(cpu)) {
                    return Err(format!("CPU {cpu} is not one that this process may use: {:?}", machine.allowed));
                }
                Ok(Self { cpus: cpus[..workers].to_vec(), note: None, reserved: None })
            }
        }
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        if let Some(place) = self.reserved {
            place.store(false, Ordering::Release);
        }
    }
}

/// Pins the calling thread; false if the operating system refuses.
pub(crate) fn pin(cpu: usize) -> bool {
    core_affinity::set_for_current(core_affinity::CoreId { id: cpu })
}

/// Gives the calling thread the mask that the process had at first.
#[cfg(target_os = "linux")]
pub(crate) fn unpin() {
    if let Some(mask) = &machine().mask {
        // SAFETY: the pointer and the size are those of a mask that lives for ever.
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), mask) };
    }
}

/// Elsewhere a pinned thread stays pinned.
#[cfg(not(target_os = "linux"))]
pub(crate) fn unpin() {}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use super::{AtomicBool, Machine, Pinning, Plan};

    fn machine(allowed: &[usize], online: usize, parallel: usize) -> Machine {
        let allowed = allowed.to_vec();
        #[cfg(target_os = "linux")]
        return Machine { allowed, online, parallel, mask: None };
        #[cfg(not(target_os = "linux"))]
        Machine { allowed, online, parallel }
    }

    fn auto(workers: usize, machine: &Machine) -> Vec<usize> {
        static PLACE: AtomicBool = AtomicBool::new(false);
        Plan::new(&Pinning::Auto, workers, machine, &PLACE).expect("auto never fails").cpus.clone()
    }

    #[test]
    fn b103_auto_pins_only_to_allowed_cpus_of_a_whole_machine() {
        assert_eq!(auto(2, &machine(&[0, 1], 2, 2)), [0, 1]);
        assert_eq!(auto(2, &machine(&[4, 6], 2, 2)), [4, 6]);
        for part in [machine(&[1], 2, 1), machine(&[0, 1], 2, 1), machine(&[], 2, 1), machine(&[], 0, 1)] {
            assert!(auto(1, &part).is_empty(), "{part:?}");
        }
        assert!(auto(3, &machine(&[0, 1], 2, 2)).is_empty());
    }

    #[test]
    fn one_automatically_pinned_runtime_at_a_time() {
        static PLACE: AtomicBool = AtomicBool::new(false);
        let whole = machine(&[0, 1], 2, 2);
        let plan = || Plan::new(&Pinning::Auto, 2, &whole, &PLACE).expect("auto never fails");
        let (first, second) = (plan(), plan());
        assert_eq!(first.cpus.len(), 2);
        assert!(second.cpus.is_empty() && second.note.is_some());
        drop((first, second));
        assert_eq!(plan().cpus.len(), 2);
    }

    #[test]
    fn b103_named_cpus_are_checked_against_those_that_exist() {
        let part = machine(&[4, 6], 8, 2);
        let named = |cpus: &[usize], workers| Plan::new(&Pinning::Cores(cpus.to_vec()), workers, &part, &super::PINNED);
        assert_eq!(named(&[6, 4], 1).expect("allowed").cpus, [6]);
        assert!(named(&[0], 1).is_err() && named(&[4], 2).is_err() && named(&[], 1).is_err());
    }
}
