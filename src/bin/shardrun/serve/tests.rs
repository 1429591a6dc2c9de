//! What a real client sees of faults that only code inside the daemon can make: a writer that panics, reads without end.
//! They do not know how a root is kept.

use super::args::ServeArgs;
use super::client::Client;
use super::daemon::{Daemon, Key};
use super::frame::framed;
use super::root::Root;
use clap::Parser;
use serde_json::{Value, json};
use shardrun::{LaneHandle, LaneKind, Lanes};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(300);

#[derive(Parser)]
struct Words {
    #[command(flatten)]
    args: ServeArgs,
}

/// A client of a daemon in this process.
struct Asks(BufReader<UnixStream>);

impl Asks {
    fn of(daemon: &Arc<Daemon>) -> Self {
        let (here, there) = UnixStream::pair().unwrap();
        here.set_read_timeout(Some(SOON)).unwrap();
        Client::connect(daemon, there).unwrap();
        Asks(BufReader::new(here))
    }

    fn send(&mut self, id: u32, method: &str, params: Value) {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.0.get_mut().write_all(&framed(&request.to_string())).unwrap();
    }

    /// Cancels a request, and hears that it is.
    fn cancel(&mut self, id: u32) {
        let cancel = json!({ "jsonrpc": "2.0", "method": "$/cancelRequest", "params": { "id": id } });
        self.0.get_mut().write_all(&framed(&cancel.to_string())).unwrap();
        let answer = self.hear();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32_800)), "{answer}");
    }

    fn hear(&mut self) -> Value {
        let (mut length, mut empty) = (String::new(), String::new());
        self.0.read_line(&mut length).unwrap();
        self.0.read_line(&mut empty).unwrap();
        let length: usize = length.trim().strip_prefix("Content-Length: ").unwrap().parse().unwrap();
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.send(0, method, params);
        self.hear()
    }
}

/// A directory with one file, which goes with this.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("shardrun-serve-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("a.c"), "int a;\n").unwrap();
        Tree(path.canonicalize().unwrap())
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_writer_that_panics_breaks_its_root_alone_and_opening_it_again_mends_it() {
    let trees = [Tree::new("broken"), Tree::new("whole")];
    let root = |at: usize| json!({ "root": trees[at].0 });
    let args = Words::parse_from(["serve", "--no-watch", "--threads", "2"]).args;
    let (daemon, _woken) = Daemon::new(args).unwrap();
    let mut client = Asks::of(&daemon);
    for at in 0..2 {
        assert_eq!(client.call("open", root(at))["result"]["ready"], true);
    }
    let (breaks, held) = channel::<()>();
    let held = Mutex::new(held);
    let write = daemon.lanes.job(LaneKind::Mutating, move |_| {
        let _ = held.lock().unwrap().recv_timeout(SOON);
        panic!("asked for")
    });
    let panics: LaneHandle<()> = daemon.lanes.submit(&daemon.key(&trees[0].0), write);
    // These are queued behind it when it panics; what is asked next is answered at once, so they have been heard.
    let mut edit = root(0);
    (edit["file"], edit["text"]) = ("a.c".into(), "int b;\n".into());
    client.send(1, "edit", edit);
    client.send(2, "files", root(0));
    assert_eq!(client.call("health", json!({}))["result"]["ok"], true);
    drop(breaks);
    for _ in 0..2 {
        let answer = client.hear();
        assert!(answer["id"] == 1 || answer["id"] == 2, "{answer}");
        assert_eq!(
            (&answer["error"]["code"], &answer["error"]["data"]["code"]),
            (&json!(-32_007), &json!("actor_fatal"))
        );
    }
    assert!(panics.wait().unwrap_err().to_string().contains("asked for"));
    assert_eq!(client.call("files", root(0))["error"]["data"]["code"], "actor_fatal");
    let roots = client.call("roots", json!({}))["result"].clone();
    let states: Vec<&Value> = roots.as_array().unwrap().iter().map(|root| &root["state"]).collect();
    assert_eq!(states, ["broken", "ready"], "{roots}");
    assert_eq!(client.call("files", root(1))["result"]["files"], json!(["a.c"]), "the other goes on");
    assert_eq!(client.call("open", root(0))["result"]["ready"], true, "it begins anew");
    assert_eq!(client.call("files", root(0))["result"]["files"], json!(["a.c"]));
    assert_eq!(client.call("health", json!({}))["result"]["phantoms"], 0);
    daemon.end();
    daemon.runtime.shutdown_within(SOON);
}

/// A read that asks for the next one before it ends.
fn read_on(lanes: &Lanes<Key, Root>, key: &Key, stop: &Arc<AtomicBool>) {
    let (on, to, until) = (lanes.clone(), key.clone(), stop.clone());
    let read = lanes.job(LaneKind::PureRead, move |_| {
        if !until.load(Ordering::Relaxed) {
            read_on(&on, &to, &until);
        }
    });
    lanes.submit(key, read).detach();
}

#[test]
fn reads_that_never_end_do_not_keep_an_edit_waiting_for_seconds() {
    let tree = Tree::new("reads");
    let args = Words::parse_from(["serve", "--no-watch", "--threads", "2"]).args;
    let (daemon, _woken) = Daemon::new(args).unwrap();
    let mut client = Asks::of(&daemon);
    assert_eq!(client.call("open", json!({ "root": tree.0 }))["result"]["ready"], true);
    let (key, stop) = (daemon.key(&tree.0), Arc::new(AtomicBool::new(false)));
    (0..16).for_each(|_| read_on(&daemon.lanes, &key, &stop));
    // It is made while they go on, once it has waited for as long as a writer has to.
    let edited = client.call("edit", json!({ "root": tree.0, "file": "a.c", "text": "int b;\n" }));
    stop.store(true, Ordering::Relaxed);
    assert!(edited["result"]["version"].is_u64(), "{edited}");
    assert!(daemon.lanes.config().promote_after < Duration::from_secs(1), "lanes as they come let one wait for six");
    daemon.end();
    daemon.runtime.shutdown_within(SOON);
}

/// A daemon of two workers that watches nothing by itself, with an open root.
fn with_root(tree: &Tree) -> (Arc<Daemon>, Key, UnixStream) {
    let args = Words::parse_from(["serve", "--no-watch", "--threads", "2"]).args;
    let (daemon, woken) = Daemon::new(args).unwrap();
    assert_eq!(Asks::of(&daemon).call("open", json!({ "root": tree.0 }))["result"]["ready"], true);
    let key = daemon.key(&tree.0);
    (daemon, key, woken)
}

fn end(daemon: &Daemon) {
    daemon.end();
    daemon.runtime.shutdown_within(SOON);
}

/// Holds a lane of a root by a job, until what comes back is dropped.
fn hold(daemon: &Daemon, key: &Key, lane: LaneKind) -> Sender<()> {
    let ((begun, begins), (open, gate)) = (channel(), channel::<()>());
    let gate = Mutex::new(gate);
    let holds = daemon.lanes.job(lane, move |_| {
        begun.send(()).unwrap();
        let _ = gate.lock().unwrap().recv_timeout(SOON);
    });
    daemon.lanes.submit(key, holds).detach();
    begins.recv_timeout(SOON).unwrap();
    open
}

fn queued(daemon: &Daemon, key: &Key) -> usize {
    daemon.lanes.actor(key).unwrap().counts().maintenance_queued
}

fn wait_until(what: impl Fn() -> bool) {
    let begun = Instant::now();
    while !what() {
        assert!(begun.elapsed() < SOON);
        std::thread::yield_now();
    }
}

#[test]
fn a_client_that_cancels_its_drain_takes_nothing_from_the_watchers() {
    let tree = Tree::new("drains");
    let (daemon, key, _woken) = with_root(&tree);
    let drains = || daemon.lanes.actor(&key).unwrap().context().drains();
    let open = hold(&daemon, &key, LaneKind::Mutating);
    let mut client = Asks::of(&daemon);
    client.send(1, "drain", json!({ "root": tree.0 }));
    wait_until(|| queued(&daemon, &key) == 1);
    // Something has changed on disk.
    daemon.drain_soon(&key);
    client.cancel(1);
    drop(open);
    assert_eq!(daemon.lanes.drain(&key).wait(), Ok(()));
    assert_eq!(drains(), 1, "what has changed is taken in");
    end(&daemon);
}

#[test]
fn what_has_changed_while_a_queue_is_full_is_taken_in_once_there_is_room() {
    let tree = Tree::new("full");
    let (daemon, key, _woken) = with_root(&tree);
    let open = hold(&daemon, &key, LaneKind::Mutating);
    for _ in 0..daemon.lanes.config().maintenance_queue {
        let other = daemon.lanes.job(LaneKind::MaintenanceCommit, |_| ()).maintenance();
        daemon.lanes.submit(&key, other).detach();
    }
    daemon.drain_soon(&key);
    drop(open);
    wait_until(|| daemon.lanes.actor(&key).unwrap().context().drains() == 1);
    end(&daemon);
}

#[test]
fn a_client_that_cancels_its_drain_cancels_nobody_elses() {
    for method in ["drain", "rescan"] {
        let tree = Tree::new(method);
        let (daemon, key, _woken) = with_root(&tree);
        let open = hold(&daemon, &key, LaneKind::MaintenanceCommit);
        let mut clients = [Asks::of(&daemon), Asks::of(&daemon)];
        for (client, id) in clients.iter_mut().zip(1..) {
            client.send(id, method, json!({ "root": tree.0 }));
            assert_eq!(client.call("health", json!({}))["result"]["ok"], true);
        }
        let [first, second] = &mut clients;
        // One waits in the queue; the other joins it, and is asked for what it will see.
        wait_until(|| queued(&daemon, &key) == 1);
        fs::write(tree.0.join("b.c"), "int b;\n").unwrap();
        second.send(3, "files", json!({ "root": tree.0 }));
        assert_eq!(second.call("status", json!({ "root": tree.0 }))["id"], 0, "it waits for no drain");
        first.cancel(1);
        drop(open);
        let (drained, files) = (second.hear(), second.hear());
        assert_eq!((&drained["id"], &drained["result"]["come"]), (&json!(2), &json!(1)), "{drained}");
        assert_eq!(files["result"]["files"], json!(["a.c", "b.c"]), "{files}");
        end(&daemon);
    }
}

#[test]
fn status_of_a_root_that_is_walked_waits_for_nothing_and_holds_no_other_root_up() {
    let (slow, other) = (Tree::new("slow"), Tree::new("other"));
    let (daemon, _, _woken) = with_root(&other);
    let pipe = slow.0.join(".ignore");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut client = Asks::of(&daemon);
    client.send(1, "open", json!({ "root": slow.0 }));
    let mut walking = || client.call("progress", json!({ "root": slow.0 }))["result"]["phase"] == "walking";
    while !walking() {}
    let status = client.call("status", json!({ "root": slow.0 }));
    assert_eq!(status["result"]["ready"], false, "{status}");
    let files = client.call("files", json!({ "root": other.0 }));
    assert_eq!(files["result"]["files"], json!(["a.c"]), "{files}");
    // For who reads it there is a writer now, and then there is none, nor a pipe for who comes later.
    let writer = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    fs::remove_file(&pipe).unwrap();
    drop(writer);
    assert_eq!(client.hear()["result"]["ready"], true);
    end(&daemon);
}
