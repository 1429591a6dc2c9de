//! Seeded bugs: a protocol names the places where it can be broken on purpose, so that its model can be shown to notice.
//! It does not know which protocols there are.
#![forbid(unsafe_code)]

/// Whether the seeded bug `name` is switched on. Always false outside the model checkers, and folded away by the compiler.
///
/// A model run as a child process with `SHARDRUN_MUTANT=name` in its environment must fail; `tests/models/runner.rs` holds
/// the list of pairs and checks each.
#[inline(always)]
pub(crate) fn mutant(name: &str) -> bool {
    #[cfg(all(test, any(shardrun_loom, shardrun_shuttle)))]
    {
        use std::sync::OnceLock;
        static ON: OnceLock<Option<String>> = OnceLock::new();
        ON.get_or_init(|| std::env::var("SHARDRUN_MUTANT").ok()).as_deref() == Some(name)
    }
    #[cfg(not(all(test, any(shardrun_loom, shardrun_shuttle))))]
    {
        let _ = name;
        false
    }
}
