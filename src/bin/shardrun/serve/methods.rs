//! How each method is answered: at once, or by a job in one of the lanes of a root.
//! It does not know which client asks, nor in which order jobs are taken.
#![forbid(unsafe_code)]

use super::call::{Call, Plain};
use super::daemon::{Daemon, Key};
use super::query::{self, Way};
use super::root::Root;
use super::rpc::{Failure, Outcome};
use serde_json::{Value, json};
use shardrun::{ActorRef, CoalesceKey, LaneCx, LaneHandle, LaneKind, LaneTicket};
use std::path::Path;
use std::sync::{Arc, PoisonError};

/// What a job sees.
type Cx = LaneCx<Key, Root>;
/// A root that is registered.
type Actor = ActorRef<Key, Root>;

/// Answers what is asked of the daemon as a whole.
pub(super) fn plain(daemon: &Daemon, plain: &Plain) -> Outcome {
    let answer = match plain {
        Plain::Initialize => json!({
            "capabilities": {},
            "serverInfo": { "name": "shardrun", "version": env!("CARGO_PKG_VERSION") },
        }),
        Plain::Health => health(daemon),
        Plain::Roots => roots(daemon),
        Plain::Shutdown => Value::Null,
        Plain::Close(root) => return close(daemon, root),
    };
    Ok(answer.to_string())
}

fn close(daemon: &Daemon, root: &Path) -> Outcome {
    if daemon.lanes.remove(&daemon.key(root)) {
        Ok(json!({ "closed": true }).to_string())
    } else {
        Err(Failure::not_open())
    }
}

fn roots(daemon: &Daemon) -> Value {
    let mut roots: Vec<(String, Value)> = daemon
        .lanes
        .actors()
        .iter()
        .map(|actor| {
            let (root, path) = (actor.context(), actor.key().to_string_lossy().into_owned());
            let state = if actor.is_fatal() { "broken" } else { root.progress().0 };
            let counts = actor.counts();
            let running = counts.reads + counts.status + counts.heavy + counts.writers + counts.commits;
            let queued = counts.interactive_queued + counts.maintenance_queued;
            let row = json!({ "root": path, "state": state, "running": running, "queued": queued });
            (path, row)
        })
        .collect();
    roots.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    roots.into_iter().map(|(_, row)| row).collect()
}

fn health(daemon: &Daemon) -> Value {
    let live = daemon.lanes.liveness();
    let (interactive, maintenance) = daemon.lanes.completed();
    let millis = |age: Option<std::time::Duration>| age.map(|age| age.as_secs_f64() * 1e3);
    let running: Vec<Value> = daemon
        .lanes
        .running()
        .iter()
        .map(|job| {
            let root = job.actor.as_ref().map(|actor| actor.key().to_string_lossy().into_owned());
            json!({ "root": root, "method": job.label, "lane": job.lane.to_string(), "age_ms": millis(Some(job.age)) })
        })
        .collect();
    let figures = daemon.figures();
    json!({
        "ok": !daemon.is_ending(),
        "ending": daemon.is_ending(),
        "uptime_ms": millis(Some(daemon.began.elapsed())),
        "roots": daemon.lanes.actor_count(),
        "clients": figures.clients,
        "clients_refused": figures.refused,
        "clients_dropped": figures.dropped,
        "workers": daemon.runtime.workers(),
        "slots_idle": live.idle,
        "phantoms": live.phantoms,
        "interactive": {
            "queued": live.interactive.queued, "running": live.interactive.running,
            "oldest_ms": millis(live.interactive.oldest), "completed": interactive,
        },
        "maintenance": {
            "queued": live.maintenance.queued, "running": live.maintenance.running,
            "oldest_ms": millis(live.maintenance.oldest), "completed": maintenance,
        },
        "running": running,
    })
}

/// Submits what is asked of a root. It is not begun before the job of `after` is over. The root, if it is to be told when it is over.
pub(super) fn submit(
    daemon: &Daemon,
    key: &Key,
    call: Call,
    after: Option<LaneTicket>,
) -> (LaneHandle<Outcome>, Option<Arc<Root>>) {
    match daemon.lanes.actor(key) {
        Some(actor) if call == Call::Open => (open(daemon, &actor), Some(actor.context().clone())),
        Some(actor) => (ask(daemon, &actor, call, after), None),
        // An actor that is not there refuses by itself. Should it have come by now: when this was asked there was none.
        None => {
            (daemon.lanes.submit(key, daemon.lanes.job(LaneKind::PureRead, |_: &Cx| Err(Failure::not_open()))), None)
        }
    }
}

fn ask(daemon: &Daemon, actor: &Actor, call: Call, after: Option<LaneTicket>) -> LaneHandle<Outcome> {
    let root = actor.context().clone();
    match call {
        Call::Open => open(daemon, actor),
        Call::Edit { file, text } => write(daemon, actor, "edit", after, file, move || Some(text)),
        Call::Revert { file } => write(daemon, actor, "revert", after, file, || None),
        Call::Outline { file } => read(daemon, actor, "outline", after, move || query::outline(&root, &file)),
        Call::Dependencies { file, transitive } => {
            read(daemon, actor, "dependencies", after, move || query::neighbours(&root, &file, Way::Down, transitive))
        }
        Call::Dependants { file, transitive } => {
            read(daemon, actor, "dependants", after, move || query::neighbours(&root, &file, Way::Up, transitive))
        }
        Call::Fingerprint { file } => {
            read(daemon, actor, "fingerprint", after, move || query::fingerprint(&root, file.as_deref()))
        }
        Call::Files => read(daemon, actor, "files", after, move || query::files(&root)),
        // These ask how things stand now, and would come too late after a build.
        Call::Status => status(daemon, actor, "status", query::status),
        Call::Progress => status(daemon, actor, "progress", |root| query::progress(root).to_string()),
        Call::Drain => drain(daemon, actor, "drain", after),
        Call::Rescan => drain(daemon, actor, "rescan", after),
    }
}

fn read(
    daemon: &Daemon,
    actor: &Actor,
    label: &'static str,
    after: Option<LaneTicket>,
    query: impl FnOnce() -> Outcome + Send + 'static,
) -> LaneHandle<Outcome> {
    let mut job = daemon.lanes.job(LaneKind::PureRead, move |cx: &Cx| {
        cx.check().map_err(|_| Failure::cancelled())?;
        query()
    });
    if let Some(after) = after {
        job = job.after(after);
    }
    actor.submit(job.named(daemon.number(), label))
}

fn status(
    daemon: &Daemon,
    actor: &Actor,
    label: &'static str,
    query: impl FnOnce(&Root) -> String + Send + 'static,
) -> LaneHandle<Outcome> {
    let job = daemon.lanes.job(LaneKind::SerialLspStatus, move |cx: &Cx| Ok(query(cx.context())));
    actor.submit(job.named(daemon.number(), label))
}

fn write(
    daemon: &Daemon,
    actor: &Actor,
    label: &'static str,
    after: Option<LaneTicket>,
    file: String,
    text: impl FnOnce() -> Option<std::sync::Arc<[u8]>> + Send + 'static,
) -> LaneHandle<Outcome> {
    let mut job = daemon.lanes.job(LaneKind::Mutating, move |cx: &Cx| {
        if !cx.seal() {
            return Err(Failure::cancelled());
        }
        let (changed, version) = cx.context().edit(&file, text())?;
        Ok(query::changed(changed, version))
    });
    if let Some(after) = after {
        job = job.after(after);
    }
    actor.submit(job.named(daemon.number(), label))
}

/// One pass that is queued serves all who ask before it begins.
fn drain(daemon: &Daemon, actor: &Actor, label: &'static str, after: Option<LaneTicket>) -> LaneHandle<Outcome> {
    let all = label == "rescan";
    // Not the key of the daemon's own: who cancels this one cancels nothing that the daemon relies on.
    let key = if all { CoalesceKey::STANDING_PASS } else { CoalesceKey::LSP_DRAIN };
    let this = daemon.this.clone();
    let mut job = daemon.lanes.job(LaneKind::MaintenanceCommit, move |cx: &Cx| {
        cx.check().map_err(|_| Failure::cancelled())?;
        let root = cx.context();
        let drained = root.drain(all, || cx.seal());
        if let (Err(_), Some(daemon), true) = (&drained, this.upgrade(), root.is_watched()) {
            // What was told of has been taken, and is not in the index.
            daemon.drain_soon(cx.key());
        }
        drained.map(|(changed, version)| query::changed(changed, version))
    });
    if let Some(after) = after {
        job = job.after(after);
    }
    actor.submit(job.joined(key).named(daemon.number(), label))
}

/// Builds the index of a root unless it is there. Of several at once the later ones begin when the earlier ones are over.
fn open(daemon: &Daemon, actor: &Actor) -> LaneHandle<Outcome> {
    let build = |cx: &Cx| match cx.context().is_ready() {
        true => Ok(None),
        false => cx.context().build(|| !cx.is_cancelled()).map(Some),
    };
    let this = daemon.this.clone();
    let install = move |cx: &Cx, built: Result<Option<_>, Failure>| {
        let root = cx.context();
        if let Some(index) = built? {
            if !cx.seal() {
                root.give_up();
                return Err(Failure::cancelled());
            }
            root.install(index);
            // Directories may have changed after they were listed and before they were watched.
            if let (Some(daemon), true) = (this.upgrade(), root.is_watched()) {
                daemon.drain_soon(cx.key());
            }
        }
        Ok(query::status(root))
    };
    let mut job = daemon.lanes.heavy(build, install).named(daemon.number(), "open");
    let mut opening = actor.context().opening.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(before) = opening.take() {
        job = job.after(before);
    }
    let handle = actor.submit(job);
    *opening = handle.ticket().cloned();
    handle
}
