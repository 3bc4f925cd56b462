//! Rights that are asked for before work, that keep their scope, and that end; places that one client cannot keep.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use inhaul_hostile_tests::{
    Heard, Outcome, RawPut, Running, Scratch, Server, Session, Start, figures, heavy, inhaul, noise, wait_for,
};
use inhaul_mover::frame::{Frame, RefusalCode, SessionRole};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(30);
/// Wrong words; busy; the right is missing: docs/exit-codes.md.
const USAGE: i32 = 2;
const NO_RIGHT: i32 = 18;

/// A server that gives nothing to strangers, with the directories `offered` and `inbox`.
struct Closed {
    files: Scratch,
    state: Scratch,
    server: Server,
}

/// The program with these words and these keys; servers give nothing to strangers.
fn with_state(state: &Path, words: &[&str]) -> Start {
    let start = inhaul(words).variable("INHAUL_STATE", state);
    ["PUBLIC", "PUBLIC_PUTS", "PUBLIC_COPIES"]
        .iter()
        .fold(start, |start, name| start.variable(format!("INHAUL_SERVE_{name}"), "false"))
}

impl Closed {
    fn start(words: &[&str]) -> Self {
        let (files, state) = (Scratch::new(), Scratch::new());
        files.file("offered/f", &noise(100_000, 1));
        std::fs::create_dir(files.path().join("inbox")).unwrap();
        let serve = with_state(state.path(), &["serve", "--listen", "127.0.0.1:0", "--grace", "0", "--accept-puts"]);
        let server = serve.arg(files.path().join("inbox")).args(words).arg(files.path().join("offered")).serve();
        Self { files, state, server }
    }

    /// The ticket in the address that `inhaul token make` prints.
    fn ticket(&self, words: &[&str]) -> String {
        let made = with_state(self.state.path(), &[&["token", "make"], words].concat()).finish(PATIENCE);
        assert_eq!(made.code, Some(0), "{}", made.summary());
        made.stdout.trim().split_once('#').unwrap().1.to_owned()
    }

    fn put(&self, from: &str, path: &str, ticket: &str, words: &[&str]) -> Start {
        let start = inhaul(["put", "-q", "--retry-for", "0s"]).args(words).arg(self.files.path().join(from));
        start.arg(format!("{}#{ticket}", self.server.source(path)))
    }

    fn put_now(&self, from: &str, path: &str, ticket: &str) -> Outcome {
        self.put(from, path, ticket, &["--overwrite"]).finish(PATIENCE)
    }
}

#[test]
fn an_address_that_is_made_is_that_of_the_server_that_runs() {
    let mut closed = Closed::start(&[]);
    let make = ["token", "make", "--read", "/offered/f"];
    let made = with_state(closed.state.path(), &make).finish(PATIENCE);
    let address = format!("inhaul://{}/offered/f#", closed.server.address);
    assert!(made.stdout.starts_with(&address), "{address}: {}", made.summary());
    let (got, state) = (closed.files.path().join("got"), Scratch::new());
    let get = with_state(state.path(), &["get", "-q", made.stdout.trim()]).arg(got).finish(PATIENCE);
    assert_eq!(get.code, Some(0), "{}", get.summary());
    closed.server.running.kill();
    let without = with_state(closed.state.path(), &make).finish(PATIENCE);
    assert!(without.stdout.contains(":4321/offered/f#"), "{}", without.stdout);
}

#[test]
fn orders_of_strangers_cost_next_to_nothing() {
    let _alone = heavy();
    let closed = Closed::start(&[]);
    let mut order = RawPut::order_to("x");
    order["rules"] = json!(vec![json!({ "exclude": "?".repeat(200) }); 4000]);
    let order = Frame::Delegate { order: order.to_string().into_bytes() };
    let before = closed.server.running.readings();
    for _ in 0..4 {
        let mut session = Session::connect(closed.server.address).unwrap();
        session.hello(SessionRole::Delegate, "gtp");
        session.send(&order).unwrap();
        let heard = session.receive(PATIENCE);
        assert!(matches!(&heard, Heard::Frame(Frame::Refused { code: RefusalCode::NoRight, .. })), "{heard:?}");
    }
    let after = closed.server.running.readings();
    let (grown, cpu) = (after.memory_peak - before.memory, after.cpu - before.cpu);
    assert!(grown < 64 << 20, "{grown} bytes");
    figures("four orders of 868 kB by a stranger", &format!("{} MB, {cpu:?} of CPU, refused", grown >> 20));
}

#[test]
fn orders_with_too_many_patterns_are_refused_from_any_client() {
    let closed = Closed::start(&["--public-puts"]);
    let mut order = RawPut::order_to("x");
    for rules in [json!(vec![json!({ "exclude": "a" }); 1001]), json!(vec![json!({ "exclude": "?".repeat(200) }); 400])]
    {
        order["rules"] = rules;
        let heard = RawPut::begin(closed.server.address, &order).unwrap_err();
        let Heard::Frame(Frame::Refused { code: RefusalCode::Malformed, text }) = heard else { panic!("{heard:?}") };
        assert!(text.contains("are too many"), "{text}");
    }
    assert!(closed.server.running.is_running());
}

#[test]
fn a_right_to_write_is_not_led_out_of_its_path_by_a_link_that_was_put() {
    let closed = Closed::start(&[]);
    let inbox = |path: &str| closed.files.path().join("inbox").join(path);
    for directory in ["a", "b"] {
        std::fs::create_dir(inbox(directory)).unwrap();
    }
    std::fs::write(inbox("b/keep"), b"b's own").unwrap();
    closed.files.file("evil", b"evil");
    closed.files.file("tree/f", b"f");
    symlink("../../b", closed.files.path().join("tree/x")).unwrap();
    let ticket = closed.ticket(&["--write", "/a", "--until", "1h"]);
    let planted = closed.put_now("tree", "/a/", &ticket);
    assert_eq!(planted.code, Some(0), "{}", planted.summary());
    assert!(inbox("a/tree/x").is_symlink());
    for path in ["/a/tree/x/keep", "/a/tree/x/evil", "/a/tree/x/"] {
        let led_out = closed.put_now("evil", path, &ticket);
        assert_eq!(led_out.code, Some(9), "{}", led_out.summary());
        assert!(led_out.stderr.contains("leads outside"), "{}", led_out.stderr);
    }
    assert_eq!(std::fs::read(inbox("b/keep")).unwrap(), b"b's own");
    assert_eq!(std::fs::read_dir(inbox("b")).unwrap().count(), 1);
    // Within the right, links are followed, and the log says where they lead.
    std::fs::create_dir(inbox("a/d")).unwrap();
    symlink("../d", inbox("a/tree/inner")).unwrap();
    assert_eq!(closed.put_now("evil", "/a/tree/inner/g", &ticket).code, Some(0));
    assert_eq!(std::fs::read(inbox("a/d/g")).unwrap(), b"evil");
    let log = std::fs::read_to_string(closed.state.path().join("audit.log")).unwrap();
    let moved = log.lines().find(|line| line.contains("\"event\":\"moved\"") && line.contains("/g\"")).unwrap();
    assert!(moved.contains("\"path\":\"/a/d/g\""), "{moved}");
    figures("write=/a: a link that was put leads to /b", "exit 9, three times; nothing in /b has changed");
}

#[test]
fn a_right_that_was_handed_on_is_listed_and_ends_with_its_key() {
    let (from, alice) = (Closed::start(&[]), Scratch::new());
    let key = with_state(alice.path(), &["key", "make"]).finish(PATIENCE).stdout;
    let key = key.lines().find_map(|line| line.strip_prefix("client")).unwrap().trim().to_owned();
    let authorized = from.state.path().join("authorized_keys");
    std::fs::write(&authorized, format!("{key} read=/\n")).unwrap();
    let to = Closed::start(&["--accept-copies-from", &from.server.address.to_string()]);
    let copies = to.ticket(&["--copy", "/", "--until", "1h"]);
    let source = with_state(alice.path(), &["copy", "-q", "--accept-new", &from.server.source("/f")]);
    let copied = source.arg(format!("{}#{copies}", to.server.source("/"))).finish(PATIENCE);
    assert_eq!(copied.code, Some(0), "{}", copied.summary());
    assert_eq!(std::fs::read(to.files.path().join("inbox/f")).unwrap(), noise(100_000, 1));
    let listed = || with_state(from.state.path(), &["token", "list"]).finish(PATIENCE).stdout;
    let lines = listed();
    let line = lines.lines().find(|line| line.contains(&key)).unwrap_or_else(|| panic!("{lines}"));
    assert!(line.contains("read") && line.contains("/f"), "{line}");
    let name = line.split_whitespace().next().unwrap();
    std::fs::write(&authorized, "# nobody\n").unwrap();
    assert!(!listed().contains(name), "it has ended with its key");
    std::fs::write(&authorized, format!("{key} read=/\n")).unwrap();
    assert!(listed().contains(name));
    assert_eq!(with_state(from.state.path(), &["token", "revoke", name]).finish(PATIENCE).code, Some(0));
    assert!(!listed().contains(name), "it was revoked");
    figures("a token that a client has asked for", "listed with key and host; ends with the key; can be revoked");
}

#[test]
fn tokens_come_from_files_and_variables_and_stand_in_no_message() {
    let closed = Closed::start(&[]);
    let ticket = closed.ticket(&["--read", "/", "--until", "1h"]);
    let (fingerprint, token) = ticket.split_once('.').unwrap();
    let bare = closed.server.source("/f");
    let file = closed.files.file("token", format!("{}#{ticket}\n", closed.server.address).as_bytes());
    let mode = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    let get = |source: &str| inhaul(["get", "-q", source]).arg(closed.files.path().join(noise_name()));
    assert_eq!(get(&bare).finish(PATIENCE).code, Some(NO_RIGHT));
    mode(0o600);
    let by_file = get(&bare).arg("--token-file").arg(&file).finish(PATIENCE);
    assert_eq!(by_file.code, Some(0), "{}", by_file.summary());
    let listed = inhaul(["ls", &bare, "--token-file"]).arg(&file).finish(PATIENCE);
    assert_eq!(listed.code, Some(0), "{}", listed.summary());
    mode(0o644);
    let open = get(&bare).arg("--token-file").arg(&file).finish(PATIENCE);
    assert_eq!(open.code, Some(USAGE), "{}", open.summary());
    assert!(open.stderr.contains("chmod 600"), "{}", open.stderr);
    for value in [token, &ticket] {
        let by_variable = get(&format!("{bare}#{fingerprint}")).variable("INHAUL_TOKEN", value).finish(PATIENCE);
        assert_eq!(by_variable.code, Some(0), "{}", by_variable.summary());
    }
    // Messages about words that make no sense.
    let secret = format!("{bare}#{ticket}");
    for words in [
        vec!["get", &secret],
        vec!["get", &secret, "x", "--nonsense"],
        vec!["get", "x", &secret],
        vec!["put", &secret, &secret],
        vec!["ls", &secret, &secret, "--json"],
        vec!["bench", &secret, "-P", "0"],
        vec!["doctor", "a", &secret],
        vec!["serve", "--listen", &secret, "x"],
        vec![&secret],
        vec!["get", "--token-file", token, &bare, "x"],
    ] {
        let refused = inhaul(&words).finish(PATIENCE);
        assert_eq!(refused.code, Some(USAGE), "{words:?}: {}", refused.summary());
        // The line for pasting has the user's own words, and is only for people.
        let (said, pasted) = refused.stderr.split_once("Try:\n").unwrap_or((&refused.stderr, ""));
        let after = pasted.lines().skip(1).collect::<String>();
        assert!(!said.is_empty() && !said.contains(token) && !after.contains(token), "{}", refused.stderr);
        assert!(!refused.stdout.contains(token), "{}", refused.stdout);
        let to_program = inhaul(&words).arg("--json").finish(PATIENCE);
        assert!(!to_program.stderr.contains(token) && !to_program.stdout.contains(token), "{}", to_program.summary());
    }
    figures("wrong command lines with a ticket", "ten kinds; no message has the token");
}

/// A name that was not used before.
fn noise_name() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NAMES: AtomicU64 = AtomicU64::new(0);
    format!("to-{}", NAMES.fetch_add(1, Ordering::Relaxed))
}

#[test]
fn one_client_s_slow_puts_make_way_for_another_client() {
    let _alone = heavy();
    let closed = Closed::start(&["--max-puts", "2"]);
    let [one, other] = [0, 1].map(|_| closed.ticket(&["--write", "/", "--until", "1h"]));
    closed.files.file("large", &noise(50_000_000, 2));
    closed.files.file("small", b"data");
    let inbox = closed.files.path().join("inbox");
    let slow = |name: &str| -> Running {
        let put = closed.put("large", &format!("/{name}"), &one, &["--send-rate", "1M"]).start();
        assert!(wait_for(PATIENCE, || inbox.join(format!("{name}.partial")).exists()), "{}", put.stderr());
        put
    };
    let (first, second) = (slow("a"), slow("b"));
    let third = closed.put("small", "/c", &one, &[]).finish(PATIENCE);
    assert_eq!(third.code, Some(7), "its own puts have the places: {}", third.summary());
    let of_other = closed.put("small", "/d", &other, &[]).finish(PATIENCE);
    assert_eq!(of_other.code, Some(0), "{}", of_other.summary());
    let gave_way = second.finish(PATIENCE);
    assert_eq!(gave_way.code, Some(7), "{}", gave_way.summary());
    assert!(gave_way.stderr.contains("another client waits"), "{}", gave_way.stderr);
    assert!(first.is_running(), "{}", first.stderr());
    figures("all places taken by slow puts of one client", "another client's put is through; the latest one made way");
}
