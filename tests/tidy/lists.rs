//! Where unsafe code, atomics' orderings and locks may stand, each with its reason, and which part may know which.

/// A file and why it is on the list.
pub(crate) type Listed = (&'static str, &'static str);

/// Files that may hold unsafe code.
pub(crate) const UNSAFE: &[Listed] = &[
    ("src/flight/cancel.rs", "what hears of a token belongs to the one that takes it"),
    ("src/flight/flight.rs", "the result cell is written by who sealed and read once it is finished"),
    ("src/flight/future.rs", "a future is pinned in its allocation and belongs to the claimer"),
    ("src/flight/list.rs", "an intrusive list of counted references, walked under an epoch pin"),
    ("src/flight/oneshot.rs", "the word hands the waker and the result from one side to the other"),
    ("src/flight/target.rs", "a part of an owner is the owner's reference seen through a transparent wrapper"),
    ("src/flight/task.rs", "the closure belongs to the claimer"),
    ("src/graph/combine.rs", "what is inside a combining section belongs to its server"),
    ("src/graph/counted/crew.rs", "a helper uses the deque of the seat that it has taken"),
    ("src/graph/counted/seats.rs", "a deque belongs to who has taken its seat"),
    ("src/graph/jobserver/sys.rs", "pipes with a name, and pipes that children inherit, are made by system calls"),
    ("src/sync/epoch.rs", "the stand-in keeps the unsafe face of the real crate's defer_unchecked"),
    ("src/stages/versions.rs", "the pointer to the current revision counts by hand and is read under an epoch pin"),
    ("src/runtime/affinity.rs", "the affinity mask is read and written by system calls"),
    ("src/runtime/current.rs", "a thread finds its worker by a pointer into its own frame, without a reference count"),
    ("src/runtime/fork.rs", "a handler for forked children is registered with the system"),
    ("src/runtime/hot.rs", "the stealable continuation lies in a cell that a state word guards"),
    ("src/runtime/job.rs", "a closure lies inline in an erased job, so that a small one costs no allocation"),
    ("src/runtime/permits.rs", "the line of waiters belongs to the server of a combining section"),
    ("src/runtime/timer.rs", "a deadline's job belongs to who leads its state away from armed"),
    ("src/stages/artifact.rs", "the cells of a revision and what is current in them count by hand"),
    ("src/stages/origin.rs", "the first asker is a box behind one pointer, never replaced"),
    ("src/stages/limbo.rs", "asks the epoch when a bag can be emptied"),
    ("src/stages/refs.rs", "a part of a revision or an execution makes another count of the whole"),
];

/// Files that may name an atomic's ordering.
pub(crate) const ORDERINGS: &[Listed] = &[
    ("src/admission/budget.rs", "units in reserve and those who wait in line must not miss each other"),
    ("src/admission/stripes.rs", "the reserves, one word a thread"),
    ("src/flight/cancel.rs", "the flag of a token, and who takes what hears of it"),
    ("src/flight/contain.rs", "a counter of caught panics"),
    ("src/flight/flight.rs", "its tests count what waiters are told"),
    ("src/flight/graph.rs", "how many wait, so that a nudge which nobody needs costs a load"),
    ("src/flight/list.rs", "the sealable list, with the argument of each edge beside it"),
    ("src/flight/oneshot.rs", "the one-shot's word, with the argument of each edge beside it"),
    ("src/flight/parker.rs", "the token that says why a sleeping thread was woken"),
    ("src/flight/sleepers.rs", "a sleeping future and the shutdown that is to find it"),
    ("src/flight/state.rs", "the flight's word, with the argument of each edge beside it"),
    ("src/graph/combine.rs", "the count of open requests, which says who serves"),
    ("src/graph/counted/crew.rs", "the words that count dependencies, helpers and what is left"),
    ("src/graph/counted/seats.rs", "a seat is taken and given up"),
    ("src/observe/counters.rs", "counters are relaxed, each with one writer"),
    ("src/runtime/affinity.rs", "one automatically pinned runtime at a time in a process"),
    ("src/runtime/barrier.rs", "the store-load barrier of all hand-shakes"),
    ("src/runtime/bits.rs", "the idle and resting sets: a cleared bit is a claim"),
    ("src/runtime/clock.rs", "the virtual clock and the latest time that a host's clock told"),
    ("src/runtime/crew.rs", "the parking protocol"),
    ("src/runtime/engine.rs", "the CPU of a pinned worker, for the counters"),
    ("src/runtime/fork.rs", "the number of the process"),
    ("src/runtime/hot.rs", "the stealable continuation"),
    ("src/runtime/job.rs", "its tests count drops and runs"),
    ("src/runtime/permits.rs", "the permit word, the line's combining section, its waiters"),
    ("src/runtime/start.rs", "spares are counted and started"),
    ("src/runtime/stripe.rs", "numbers are given to threads in turn"),
    ("src/runtime/threads.rs", "injected failures of thread starts, for tests"),
    ("src/runtime/timer.rs", "deadlines fire or are cancelled; the thread sleeps"),
    ("src/runtime/worker.rs", "a worker tells thieves which of its queues may hold jobs"),
    ("src/sync/mod.rs", "the load that begins a compare-and-swap loop differs under loom"),
    ("src/sync/standin.rs", "the stand-in queues keep their length apart from their lock"),
    ("src/stages/demand.rs", "the demand word, with the argument of each edge beside it"),
    ("src/stages/stamp.rs", "the stamps of versioned publication, with the argument of each edge beside it"),
    ("src/stages/tickets.rs", "the word of tickets that are out, with the argument of each edge beside it"),
    ("src/stages/sequencer.rs", "figures that are written under the section's lock alone"),
    ("src/stages/versions.rs", "the pointer to the current revision, with the argument of each edge beside it"),
    ("src/stages/artifact.rs", "the cells of a revision, what is current in them and what is ready"),
    ("src/stages/origin.rs", "the first asker of an execution"),
    ("src/stages/limbo.rs", "the flag that says that a bag is ripe"),
    ("src/stages/revision.rs", "the reason that is noted before a commit"),
    ("src/stages/counters.rs", "counts that no protocol rests on"),
    ("src/stages/shared.rs", "flags and counts that no protocol rests on"),
    ("src/stages/slot.rs", "numbers of lives, each given once"),
    ("src/stages/batch.rs", "the cursor of a batch's ticket"),
];

/// Files that may hold a lock.
pub(crate) const LOCKS: &[Listed] = &[
    ("src/flight/graph.rs", "the wait graph: only threads that wait inside a job come here"),
    ("src/runtime/driven.rs", "whose turn it is when several threads drive; not on any path of a runtime with threads"),
    ("src/runtime/threads.rs", "threads are started and joined: start and stop only"),
    ("src/runtime/timer.rs", "the heap of deadlines, between the timer's thread and a shutdown; arming takes no lock"),
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
