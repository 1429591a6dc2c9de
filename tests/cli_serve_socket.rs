//! Where `shardrun serve` serves, and `shardrun ask`: the socket's rights, what it replaces, standard input and output, exit statuses.
//! These tests do not know how a root is indexed.
#![cfg(all(feature = "cli", target_os = "linux"))]

mod cli;

use cli::serving::{Daemon, framed};
use cli::{Ran, Tree, command, run};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;

fn small() -> Tree {
    Tree::new(&[("a.c", "#include \"b.h\"\n"), ("b.h", "int b;\n")])
}

fn serve(socket: &Path) -> Ran {
    run(command().arg("serve").arg("--socket").arg(socket))
}

#[test]
fn the_socket_is_its_owners_alone_and_goes_with_the_daemon() {
    let tree = small();
    let daemon = Daemon::begin(&tree, &[]);
    for path in [daemon.socket.clone(), daemon.socket.with_extension("sock.lock")] {
        assert_eq!(fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    // A second one leaves it alone.
    let second = serve(&daemon.socket);
    assert_eq!((second.status, second.complaints().len()), (1, 1), "{second:?}");
    assert_eq!(daemon.client().result("health", json!({}))["ok"], true);
    daemon.end();
}

#[test]
fn what_is_not_a_stale_socket_is_left_alone() {
    let tree = small();
    let at = |name: &str| tree.beside(name);
    fs::write(at("file"), "text").unwrap();
    fs::create_dir(at("directory")).unwrap();
    let answers = UnixListener::bind(at("answers")).unwrap();
    symlink(at("answers"), at("link")).unwrap();
    symlink(at("nothing"), at("dangling")).unwrap();
    for name in ["file", "directory", "answers", "link", "dangling"] {
        let before = fs::symlink_metadata(at(name)).unwrap();
        let ran = serve(&at(name));
        assert_eq!((ran.status, ran.complaints().len()), (1, 1), "{name}: {ran:?}");
        let after = fs::symlink_metadata(at(name)).unwrap();
        assert_eq!((before.ino(), before.mode()), (after.ino(), after.mode()), "{name}");
    }
    assert!(!at("nothing").exists());
    drop(answers);
    // A lock that is a link is not followed.
    symlink(at("elsewhere"), at("other.lock")).unwrap();
    assert_eq!(serve(&at("other")).status, 1);
    assert!(!at("elsewhere").exists());
    // Nobody answers there any more: it is replaced, and one that was killed leaves such a socket behind.
    fs::rename(at("answers"), at("s.sock")).unwrap();
    let mut daemon = Daemon::begin(&tree, &[]);
    daemon.signal(Signal::KILL);
    daemon.wait();
    assert!(at("s.sock").exists());
    Daemon::begin(&tree, &[]).end();
}

#[test]
fn standard_input_and_output_are_served() {
    let tree = small();
    let root = tree.root().canonicalize().unwrap();
    let request = |id: u32, method: &str, params: Value| {
        framed(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string())
    };
    for last in ["shutdown", "exit", ""] {
        let mut child = command();
        child.args(["serve", "--stdio"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(&request(1, "open", json!({ "root": root }))).unwrap();
        input.write_all(&request(2, "dependants", json!({ "root": root, "file": "b.h" }))).unwrap();
        match last {
            "exit" => input.write_all(&framed("{\"jsonrpc\":\"2.0\",\"method\":\"exit\"}")).unwrap(),
            "shutdown" => input.write_all(&request(3, "shutdown", json!({}))).unwrap(),
            _ => {}
        }
        // Whoever ends its input is answered; the others leave it open.
        let held = (!last.is_empty()).then_some(input);
        let mut out = String::new();
        child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        assert!(child.wait().unwrap().success());
        drop(held);
        if last == "shutdown" {
            assert!(out.contains("\"id\":1") && out.contains("\"id\":2") && out.contains("\"id\":3"), "{out}");
        } else {
            assert!(out.contains("\"ready\":true") && out.contains("\"files\":[\"a.c\"]"), "{out}");
        }
    }
}

#[test]
fn ask_prints_results_and_exits_with_0_1_or_2() {
    let tree = small();
    let daemon = Daemon::begin(&tree, &[]);
    let ask = |words: &[&str]| {
        let socket = daemon.socket.to_str().unwrap();
        run(command().args(["ask", "--socket", socket]).args(words).current_dir(tree.root()))
    };
    let opened = ask(&["open", "root=."]);
    assert_eq!((opened.status, opened.stderr.as_str()), (0, ""));
    assert!(opened.stdout.contains("ready: true\n") && opened.stdout.contains("files: 2\n"), "{opened:?}");
    let dependants = ask(&["dependants", "root=.", "file=b.h", "transitive=true"]);
    assert!(dependants.stdout.contains("files: 1\n  a.c\n"), "{dependants:?}");
    fs::write(tree.beside("typed"), "int nothing;\n").unwrap();
    let typed = format!("text=@{}", tree.beside("typed").display());
    assert_eq!(ask(&["edit", "root=.", "file=a.c", &typed]).status, 0);
    let json = ask(&["--json", "dependants", "root=.", "file=b.h"]).json();
    assert_eq!(json["files"], json!([]));
    for (words, status) in [
        (&["outline", "root=.", "file=none"][..], 1),
        (&["files", "root=.."], 1),
        (&["guess"], 2),
        (&["outline", "root=."], 2),
        (&["outline", "nothing"], 2),
        (&["edit", "root=.", "file=a.c", "text=@/no/such/file"], 2),
        (&[], 2),
    ] {
        let ran = ask(words);
        assert_eq!((ran.status, ran.stdout.as_str()), (status, ""), "{words:?}: {ran:?}");
    }
    assert_eq!(ask(&["shutdown"]).status, 0);
    let mut daemon = daemon;
    assert!(daemon.wait().success());
    let socket = daemon.socket.to_str().unwrap().to_owned();
    let nobody = run(command().args(["ask", "--socket", &socket, "health"]));
    assert_eq!((nobody.status, nobody.complaints().len()), (1, 1), "{nobody:?}");
}
