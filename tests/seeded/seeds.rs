//! Runs a timeline under each of many seeds, or under the one that `SHARDRUN_SEED` names. It does not know what happens in it.

/// `most`: how many seeds there are if `SHARDRUN_SEEDS` does not say. Panics of the payload `"as planned"` are not printed.
pub(crate) fn each(most: u64, timeline: fn(u64)) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    // Planned panics are many; the first line of each is enough noise.
    std::panic::set_hook(Box::new(|info| {
        if info.payload().downcast_ref::<&str>() != Some(&"as planned") {
            eprintln!("{info}");
        }
    }));
    if let Some(seed) = number("SHARDRUN_SEED") {
        return timeline(seed);
    }
    for seed in 0..number("SHARDRUN_SEEDS").unwrap_or(most) {
        let outcome = std::panic::catch_unwind(|| timeline(seed));
        assert!(outcome.is_ok(), "seed {seed}: run it alone with SHARDRUN_SEED={seed}");
    }
}
