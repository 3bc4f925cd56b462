//! A server's remaining state of past clients.

use std::time::Duration;

use inhaul_hostile_tests::{Running, Scratch, Server, all, figures, heavy, inhaul, noise, wait_for};

const PATIENCE: Duration = Duration::from_secs(90);

/// A server of a large, a small and an empty file and a directory.
fn server() -> (Scratch, Server) {
    let from = Scratch::new();
    from.file("big", &noise(4 << 20, 61));
    from.file("small", &noise(1024, 62));
    from.file("empty", b"");
    (0..50).for_each(|index| drop(from.file(&format!("tree/d{}/f{index}", index % 5), &noise(2000, index))));
    let server = Server::offer(from.path());
    (from, server)
}

#[test]
fn one_client_after_another() {
    let _alone = heavy();
    let (_from, server) = server();
    let rounds = if all() { 50 } else { 8 };
    let fetch_all = || {
        for path in ["/big", "/small", "/empty", "/tree"] {
            let to = Scratch::new();
            let outcome = server.get(path, &to.inside(), PATIENCE);
            assert_eq!(outcome.code, Some(0), "{path}: {}", outcome.summary());
        }
    };
    // Objects made once stay: buffers, threads.
    fetch_all();
    fetch_all();
    let before = server.readings();
    (0..rounds).for_each(|_| fetch_all());
    let returned = wait_for(Duration::from_secs(10), || server.readings().descriptors <= before.descriptors);
    let after = server.readings();
    let grown = after.memory.saturating_sub(before.memory) >> 10;
    figures(
        &format!("{} gets one after another", rounds * 4),
        &format!(
            "{grown} KiB, {} threads, {} descriptors more",
            after.threads as i64 - before.threads as i64,
            after.descriptors as i64 - before.descriptors as i64
        ),
    );
    assert!(returned, "{before:?}, {after:?}");
    assert!(after.threads <= before.threads, "{before:?}, {after:?}");
    assert!(grown < 8 << 10, "{grown} KiB");
}

#[test]
fn many_clients_at_once() {
    let _alone = heavy();
    let (from, server) = server();
    let count = if all() { 50 } else { 16 };
    let before = server.readings();
    let to = Scratch::new();
    let clients: Vec<Running> = (0..count)
        .map(|index| inhaul(["get", "-q", &server.source("/big")]).arg(to.path().join(index.to_string())).start())
        .collect();
    let outcomes: Vec<_> = clients.into_iter().map(|client| client.finish(PATIENCE)).collect();
    let slowest = outcomes.iter().map(|outcome| outcome.took).max().unwrap_or_default();
    let returned = wait_for(Duration::from_secs(10), || server.readings().descriptors <= before.descriptors + 2);
    let after = server.readings();
    let peak = after.memory_peak >> 20;
    figures(
        &format!("{count} gets at once"),
        &format!("slowest {:.1} s; server at most {peak} MiB", slowest.as_secs_f64()),
    );
    for (index, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
        let same = std::fs::read(to.path().join(index.to_string())).unwrap()
            == std::fs::read(from.path().join("big")).unwrap();
        assert!(same, "client {index} has wrong bytes");
    }
    assert!(returned, "{before:?}, {after:?}");
    assert!(peak < 512, "{peak} MiB");
}
