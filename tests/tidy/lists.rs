//! Where unsafe code, atomics' orderings and locks may stand, each with its reason, and which part may know which.

/// A file and why it is on the list.
pub(crate) type Listed = (&'static str, &'static str);

/// Files that may hold unsafe code.
pub(crate) const UNSAFE: &[Listed] = &[
    ("src/sync/epoch.rs", "the stand-in keeps the unsafe face of the real crate's defer_unchecked"),
    ("src/stages/versions.rs", "the pointer to the current revision counts by hand and is read under an epoch pin"),
];

/// Files that may name an atomic's ordering.
pub(crate) const ORDERINGS: &[Listed] = &[
    ("src/sync/mod.rs", "the load that begins a compare-and-swap loop differs under loom"),
    ("src/sync/standin.rs", "the stand-in queues keep their length apart from their lock"),
    ("src/stages/demand.rs", "the demand word, with the argument of each edge beside it"),
    ("src/stages/stamp.rs", "the stamps of versioned publication, with the argument of each edge beside it"),
    ("src/stages/tickets.rs", "the word of tickets that are out, with the argument of each edge beside it"),
    ("src/stages/sequencer.rs", "figures that are written under the section's lock alone"),
    ("src/stages/versions.rs", "the pointer to the current revision, with the argument of each edge beside it"),
];

/// Files that may hold a lock.
pub(crate) const LOCKS: &[Listed] = &[
    ("src/sync/mod.rs", "the door wraps the lock of the world that is built"),
    ("src/sync/standin.rs", "stand-in queues exist only under loom"),
    ("src/stages/sequencer.rs", "the section that puts transitions in order; nothing of the host's runs inside"),
];

/// Each part and the parts below it, which alone it may know.
pub(crate) const ARROWS: &[(&str, &[&str])] = &[
    ("report", &["stages", "graph", "admission", "flight", "runtime", "observe", "sync"]),
    ("stages", &["admission", "flight", "runtime", "observe", "sync"]),
    ("graph", &["admission", "flight", "runtime", "observe", "sync"]),
    ("admission", &["flight", "runtime", "observe", "sync"]),
    ("flight", &["runtime", "observe", "sync"]),
    ("runtime", &["observe", "sync"]),
    ("observe", &["sync"]),
    ("sync", &[]),
];
