//! The time of the system's last tick: a few milliseconds old at most, and read without asking the processor for its counter.
//! It does not know what a runtime needs the time for.

/// When a runtime began, on the clock that ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coarse {
    /// In nanoseconds; `None` where there is no such clock.
    begun: Option<u64>,
}

impl Coarse {
    pub(crate) fn start() -> Self {
        Self { begun: exact() }
    }

    /// Nanoseconds from the start to the last tick: never more than have passed. `None` where there is no such clock.
    #[inline]
    pub(crate) fn elapsed(self) -> Option<u64> {
        Some(ticked()?.saturating_sub(self.begun?))
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
#[inline]
fn read(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is that of a time of ours.
    let read = unsafe { libc::clock_gettime(clock, &raw mut time) } == 0;
    read.then(|| (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64))
}

#[cfg(all(target_os = "linux", not(miri)))]
fn exact() -> Option<u64> {
    read(libc::CLOCK_MONOTONIC)
}

#[cfg(all(target_os = "linux", not(miri)))]
#[inline]
fn ticked() -> Option<u64> {
    read(libc::CLOCK_MONOTONIC_COARSE)
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn exact() -> Option<u64> {
    None
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn ticked() -> Option<u64> {
    None
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use super::Coarse;
    use std::time::{Duration, Instant};

    #[test]
    fn it_is_never_ahead_and_goes_on() {
        let begun = Instant::now();
        let clock = Coarse::start();
        let Some(mut last) = clock.elapsed() else { return };
        while begun.elapsed() < Duration::from_millis(40) {
            let now = clock.elapsed().unwrap();
            assert!(now >= last && u128::from(now) <= begun.elapsed().as_nanos());
            last = now;
        }
        assert!(last > 0, "it stands still");
    }
}
