//! The policy of memory that is really free: nothing more starts while the container or the machine is short of it.
//! It does not know what tasks will need.
#![forbid(unsafe_code)]

use super::ids::TaskId;
use super::policy::{Answer, Policy, Running, Wake};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How soon it looks again when memory was short.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Memory that this process may use, and what is free of it, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// How much there is: the least of the machine's and of all limits of the process's control groups.
    pub total: u64,
    /// How much of it can be had without swapping: where several limits hold, under the tightest.
    pub available: u64,
}

impl Memory {
    /// What the system says now: `/proc/meminfo` and the limits of this process's control groups, versions 1 and 2. None where
    /// the system says nothing.
    pub fn now() -> Option<Self> {
        Self::read(Path::new("/"))
    }

    /// The same, of a system whose files lie under `root`.
    pub fn read(root: &Path) -> Option<Self> {
        let machine = machine(&fs::read_to_string(root.join("proc/meminfo")).ok()?)?;
        let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
        let limits = groups.lines().filter_map(|line| group(root, line)).flatten();
        Some(limits.fold(machine, |least, limit| Self {
            total: least.total.min(limit.total),
            available: least.available.min(limit.available),
        }))
    }
}

fn machine(meminfo: &str) -> Option<Memory> {
    let field = |name: &str| -> Option<u64> {
        let rest = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok()?.checked_mul(1_024)
    };
    Some(Memory { total: field("MemTotal")?, available: field("MemAvailable")? })
}

/// The limits of one line of `/proc/self/cgroup`: of the group and of all those above it.
fn group(root: &Path, line: &str) -> Option<Vec<Memory>> {
    let mut fields = line.splitn(3, ':');
    let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let mount = root.join("sys/fs/cgroup");
    let (mount, limit, usage) = match controllers {
        "" if mount.join("cgroup.controllers").exists() => (mount, "memory.max", "memory.current"),
        "" => (mount.join("unified"), "memory.max", "memory.current"),
        list if list.split(',').any(|one| one == "memory") => {
            (mount.join("memory"), "memory.limit_in_bytes", "memory.usage_in_bytes")
        }
        _ => return None,
    };
    let path = Path::new(path.trim_start_matches('/'));
    let of = |group: PathBuf| {
        let total = number(&group.join(limit))?;
        // What is cached of files that nobody uses can be had at once.
        let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
        let cached = ["total_inactive_file ", "inactive_file "]
            .iter()
            .find_map(|name| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()))
            .unwrap_or(0);
        let used = number(&group.join(usage))?.saturating_sub(cached);
        Some(Memory { total, available: total.saturating_sub(used) })
    };
    Some(path.ancestors().filter_map(|path| of(mount.join(path))).collect())
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// An admission policy that starts nothing more while less than so much memory is free. If nothing runs it admits, since
/// waiting would not help.
///
/// It reads the figures at every question (a few microseconds), and looks again after 50 ms when memory was short.
pub struct MemoryPressure {
    floor: Floor,
    read: Box<dyn FnMut() -> Option<Memory> + Send>,
}

#[derive(Debug, Clone, Copy)]
enum Floor {
    Bytes(u64),
    Percent(u64),
}

impl MemoryPressure {
    /// Keeps so many bytes free.
    pub fn keep_bytes(bytes: u64) -> Self {
        Self { floor: Floor::Bytes(bytes), read: Box::new(Memory::now) }
    }

    /// Keeps so many hundredths of all memory free; above 100 is 100.
    pub fn keep_percent(percent: u8) -> Self {
        Self { floor: Floor::Percent(u64::from(percent.min(100))), read: Box::new(Memory::now) }
    }

    /// Takes the figures from elsewhere.
    pub fn reading(mut self, read: impl FnMut() -> Option<Memory> + Send + 'static) -> Self {
        self.read = Box::new(read);
        self
    }
}

impl std::fmt::Debug for MemoryPressure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryPressure").field("floor", &self.floor).finish_non_exhaustive()
    }
}

impl Policy for MemoryPressure {
    fn name(&self) -> &str {
        "memory pressure"
    }

    fn ask(&mut self, _: TaskId, running: &Running<'_>) -> Answer {
        if running.tasks().is_empty() {
            return Answer::Admit;
        }
        let Some(memory) = (self.read)() else { return Answer::Admit };
        let floor = match self.floor {
            Floor::Bytes(bytes) => bytes,
            Floor::Percent(percent) => memory.total / 100 * percent,
        };
        if memory.available >= floor { Answer::Admit } else { Answer::close_until(Wake::After(LOOK_AGAIN)) }
    }
}
