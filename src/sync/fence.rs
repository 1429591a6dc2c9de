//! The fence of the world that is built; a full one costs as little as the processor allows.
//! It does not know which stores and loads it keeps apart.

use std::sync::atomic::Ordering;

/// A fence, as the standard library's.
///
/// For a full one on x86-64 the compiler emits `mfence`, which on many processors takes several times as long as an exchange with
/// memory that changes nothing, though either keeps every store before it ahead of every load after it.
#[inline(always)]
pub(crate) fn fence(order: Ordering) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if matches!(order, Ordering::SeqCst) {
        // SAFETY: the word below the stack's end belongs to nobody (the block may push, since it does not say `nostack`), and
        // or-ing nothing into it changes nothing. The block may touch any memory for all that the compiler knows, so it moves
        // no access over it; nor does the processor over a locked instruction.
        unsafe { std::arch::asm!("lock or dword ptr [rsp - 8], 0") };
        return;
    }
    std::sync::atomic::fence(order);
}

/// A full fence for who has just made a read-modify-write of its own: on x86-64 that was one, so only the compiler is told. The
/// read-modify-write must be the thread's last access to memory before it.
#[inline(always)]
pub(crate) fn fence_behind_exchange() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    std::sync::atomic::fence(Ordering::SeqCst);
}
