//! Where unsafe code, atomics' orderings and locks may stand, each with its reason, and which part may know which.

/// A file and why it is on the list.
pub(crate) type Listed = (&'static str, &'static str);

/// Files that may hold unsafe code.
pub(crate) const UNSAFE: &[Listed] =
    &[("src/sync/epoch.rs", "the stand-in keeps the unsafe face of the real crate's defer_unchecked")];

/// Files that may name an atomic's ordering.
pub(crate) const ORDERINGS: &[Listed] = &[
    ("src/sync/mod.rs", "the load that begins a compare-and-swap loop differs under loom"),
    ("src/sync/standin.rs", "the stand-in queues keep their length apart from their lock"),
];

/// Files that may hold a lock.
pub(crate) const LOCKS: &[Listed] = &[
    ("src/sync/mod.rs", "the door wraps the lock of the world that is built"),
    ("src/sync/standin.rs", "stand-in queues exist only under loom"),
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
