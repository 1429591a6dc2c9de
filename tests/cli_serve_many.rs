//! `shardrun serve` under many clients: floods, kills, clients that do not read, and edits without end.
//! These tests do not know how turns are taken.
#![cfg(all(feature = "cli", target_os = "linux"))]

mod cli;

use cli::serving::{Client, Daemon, framed, fresh};
use cli::{Random, Tree};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

const BUSY: i64 = -32_001;
const CANCELLED: i64 = -32_800;
const ENDING: i64 = -32_003;
const NO_ROOT: i64 = -32_004;
const ROOTS: usize = 50;
/// Requests of one client that are in the lanes of one root.
const WINDOW: u64 = 4;
const FILES: usize = 6;

fn name(file: usize) -> String {
    format!("f{file}.c")
}

/// File `file` includes those of `imports`.
fn text(imports: &[usize]) -> String {
    imports.iter().map(|file| format!("#include \"{}\"\n", name(*file))).collect()
}

/// A chain of files, in each of many roots.
fn many(roots: usize) -> (Tree, Vec<PathBuf>) {
    let tree = Tree::new(&[]);
    for root in 0..roots {
        for file in 0..FILES {
            let next: Vec<usize> = (file + 1..FILES).take(1).collect();
            tree.write(format!("r{root}/{}", name(file)), text(&next));
        }
    }
    let roots = (0..roots).map(|root| tree.root().canonicalize().unwrap().join(format!("r{root}"))).collect();
    (tree, roots)
}

fn file_of(root: &Path, file: usize) -> Value {
    json!({ "root": root, "file": name(file), "transitive": true })
}

/// Opens a root, edits a file that nobody else does, and must see it in each read; reads others' roots besides.
fn work(client: &mut Client, roots: &[PathBuf], own: usize, seed: u64) {
    let mut random = Random::new(seed);
    let root = &roots[own];
    assert_eq!(client.result("open", json!({ "root": root }))["files"], FILES);
    for _ in 0..20 {
        let last = FILES - 1;
        let imports = if random.below(2) == 0 { vec![last] } else { vec![] };
        let edit = client.send("edit", json!({ "root": root, "file": name(0), "text": text(&imports) }));
        let read = client.send("dependencies", file_of(root, 0));
        let other = &roots[random.below(ROOTS as u64) as usize];
        let foreign = client.send("fingerprint", json!({ "root": other }));
        assert!(client.answer(edit)["result"]["version"].is_u64());
        let files: Vec<String> = imports.iter().map(|file| name(*file)).collect();
        assert_eq!(client.answer(read)["result"]["files"], json!(files));
        let foreign = client.answer(foreign);
        let known = foreign["result"]["fingerprint"].is_string() || foreign["error"]["data"]["code"].is_string();
        assert!(known, "{foreign}");
    }
}

/// Asks more than it may have open, reads all answers, and counts those that are refusals.
fn flood(client: &mut Client, root: &Path) -> usize {
    client.result("open", json!({ "root": root }));
    let mut open: HashSet<i64> = (0..500).map(|_| client.send("dependencies", file_of(root, 0))).collect();
    open.extend((0..500).map(|_| client.send("edit", json!({ "root": root, "file": name(1), "text": "int x;\n" }))));
    let mut busy = 0;
    while !open.is_empty() {
        let message = client.hear().unwrap();
        assert!(open.remove(&message["id"].as_i64().unwrap()), "answered twice: {message}");
        if message["error"]["code"] == BUSY {
            assert_eq!(message["error"]["data"]["retry"], true);
            busy += 1;
        }
    }
    busy
}

#[test]
fn fifty_roots_and_a_hundred_clients() {
    let (tree, roots) = many(ROOTS);
    let daemon = Daemon::begin(&tree, &["--max-pending", "16"]);
    let begin = Barrier::new(100);
    thread::scope(|scope| {
        for number in 0..100 {
            let (daemon, roots, begin) = (&daemon, &roots, &begin);
            scope.spawn(move || {
                let mut client = daemon.client();
                begin.wait();
                let root = &roots[number % ROOTS];
                match number {
                    // Each has a root to itself.
                    0..40 => work(&mut client, roots, number, number as u64),
                    40..70 => drop(flood(&mut client, &roots[40 + number % 10])),
                    // Killed in the middle of a message, with requests open.
                    70..90 => {
                        client.send("open", json!({ "root": root }));
                        for _ in 0..10 {
                            client.send("files", json!({ "root": root }));
                        }
                        client.raw("Content-Length: 100\r\n\r\n{");
                    }
                    // Wrong all the time.
                    _ => {
                        for _ in 0..100 {
                            client.raw(framed("{]"));
                            client.raw("nonsense\r\n\r\n");
                            let health = client.send("health", json!({}));
                            assert!(client.hear().unwrap()["error"]["code"].is_i64());
                            assert!(client.hear().unwrap()["error"]["code"].is_i64());
                            assert_eq!(client.answer(health)["result"]["ok"], true);
                        }
                    }
                }
            });
        }
    });
    let mut last = daemon.client();
    // Those that are gone have left, and nothing of them goes on.
    loop {
        let health = last.result("health", json!({}));
        if health["clients"] == 1 && health["interactive"]["running"] == 0 && health["interactive"]["queued"] == 0 {
            assert_eq!((&health["roots"], &health["phantoms"]), (&json!(ROOTS), &json!(0)), "{health}");
            break;
        }
    }
    for root in &roots {
        assert_eq!(last.result("open", json!({ "root": root }))["ready"], true);
    }
    daemon.end();
}

#[test]
fn a_flood_is_refused_beyond_what_a_client_may_have_open() {
    let (tree, roots) = many(2);
    let daemon = Daemon::begin(&tree, &["--max-pending", "1"]);
    let mut client = daemon.client();
    // It reads nothing meanwhile, so that the daemon is asked faster than it answers.
    let busy: usize = (0..20).map(|_| flood(&mut client, &roots[0])).sum();
    assert!(busy > 0);
    assert_eq!(daemon.client().result("open", json!({ "root": roots[1] }))["ready"], true);
    daemon.end();
}

#[test]
fn who_does_not_read_is_dropped() {
    let (tree, roots) = many(1);
    let daemon = Daemon::begin(&tree, &["--max-unread", "64"]);
    let mut deaf = daemon.client();
    let mut other = daemon.client();
    other.result("open", json!({ "root": roots[0] }));
    let request = framed(&json!({ "jsonrpc": "2.0", "id": "a", "method": "health" }).to_string()).repeat(100);
    // It writes until the daemon does not want to hear it any more.
    while deaf.stream.write_all(&request).is_ok() {
        assert_eq!(other.result("files", json!({ "root": roots[0] }))["files"].as_array().unwrap().len(), FILES);
    }
    while other.result("health", json!({}))["clients"] != 1 {}
    assert_eq!(other.result("health", json!({}))["clients_dropped"], 1);
    daemon.end();
}

/// Edits of one client that are answered before one that another client asked for later, where the first has asked for many.
#[test]
fn a_client_that_floods_a_root_delays_anothers_answer_by_its_window_at_most() {
    const FLOOD: u64 = 64;
    let (tree, roots) = many(1);
    let root = &roots[0];
    let daemon = Daemon::begin(&tree, &["--no-watch"]);
    let (mut flood, mut other, mut holds) = (daemon.client(), daemon.client(), daemon.client());
    let before = other.result("open", json!({ "root": root }))["version"].as_u64().unwrap();
    // A pass over the tree, beside which nobody edits, stands at a pipe until all have asked.
    let pipe = root.join(".ignore");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let rescan = holds.send("rescan", json!({ "root": root }));
    while other.result("health", json!({}))["maintenance"]["running"] != 1 {}
    let edit =
        |file: usize, number: u64| json!({ "root": root, "file": name(file), "text": format!("int x{number};\n") });
    let many: Vec<i64> = (0..FLOOD).map(|number| flood.send("edit", edit(0, number))).collect();
    // Heard, and so in line.
    assert_eq!(flood.result("health", json!({}))["ok"], true);
    let one = other.send("edit", edit(1, 0));
    assert_eq!(other.result("health", json!({}))["ok"], true);
    std::fs::write(&pipe, "").unwrap();
    std::fs::remove_file(&pipe).unwrap();
    // Each edit makes a version: it tells how many were answered before. The pass may make one, too.
    let at = other.answer(one)["result"]["version"].as_u64().unwrap() - before;
    assert!(at <= WINDOW + 2, "answered as number {at}");
    let last = many.into_iter().map(|id| flood.answer(id)["result"]["version"].as_u64().unwrap()).max().unwrap();
    assert!(last - before > FLOOD, "{last} after {before}");
    assert!(holds.answer(rescan)["result"]["version"].is_u64());
    daemon.end();
}

/// A pipe at which a walk of the root stands until it is written to.
fn pipe_in(root: &Path) -> PathBuf {
    let pipe = root.join(".ignore");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    pipe
}

#[test]
fn a_client_that_floods_a_root_delays_another_root_by_its_turn_and_not_by_its_flood() {
    const FLOOD: u64 = 1_000;
    let (tree, roots) = many(4);
    let daemon = Daemon::begin(&tree, &["--no-watch", "--threads", "1", "--max-pending", "1000"]);
    let mut clients: Vec<Client> = (0..4).map(|_| daemon.client()).collect();
    let [holds, flood, other, looks] = &mut clients[..] else { unreachable!() };
    flood.result("open", json!({ "root": roots[1] }));
    let completed =
        |looks: &mut Client| looks.result("health", json!({}))["interactive"]["completed"].as_u64().unwrap();
    // The one worker stands in a walk until all have asked.
    let held = pipe_in(&roots[0]);
    let hold = holds.send("open", json!({ "root": roots[0] }));
    while looks.result("health", json!({}))["interactive"]["running"] != 1 {}
    let edits: Vec<i64> = (0..FLOOD)
        .map(|number| {
            let text = format!("int x{number};\n");
            flood.send("edit", json!({ "root": roots[1], "file": name(0), "text": text }))
        })
        .collect();
    assert_eq!(flood.result("health", json!({}))["ok"], true);
    // So does what another client asks of another root: how much was done before it began can be counted there.
    let pipe = pipe_in(&roots[2]);
    let open = other.send("open", json!({ "root": roots[2] }));
    assert_eq!(other.result("health", json!({}))["ok"], true);
    let before = completed(looks);
    std::fs::write(&held, "").unwrap();
    // This waits until the worker stands there.
    let opened = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    let done = completed(looks) - before;
    assert!(done <= 2 * WINDOW, "{done} others went first");
    drop(opened);
    std::fs::remove_file(&pipe).unwrap();
    assert_eq!(other.answer(open)["result"]["ready"], true);
    assert_eq!(holds.answer(hold)["result"]["ready"], true);
    for id in edits {
        assert!(flood.answer(id)["result"]["version"].is_u64());
    }
    daemon.end();
}

#[test]
fn a_signal_in_a_flood_has_each_request_answered_once() {
    const CLIENTS: usize = 20;
    for round in 0..3 {
        let (tree, roots) = many(5);
        let mut daemon = Daemon::begin(&tree, &["--no-watch", "--grace", "100"]);
        let (heard, socket) = (Barrier::new(CLIENTS + 1), daemon.socket.clone());
        thread::scope(|scope| {
            for number in 0..CLIENTS {
                let (heard, socket, root) = (&heard, &socket, &roots[number % 5]);
                scope.spawn(move || {
                    let mut client = Client::connect(socket);
                    let mut open: HashSet<i64> = (0..60)
                        .map(|at| match at % 4 {
                            0 => client.send("edit", json!({ "root": root, "file": name(at % 5), "text": "int x;\n" })),
                            1 => client.send("rescan", json!({ "root": root })),
                            2 => client.send("open", json!({ "root": root })),
                            _ => client.send("dependencies", file_of(root, 0)),
                        })
                        .collect();
                    // Answers come before this one's, too; all before it have been heard.
                    let last = client.send("health", json!({}));
                    open.insert(last);
                    let mut take = |message: Value| {
                        let id = message["id"].as_i64().unwrap_or_else(|| panic!("not asked for: {message}"));
                        assert!(open.remove(&id), "answered twice: {message}");
                        let code = message["error"]["code"].as_i64();
                        let ends = code.is_none_or(|code| code == CANCELLED || code == ENDING);
                        // What was asked before the first build is not there.
                        assert!(ends || code == Some(NO_ROOT), "{message}");
                        id
                    };
                    while take(client.hear().unwrap()) != last {}
                    heard.wait();
                    while let Some(message) = client.hear() {
                        take(message);
                    }
                    assert!(open.is_empty(), "round {round}, client {number}: {open:?} are not answered");
                });
            }
            heard.wait();
            daemon.signal(Signal::TERM);
        });
        assert!(daemon.wait().success());
        assert!(!socket.exists());
    }
}

#[test]
fn what_is_closed_gives_everything_back() {
    let (tree, roots) = many(4);
    let daemon = Daemon::begin(&tree, &[]);
    let mut client = daemon.client();
    for round in 0..50 {
        let opens: Vec<i64> = roots.iter().map(|root| client.send("open", json!({ "root": root }))).collect();
        let edits = roots.iter().map(|root| json!({ "root": root, "file": name(0), "text": "int x;\n" }));
        let edits: Vec<i64> = edits.map(|edit| client.send("edit", edit)).collect();
        let again: Vec<i64> = roots.iter().map(|root| client.send("open", json!({ "root": root }))).collect();
        if round % 2 == 0 {
            client.notify("$/cancelRequest", json!({ "id": again[0] }));
        } else {
            opens.iter().for_each(|id| assert_eq!(client.answer(*id)["result"]["ready"], true));
        }
        for root in &roots {
            assert_eq!(client.result("close", json!({ "root": root })), json!({ "closed": true }));
        }
        let rest = if round % 2 == 0 { opens } else { vec![] };
        rest.into_iter().chain(edits).chain(again).for_each(|id| drop(client.answer(id)));
    }
    // They go on threads of their own time; what the system lends for watching shows that they have gone.
    let until = Instant::now() + Duration::from_secs(300);
    while daemon.threads("notify") > 0 {
        assert!(Instant::now() < until, "{} are watched still", daemon.threads("notify"));
        assert_eq!(client.result("health", json!({}))["roots"], 0);
    }
    daemon.end();
}

#[test]
fn an_hour_of_edits_leaves_all_as_from_scratch_and_nothing_behind() {
    // One a second, were there anybody to type them.
    const EDITS: u32 = 3_600;
    let mut resident = 0;
    let (tree, roots) = many(1);
    let root = &roots[0];
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut random = Random::new(seed);
    // Few threads, since each keeps some memory of its own from its first job on, however late that comes.
    let daemon = Daemon::begin(&tree, &["--no-watch", "--max-pending", "64", "--threads", "2"]);
    let mut client = daemon.client();
    client.result("open", json!({ "root": root }));
    let mut typed = vec![None; FILES];
    for round in 1..=EDITS {
        let file = random.below(FILES as u64) as usize;
        let edit = if random.below(8) == 0 {
            typed[file] = None;
            client.send("revert", json!({ "root": root, "file": name(file) }))
        } else {
            let imports: Vec<usize> = (0..FILES).filter(|&other| other != file && random.below(4) == 0).collect();
            let text = format!("{}int g{round};\n", text(&imports));
            typed[file] = Some(text.clone());
            client.send("edit", json!({ "root": root, "file": name(file), "text": text }))
        };
        let fingerprint = client.send("fingerprint", json!({ "root": root, "file": name(file) }));
        assert!(client.answer(edit)["result"]["version"].is_u64());
        let fingerprint = client.answer(fingerprint)["result"]["fingerprint"].clone();
        if round == EDITS / 4 {
            resident = daemon.resident();
        }
        if round % 300 == 0 {
            // The same, on disk.
            let copy = Tree::new(&[]);
            for (file, typed) in typed.iter().enumerate() {
                let saved = std::fs::read_to_string(root.join(name(file))).unwrap();
                copy.write(name(file), typed.as_deref().unwrap_or(&saved));
            }
            let (outlines, fingerprints) = fresh(&copy);
            assert_eq!(fingerprint, json!(fingerprints[&name(file)]), "after {round} edits, seed {seed}");
            for file in 0..FILES {
                let asked = json!({ "root": root, "file": name(file) });
                assert_eq!(
                    client.result("outline", asked.clone()),
                    outlines[&name(file)],
                    "round {round}, seed {seed}"
                );
                assert_eq!(client.result("fingerprint", asked)["fingerprint"], json!(fingerprints[&name(file)]));
            }
        }
    }
    let grown = daemon.resident().saturating_sub(resident);
    println!("{grown} bytes more");
    assert!(grown < 8 << 20, "{grown} bytes more than after a quarter of an hour");
    daemon.end();
}
