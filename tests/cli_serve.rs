//! `shardrun serve` as one client sees it: right answers, the protocol's errors, bounds, cancels, and the end.
//! These tests do not know how a root is kept.
#![cfg(all(feature = "cli", target_os = "linux"))]

mod cli;

use cli::Tree;
use cli::serving::{Client, Daemon, code, framed, fresh};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

const PARSE: i64 = -32_700;
const INVALID: i64 = -32_600;
const NO_METHOD: i64 = -32_601;
const PARAMS: i64 = -32_602;
const CANCELLED: i64 = -32_800;
const BUSY: i64 = -32_001;
const TOO_LARGE: i64 = -32_002;
const ENDING: i64 = -32_003;
const NO_ROOT: i64 = -32_004;
const NO_FILE: i64 = -32_005;
const UNREADABLE: i64 = -32_006;

/// `main` includes `a`, which includes `b`; nothing includes `lone`.
fn small() -> Tree {
    Tree::new(&[
        ("main.c", "#include \"a.h\"\nint main(void) { return 0; }\n"),
        ("a.h", "#include \"b.h\"\nint a;\n"),
        ("b.h", "int b;\n"),
        ("lone.c", "int lone(void) { return 1; }\n"),
    ])
}

fn of(root: &Path, more: Value) -> Value {
    let mut params = json!({ "root": root });
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    params
}

/// All that the daemon says of a root is what a fresh index says.
#[track_caller]
fn is_as_fresh(client: &mut Client, root: &Path, tree: &Tree) {
    let (outlines, fingerprints) = fresh(tree);
    let files = client.result("files", of(root, json!({})));
    assert_eq!(files["files"].as_array().unwrap().len(), outlines.len());
    for (file, outline) in &outlines {
        assert_eq!(client.result("outline", of(root, json!({ "file": file }))), *outline);
        let fingerprint = client.result("fingerprint", of(root, json!({ "file": file })));
        assert_eq!(fingerprint["fingerprint"].as_str(), fingerprints.get(file).map(String::as_str), "{file}");
    }
}

/// A root whose walk does not go on before the gate is opened: who lists what is to be ignored reads a pipe.
struct Gate {
    tree: Tree,
    pipe: PathBuf,
}

impl Gate {
    fn new() -> Gate {
        let tree = small();
        let pipe = tree.root().join(".ignore");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        Gate { tree, pipe }
    }

    fn root(&self) -> Value {
        json!({ "root": self.tree.root() })
    }

    /// Returns once the walk stands there, and lets it go on.
    fn open(&self) {
        fs::write(&self.pipe, "").unwrap();
        // The next walk does not stop.
        fs::remove_file(&self.pipe).unwrap();
    }
}

#[test]
fn answers_are_those_of_an_index() {
    let tree = small();
    let daemon = Daemon::begin(&tree, &[]);
    let mut client = daemon.client();
    let root = tree.root().canonicalize().unwrap();
    let opened = client.result("open", json!({ "root": root }));
    assert_eq!(
        (opened["ready"].as_bool(), opened["files"].as_u64(), opened["edges"].as_u64()),
        (Some(true), Some(4), Some(2))
    );
    is_as_fresh(&mut client, &root, &tree);
    let mut files = |method, file, transitive| {
        let answer = client.result(method, of(&root, json!({ "file": file, "transitive": transitive })));
        answer["files"].clone()
    };
    assert_eq!(files("dependencies", "main.c", false), json!(["a.h"]));
    assert_eq!(files("dependencies", "main.c", true), json!(["a.h", "b.h"]));
    assert_eq!(files("dependants", "b.h", false), json!(["a.h"]));
    assert_eq!(files("dependants", "b.h", true), json!(["a.h", "main.c"]));
    assert_eq!(files("dependants", "lone.c", true), json!([]));
    // Opening it again builds nothing, and a root can be called by other names.
    let other = json!({ "root": root.join("..").join(root.file_name().unwrap()) });
    assert_eq!(client.result("open", other.clone())["version"], opened["version"]);
    assert_eq!(client.result("roots", json!({})).as_array().unwrap().len(), 1);
    assert_eq!(client.result("close", other), json!({ "closed": true }));
    assert_eq!(client.error("files", json!({ "root": root })), (NO_ROOT, "actor_not_registered".into()));
    assert_eq!(client.error("close", json!({ "root": root })), (NO_ROOT, "actor_not_registered".into()));
    daemon.end();
}

#[test]
fn a_read_sees_the_edit_before_it_and_the_disk_once_that_is_reverted() {
    let tree = small();
    let daemon = Daemon::begin(&tree, &[]);
    let mut client = daemon.client();
    let root = tree.root().canonicalize().unwrap();
    // Each in one breath with what was asked before it, which it must see. What is asked after it it may see as well, so that is asked later.
    client.send("open", json!({ "root": root }));
    let before = client.send("fingerprint", json!({ "root": root }));
    let before = client.answer(before)["result"]["fingerprint"].clone();
    client.send("edit", of(&root, json!({ "file": "lone.c", "text": "#include \"b.h\"\n" })));
    let edited = client.send("dependants", of(&root, json!({ "file": "b.h" })));
    assert_eq!(client.answer(edited)["result"]["files"], json!(["a.h", "lone.c"]));
    client.send("revert", of(&root, json!({ "file": "lone.c" })));
    let reverted = client.send("dependants", of(&root, json!({ "file": "b.h" })));
    let after = client.send("fingerprint", json!({ "root": root }));
    assert_eq!(client.answer(reverted)["result"]["files"], json!(["a.h"]));
    assert_eq!(client.answer(after)["result"]["fingerprint"], before);
    assert_eq!(client.error("edit", of(&root, json!({ "file": "none.c", "text": "" }))).0, NO_FILE);
    assert_eq!(client.error("outline", of(&root, json!({ "file": "none.c" }))).0, NO_FILE);
    daemon.end();
}

#[test]
fn a_rescan_takes_in_what_came_went_and_changed_and_leaves_what_is_typed() {
    let tree = small();
    let daemon = Daemon::begin(&tree, &["--no-watch"]);
    let mut client = daemon.client();
    let root = tree.root().canonicalize().unwrap();
    client.result("open", json!({ "root": root }));
    client.result("edit", of(&root, json!({ "file": "main.c", "text": "#include \"new.h\"\n" })));
    tree.write("new.h", "int new_one;\n");
    tree.write("a.h", "int a;\n");
    tree.write("main.c", "int typed_over;\n");
    fs::remove_file(tree.root().join("lone.c")).unwrap();
    let changed = client.result("rescan", json!({ "root": root }));
    assert_eq!((changed["come"].as_u64(), changed["gone"].as_u64()), (Some(1), Some(1)));
    let dependants =
        |client: &mut Client, file| client.result("dependants", of(&root, json!({ "file": file })))["files"].clone();
    assert_eq!(dependants(&mut client, "new.h"), json!(["main.c"]));
    assert_eq!(dependants(&mut client, "b.h"), json!([]));
    client.result("revert", of(&root, json!({ "file": "main.c" })));
    assert_eq!(dependants(&mut client, "new.h"), json!([]));
    is_as_fresh(&mut client, &root, &tree);
    daemon.end();
}

#[test]
fn what_changes_on_disk_is_taken_in() {
    let tree = small();
    let daemon = Daemon::begin(&tree, &[]);
    let mut client = daemon.client();
    let root = tree.root().canonicalize().unwrap();
    client.result("open", json!({ "root": root }));
    tree.write("lone.c", "#include \"b.h\"\n");
    tree.write("deep/er/new.c", "#include \"../../b.h\"\n");
    // The system tells in its own time; what it has told is taken in by a pass that nobody asked for.
    loop {
        let found = client.result("dependants", of(&root, json!({ "file": "b.h" })));
        if found["files"] == json!(["a.h", "deep/er/new.c", "lone.c"]) {
            break;
        }
    }
    let status = client.result("status", json!({ "root": root }));
    assert!(status["drains"].as_u64().unwrap() > 0 && status["watched_directories"].as_u64().unwrap() >= 3, "{status}");
    client.result("drain", json!({ "root": root }));
    is_as_fresh(&mut client, &root, &tree);
    daemon.end();
}

#[test]
fn what_is_no_request_gets_the_protocols_error_and_the_connection_lives() {
    let tree = small();
    let daemon = Daemon::begin(&tree, &["--max-request", "4"]);
    let mut client = daemon.client();
    let cases: [(Vec<u8>, i64, &str); 19] = [
        (framed("{"), PARSE, "parse_error"),
        (framed("\u{0}"), PARSE, "parse_error"),
        (framed(&"[".repeat(2_000)), PARSE, "parse_error"),
        (framed(""), PARSE, "parse_error"),
        // Neither text nor in a text that is.
        (b"Content-Length: 4\r\n\r\n\xff\xfe\xfd\xfc".to_vec(), PARSE, "parse_error"),
        (b"Content-Length: 10\r\n\r\n{\"a\":\"\xc3\x28\"}".to_vec(), PARSE, "parse_error"),
        (framed("[]"), INVALID, "invalid_request"),
        (framed("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"health\"},{}]"), INVALID, "invalid_request"),
        (framed("\"health\""), INVALID, "invalid_request"),
        (framed("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"health\"}"), INVALID, "invalid_request"),
        (framed("{\"jsonrpc\":\"2.0\",\"method\":\"health\",\"params\":[]}"), INVALID, "invalid_request"),
        (framed("{\"jsonrpc\":\"2.0\",\"id\":[],\"method\":\"health\"}"), INVALID, "invalid_request"),
        (framed("{\"id\":1,\"method\":\"health\"}"), INVALID, "invalid_request"),
        (framed(&" ".repeat(4_097)), TOO_LARGE, "request_too_large"),
        (b"Content-Length: many\r\n\r\n{}".to_vec(), PARSE, "malformed_headers"),
        (b"Content-Length: 99999999999999999999999\r\n\r\n{}".to_vec(), PARSE, "malformed_headers"),
        (b"Content-Length: 18446744073709551615\r\n\r\n{}".to_vec(), PARSE, "malformed_headers"),
        (b"Accept: all\r\n\r\n{}".to_vec(), PARSE, "malformed_headers"),
        ("x".repeat(100_000).into_bytes(), PARSE, "malformed_headers"),
    ];
    for (bytes, number, name) in cases {
        client.raw(&bytes);
        // The next length ends what was no header.
        let health = client.send("health", json!({}));
        let error = client.hear().unwrap();
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        assert_eq!(code(&error), (number, name.to_owned()), "{shown}");
        assert_eq!(client.answer(health)["result"]["ok"], true, "{shown}");
    }
    // A message that is much too long is skipped to its end, however it comes.
    client.raw(b"Content-Length: 8000000\r\n\r\n");
    (0..80).for_each(|_| client.raw(vec![b'{'; 100_000]));
    assert_eq!(code(&client.hear().unwrap()), (TOO_LARGE, "request_too_large".into()));
    let root = tree.root();
    assert_eq!(client.error("guess", json!({ "root": root })).0, NO_METHOD);
    assert_eq!(client.error("open", json!({ "root": "relative" })).0, PARAMS);
    assert_eq!(client.error("open", json!([])).0, PARAMS);
    assert_eq!(client.error("edit", json!({ "root": root, "file": "a.h" })).0, PARAMS);
    assert_eq!(client.error("open", json!({ "root": root, "more": 1 })).0, PARAMS);
    assert_eq!(client.error("open", json!({ "root": "/no/such/directory" })).0, UNREADABLE);
    assert_eq!(client.error("open", json!({ "root": root.join("a.h") })).0, UNREADABLE);
    // Nothing answers a notification, nor an answer to nothing.
    client.notify("guess", json!({}));
    client.notify("health", json!({}));
    for id in [json!(77), json!("77"), json!(null), json!([]), json!(1.5)] {
        client.notify("$/cancelRequest", json!({ "id": id }));
    }
    client.notify("$/cancelRequest", json!({}));
    client.raw(framed("{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":0}"));
    assert_eq!(client.result("health", json!({}))["ok"], true);
    daemon.end();
}

#[test]
fn an_id_that_is_in_use_is_refused_without_an_answer_in_its_name() {
    let gate = Gate::new();
    let daemon = Daemon::begin(&gate.tree, &[]);
    let mut client = daemon.client();
    let asked = |id: Value, method: &str| {
        framed(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": gate.root() }).to_string())
    };
    client.raw(asked(json!("7"), "open"));
    for method in ["files", "health", "guess", "open"] {
        client.raw(asked(json!("7"), method));
        let refused = client.hear().unwrap();
        assert_eq!((code(&refused).0, &refused["id"]), (INVALID, &Value::Null), "{method}: {refused}");
        assert_eq!(refused["error"]["data"]["id"], "7");
    }
    // A number is another name than a text.
    client.raw(asked(json!(7), "guess"));
    let answer = client.hear().unwrap();
    assert_eq!((code(&answer).0, &answer["id"]), (NO_METHOD, &json!(7)), "{answer}");
    gate.open();
    let answer = client.hear().unwrap();
    assert_eq!(answer["id"], "7", "{answer}");
    // Then it is free.
    client.raw(asked(json!("7"), "files"));
    let answer = client.hear().unwrap();
    assert_eq!((&answer["id"], &answer["result"]["version"]), (&json!("7"), &json!(0)), "{answer}");
    daemon.end();
}

#[test]
fn half_messages_end_with_their_connection_and_what_was_whole_is_answered() {
    let tree = small();
    let daemon = Daemon::begin(&tree, &[]);
    for half in ["", "Conte", "Content-Length: 10", "Content-Length: 10\r\n\r\n", "Content-Length: 10\r\n\r\n{\"json"] {
        let mut client = daemon.client();
        let whole = client.send("open", json!({ "root": tree.root() }));
        client.raw(half);
        client.say_no_more();
        assert_eq!(client.answer(whole)["result"]["ready"], true);
        assert_eq!(client.hear(), None);
    }
    assert_eq!(daemon.client().result("health", json!({}))["ok"], true);
    daemon.end();
}

#[test]
fn one_client_may_have_so_much_open_and_others_are_not_held_up() {
    let (gate, other) = (Gate::new(), small());
    let daemon = Daemon::begin(&other, &["--max-pending", "4", "--window", "2", "--threads", "2"]);
    let mut client = daemon.client();
    let open = client.send("open", gate.root());
    let progress = client.send("progress", gate.root());
    // It is asked while the build runs, or before it began.
    let phase = client.answer(progress)["result"]["phase"].clone();
    assert!(phase == "walking" || phase == "not built", "{phase}");
    let waiting: Vec<i64> = (0..3).map(|_| client.send("files", gate.root())).collect();
    let refused = client.call("files", gate.root());
    assert_eq!(code(&refused), (BUSY, "client_busy".into()));
    let data = &refused["error"]["data"];
    assert_eq!(
        (&data["retry"], &data["scope"], &data["depth"], &data["cap"]),
        (&json!(true), &json!("client"), &json!(4), &json!(4))
    );
    // One that waits in the client's line is cancelled at once; one that is queued in the lane as well.
    for at in [2, 0] {
        client.notify("$/cancelRequest", json!({ "id": waiting[at] }));
        let cancelled = client.answer(waiting[at]);
        assert_eq!(code(&cancelled), (CANCELLED, "request_cancelled".into()));
    }
    let mut stranger = daemon.client();
    assert_eq!(stranger.result("open", json!({ "root": other.root() }))["ready"], true);
    assert_eq!(stranger.error("files", gate.root()), (NO_ROOT, "root_not_built".into()));
    gate.open();
    assert_eq!(client.answer(open)["result"]["ready"], true);
    assert_eq!(client.answer(waiting[1])["result"]["files"].as_array().unwrap().len(), 4);
    assert_eq!(client.result("health", json!({}))["phantoms"], 0);
    daemon.end();
}

#[test]
fn a_build_that_is_cancelled_or_whose_client_is_gone_can_be_begun_again() {
    for gone in [false, true] {
        let gate = Gate::new();
        let daemon = Daemon::begin(&gate.tree, &["--threads", "2"]);
        let mut client = daemon.client();
        let open = client.send("open", gate.root());
        while client.result("progress", gate.root())["phase"] != "walking" {}
        let mut other = daemon.client();
        if gone {
            drop(client);
            // It is gone once the daemon has one client.
            while other.result("health", json!({}))["clients"] != 1 {}
            gate.open();
        } else {
            client.notify("$/cancelRequest", json!({ "id": open }));
            client.result("health", json!({}));
            gate.open();
            assert_eq!(code(&client.answer(open)), (CANCELLED, "request_cancelled".into()));
        }
        assert_eq!(other.result("open", gate.root())["files"], 4);
        daemon.end();
    }
}

#[test]
fn a_signal_answers_or_refuses_all_that_is_open() {
    for signal in [Signal::TERM, Signal::INT] {
        let gate = Gate::new();
        let mut daemon = Daemon::begin(&gate.tree, &["--window", "1", "--grace", "100"]);
        let mut client = daemon.client();
        let open = client.send("open", gate.root());
        let waiting: Vec<i64> = (0..5).map(|_| client.send("files", gate.root())).collect();
        let mut other = daemon.client();
        while other.call("progress", gate.root())["result"]["phase"] != "walking" {}
        client.result("health", json!({}));
        daemon.signal(signal);
        for id in waiting {
            assert_eq!(code(&client.answer(id)), (ENDING, "executor_shutdown".into()));
        }
        assert_eq!(client.error("health", json!({})).0, ENDING);
        assert_eq!(client.error("open", gate.root()).0, ENDING);
        assert!(!daemon.socket.exists());
        gate.open();
        let (number, _) = code(&client.answer(open));
        assert!(number == CANCELLED || number == ENDING, "{number}");
        assert_eq!(client.hear(), None);
        assert!(daemon.wait().success());
    }
}

#[test]
fn what_does_not_end_in_time_is_refused() {
    let gate = Gate::new();
    let mut daemon = Daemon::begin(&gate.tree, &["--grace", "0"]);
    let mut client = daemon.client();
    let open = client.send("open", gate.root());
    while client.result("progress", gate.root())["phase"] != "walking" {}
    daemon.signal(Signal::TERM);
    // Without any grace even the refusal may not be read; but the daemon ends.
    while let Some(message) = client.hear() {
        assert_eq!((message["id"].as_i64(), code(&message).0), (Some(open), ENDING));
    }
    assert!(daemon.wait().success());
}

#[test]
fn a_shutdown_that_is_asked_for_is_answered_and_then_all_ends() {
    let tree = small();
    let mut daemon = Daemon::begin(&tree, &[]);
    let mut client = daemon.client();
    assert_eq!(client.result("initialize", json!({ "processId": 1 }))["serverInfo"]["name"], "shardrun");
    assert_eq!(client.result("shutdown", json!({})), Value::Null);
    assert_eq!(client.hear(), None);
    assert!(daemon.wait().success());
    assert!(!daemon.socket.exists());
}
