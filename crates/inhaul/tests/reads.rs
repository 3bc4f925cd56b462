//! Reads of parts of data sets, from real servers over loopback, beside the files themselves.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use inhaul::{Buffers, Client, ErrorKind, Hash, ItemKind, Server};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

const PATIENCE: Duration = Duration::from_secs(60);

fn content(len: usize, salt: u64) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15 ^ salt;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

fn serve(dir: &Path) -> Server {
    Server::builder().offer(dir).public().listen(([127, 0, 0, 1], 0)).start().unwrap()
}

fn client() -> Client {
    Client::builder().build().unwrap()
}

/// A directory with files of these sizes, named by their index.
fn files(sizes: &[usize]) -> (tempfile::TempDir, Vec<Vec<u8>>) {
    let dir = tempfile::tempdir().unwrap();
    let contents: Vec<Vec<u8>> = sizes.iter().zip(1..).map(|(&size, salt)| content(size, salt)).collect();
    for (index, bytes) in contents.iter().enumerate() {
        std::fs::write(dir.path().join(index.to_string()), bytes).unwrap();
    }
    (dir, contents)
}

fn name(dir: &tempfile::TempDir) -> String {
    dir.path().file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn random_ranges_are_what_the_files_have() {
    let sizes = [0, 1, 1023, 1024, 1025, 70_000, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5_300_000];
    let (dir, contents) = files(&sizes);
    let server = serve(dir.path());
    let set = client().open(&server.address_of("")).unwrap();
    assert_eq!(set.files().count(), sizes.len());
    let asked = prop::collection::vec((0..sizes.len(), any::<(prop::sample::Index, prop::sample::Index)>()), 1..40);
    let mut runner = TestRunner::new(Config { cases: 48, failure_persistence: None, ..Config::default() });
    runner
        .run(&asked, |asked| {
            let places: Vec<(String, std::ops::Range<u64>)> = asked
                .iter()
                .map(|(file, (a, b))| {
                    let (a, b) = (a.index(sizes[*file] + 1) as u64, b.index(sizes[*file] + 1) as u64);
                    (file.to_string(), a.min(b)..a.max(b))
                })
                .collect();
            let ranges: Vec<_> = places.iter().map(|(path, range)| (path.as_str(), range.clone())).collect();
            let buffers = Buffers(ranges.iter().map(|(_, r)| vec![0; (r.end - r.start) as usize]).collect());
            let handle = set.read_ranges(&ranges, buffers).unwrap();
            prop_assert!(handle.wait(PATIENCE), "{:?} {:?}", handle.progress(), set.stats());
            let Buffers(buffers) = handle.join().unwrap();
            for ((path, range), bytes) in ranges.iter().zip(&buffers) {
                let file = &contents[path.parse::<usize>().unwrap()];
                prop_assert!(*bytes == file[range.start as usize..range.end as usize], "{path} {range:?}");
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_small_read_costs_little_more_than_its_bytes() {
    let (dir, contents) = files(&[40 << 20]);
    let server = serve(dir.path());
    let set = client().open(&server.address_of("0")).unwrap();
    for k in 0..40u64 {
        let start = (k * 1_000_448) & !1023;
        let bytes = set.read("", start..start + 4096).unwrap();
        assert!(bytes == contents[0][start as usize..start as usize + 4096]);
    }
    let stats = set.stats().unwrap();
    assert_eq!((stats.wanted_bytes, stats.placed_bytes), (40 * 4096, 40 * 4096));
    assert!(stats.proof_bytes <= 40 * 32 * 13, "{stats:?}");
}

#[test]
fn large_reads_and_many_readers_at_once() {
    let (dir, contents) = files(&[300 << 20, 3 << 20]);
    let server = serve(dir.path());
    let set = Arc::new(client().open(&server.address_of("")).unwrap());
    let contents = Arc::new(contents);
    let readers: Vec<_> = (0..4u64)
        .map(|reader| {
            let (set, contents) = (Arc::clone(&set), Arc::clone(&contents));
            std::thread::spawn(move || {
                for k in 0..30 {
                    let start = (k * 7919 + reader * 104_729) * 777 % (3 << 20);
                    let end = (start + 50_000).min(3 << 20);
                    let bytes = set.read("1", start..end).unwrap();
                    assert!(bytes == contents[1][start as usize..end as usize]);
                }
            })
        })
        .collect();
    let whole = set.read("0", 0..300 << 20).unwrap();
    assert!(whole == contents[0]);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}

/// Takes bytes and keeps none.
struct Nowhere;

impl inhaul::Destination for Nowhere {
    fn write(&mut self, _index: usize, _offset: u64, _bytes: &[u8]) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_read_that_takes_all_memory_leaves_the_next_data_set_its_turn() {
    // More than may be under way at once.
    const LARGE: u64 = 560 << 20;
    let (dir, contents) = files(&[5_000_000]);
    let repeated = contents[0].repeat(LARGE as usize / contents[0].len() + 1);
    std::fs::write(dir.path().join("large"), &repeated[..LARGE as usize]).unwrap();
    drop(repeated);
    let server = serve(dir.path());
    let client = client();
    let (first, second) =
        (client.open(&server.address_of("large")).unwrap(), client.open(&server.address_of("0")).unwrap());
    let large = first.read_ranges(&[("", 0..LARGE)], Nowhere).unwrap();
    let small = second.read_ranges(&[("", 0..5_000_000)], Buffers(vec![vec![0; 5_000_000]])).unwrap();
    assert!(small.wait(PATIENCE) && large.wait(PATIENCE), "{:?} {:?}", first.stats(), second.stats());
    assert!(small.join().unwrap().0[0] == contents[0]);
    large.join().unwrap();
}

#[test]
fn a_cancelled_read_ends_at_once_and_others_go_on() {
    let (dir, contents) = files(&[200 << 20]);
    let server = Server::builder()
        .offer(dir.path())
        .public()
        .listen(([127, 0, 0, 1], 0))
        .send_rate(inhaul::Bitrate::from_mbps(200))
        .start()
        .unwrap();
    let set = client().open(&server.address_of("0")).unwrap();
    let buffers = || Buffers(vec![vec![0; 100 << 20]]);
    let ahead = set.read_ahead(&[("", 0..100 << 20)], buffers()).unwrap();
    assert!(!ahead.wait(Duration::from_millis(200)));
    // Reads have priority over read-ahead: 100 MiB at 200 Mbit/s take 4 s.
    let start = 150 << 20;
    let urgent = set.read_ranges(&[("", start..start + 5000)], Buffers(vec![vec![0; 5000]])).unwrap();
    assert!(urgent.wait(Duration::from_secs(2)) && !ahead.is_over());
    assert!(urgent.join().unwrap().0[0] == contents[0][start as usize..start as usize + 5000]);
    ahead.cancel();
    assert_eq!(ahead.join().unwrap_err().kind(), ErrorKind::Interrupted);
    assert!(set.read("", 0..5000).unwrap() == contents[0][..5000]);
}

#[test]
fn pinned_files_are_proven_by_their_hashes_and_by_nothing_else() {
    let (dir, contents) = files(&[5_000_000, 20_000]);
    let server = serve(dir.path());
    let client = client();
    let source = server.address_of("");
    let hashes: Vec<Hash> = client.checksums(&source).unwrap().into_iter().map(|(_, hash)| hash).collect();
    let set = client.open_pinned(&source, [("0", hashes[0]), ("1", hashes[1])]).unwrap();
    for range in [4_999_000..5_000_000, 0..5_000_000, 1_048_000..1_049_000] {
        assert!(set.read("0", range.clone()).unwrap() == contents[0][range.start as usize..range.end as usize]);
    }
    assert!(set.read("1", 0..20_000).unwrap() == contents[1]);
    // The server has other bytes than the pinned ones: none of them is handed out.
    let other = client.open_pinned(&source, [("0", hashes[1])]).unwrap();
    let error = other.read("0", 0..1000).unwrap_err();
    assert!(error.to_string().contains("not what was pinned"), "{error}");
    assert!(client.open_pinned(&source, [("none", hashes[0])]).is_err());
}

#[test]
fn a_data_set_is_known_by_the_root_of_its_list_and_no_file_of_it_is_another() {
    let (dir, contents) = files(&[3_000_000, 0, 20_000]);
    std::fs::hard_link(dir.path().join("2"), dir.path().join("0-again")).unwrap();
    let (server, client) = (serve(dir.path()), client());
    let (source, root) = (server.address_of(""), root_of(dir.path()));
    let set = client.open_rooted(&source, root).unwrap();
    assert!(set.read("0", 1_500_000..3_000_000).unwrap() == contents[0][1_500_000..]);
    for name in ["2", "0-again"] {
        assert!(set.read(name, 7..20_000).unwrap() == contents[2][7..]);
        assert_eq!(set.stat(name).unwrap().size, 20_000);
    }
    let names: Vec<&[u8]> = set.files().map(|file| file.path).collect();
    assert_eq!(names, [&b"0"[..], b"0-again", b"1", b"2"]);
    drop(set);
    let one = client.open_rooted(&server.address_of("2"), root_of(&dir.path().join("2"))).unwrap();
    assert!(one.read("", 0..20_000).unwrap() == contents[2]);
    let refused = |server: &Server| {
        let error = client.open_rooted(&server.address_of(""), root).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Integrity, "{error}");
        assert!(error.to_string().contains(root.to_hex().as_str()), "{error}");
    };
    // One file more; one less; another byte in one.
    std::fs::write(dir.path().join("3"), b"").unwrap();
    refused(&serve(dir.path()));
    std::fs::remove_file(dir.path().join("3")).unwrap();
    client.open_rooted(&serve(dir.path()).address_of(""), root).unwrap();
    std::fs::remove_file(dir.path().join("1")).unwrap();
    refused(&serve(dir.path()));
    std::fs::write(dir.path().join("1"), b"").unwrap();
    std::fs::write(dir.path().join("0"), content(3_000_000, 99)).unwrap();
    refused(&serve(dir.path()));
}

/// The root of the list of a directory's files, as `inhaul manifest` has it.
fn root_of(place: &Path) -> Hash {
    let list = inhaul_mover::manifest(place, inhaul_mover::ManifestFormat::Inhaul, &inhaul_mover::Stop::new()).unwrap();
    let second = String::from_utf8(list).unwrap().lines().nth(1).unwrap().to_owned();
    Hash::from_hex(second.strip_prefix("# root ").unwrap()).unwrap()
}

#[test]
fn a_file_that_changes_is_an_error_and_no_wrong_byte() {
    let (dir, contents) = files(&[5_000_000, 1000]);
    let server = serve(dir.path());
    let set = client().open(&server.address_of("")).unwrap();
    assert!(set.read("0", 0..1000).unwrap() == contents[0][..1000]);
    std::fs::write(dir.path().join("0"), b"short").unwrap();
    let error = set.read("0", 2_000_000..2_001_000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity, "{error}");
    assert!(set.read("1", 0..1000).unwrap() == contents[1], "others can still be had");
}

#[test]
fn a_server_that_comes_back_is_read_on_from() {
    let (dir, contents) = files(&[3_000_000]);
    let state = tempfile::tempdir().unwrap();
    let start = |port| {
        let server = Server::builder().offer(dir.path()).public().state(state.path());
        server.listen(([127, 0, 0, 1], port)).start()
    };
    let server = start(0).unwrap();
    let (port, source) = (server.address().port(), server.address_of("0"));
    let set = client().open(&source).unwrap();
    assert!(set.read("", 0..100_000).unwrap() == contents[0][..100_000]);
    server.stop().unwrap();
    let handle = set.read_ranges(&[("", 0..3_000_000)], Buffers(vec![vec![0; 3_000_000]])).unwrap();
    let _server = start(port).unwrap();
    assert!(handle.wait(PATIENCE), "{:?}", set.stats());
    assert!(handle.join().unwrap().0[0] == contents[0]);
}

#[test]
fn an_absent_server_is_an_error_in_bounded_time() {
    let (dir, _) = files(&[3_000_000]);
    let server = serve(dir.path());
    let client = Client::builder().retry_for(Duration::from_secs(2)).build().unwrap();
    let set = client.open(&server.address_of("0")).unwrap();
    server.stop().unwrap();
    let error = set.read("", 0..100).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert!(client.open(&format!("inhaul://127.0.0.1:1/{}", name(&dir))).is_err());
}

#[test]
fn what_is_not_there_is_named() {
    let (dir, _) = files(&[1000]);
    let server = serve(dir.path());
    let set = client().open(&server.address_of("")).unwrap();
    for (path, range, word) in [("none", 0..1, "no file 'none'"), ("0", 999..1001, "beyond its end")] {
        let error = set.read(path, range).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
    assert_eq!(set.read("0", 5..5).unwrap(), b"");
    assert_eq!(client().open("ftp://x/y").unwrap_err().kind(), ErrorKind::Usage);
}

#[test]
fn mirrors_serve_a_read_together_and_one_that_goes_is_no_loss() {
    let (dir, contents) = files(&[60 << 20]);
    let servers = [serve(dir.path()), serve(dir.path())];
    let tickets: Vec<String> =
        servers.iter().map(|server| server.address_of("").split_once('#').unwrap().1.to_owned()).collect();
    let source = format!("inhaul://{},{}/0#{},{}", servers[0].address(), servers[1].address(), tickets[0], tickets[1]);
    let set = client().open(&source).unwrap();
    assert!(set.read("", 0..60 << 20).unwrap() == contents[0]);
    assert_eq!(set.stats().unwrap().mirrors, 2);
    let [first, _second] = servers;
    first.stop().unwrap();
    assert!(set.read("", 1000..3_000_000).unwrap() == contents[0][1000..3_000_000]);
}

/// The files of a cache, and bytes of them that were changed.
fn damage(cache: &Path) -> usize {
    let mut damaged = 0;
    let paths = std::fs::read_dir(cache).unwrap().map(|item| item.unwrap().path());
    for path in paths.filter(|path| path.extension().is_some_and(|end| end == "ranges")) {
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        damaged += 1;
    }
    damaged
}

#[test]
fn what_a_cache_has_is_not_asked_for_again_and_is_right_or_not_taken() {
    let (dir, contents) = files(&[5 << 20, 100_000]);
    let (cache, server) = (tempfile::tempdir().unwrap(), serve(dir.path()));
    let cache = cache.path().join("cache");
    let open = || {
        let client = Client::builder().cache(&cache, 64 << 20).build().unwrap();
        client.open(&server.address_of("")).unwrap()
    };
    let check = |set: &inhaul::DataSet, wanted: [u64; 2]| {
        let ranges = [("0", 1_000_000..4_000_000), ("1", 5..99_999), ("0", 7..11)];
        let buffers = Buffers(ranges.iter().map(|(_, range)| vec![0; (range.end - range.start) as usize]).collect());
        let Buffers(buffers) = set.read_ranges(&ranges, buffers).unwrap().join().unwrap();
        for ((path, range), bytes) in ranges.iter().zip(&buffers) {
            let of = &contents[path.parse::<usize>().unwrap()];
            assert!(*bytes == of[range.start as usize..range.end as usize], "{path} {range:?}");
        }
        let stats = set.stats().unwrap();
        assert_eq!([stats.cached_bytes, stats.placed_bytes.min(1)], wanted, "{stats:?}");
    };
    let all = 3_000_000 + 99_994 + 4;
    // The data that a client fetched is in the cache when the client has ended.
    check(&open(), [0, 1]);
    let set = open();
    check(&set, [all, 0]);
    // A part of the cached range, and more than the cached range.
    assert!(set.read("0", 2_000_001..2_000_010).unwrap() == contents[0][2_000_001..2_000_010]);
    assert_eq!(set.stats().unwrap().placed_bytes, 0);
    assert!(set.read("0", 0..5 << 20).unwrap() == contents[0]);
    assert!(set.stats().unwrap().placed_bytes >= 2 << 20);
    drop(set);
    assert!(damage(&cache) >= 6);
    check(&open(), [0, 1]);
    check(&open(), [all, 0]);
    // Another server is not answered for; by a file's hash, anybody is.
    let other = serve(dir.path());
    let client = Client::builder().cache(&cache, 64 << 20).build().unwrap();
    check(&client.open(&other.address_of("")).unwrap(), [0, 1]);
    let hash = client.checksums(&server.address_of("0")).unwrap()[0].1;
    for (server, cached) in [(&server, 0), (&other, 1000)] {
        let client = Client::builder().cache(&cache, 64 << 20).build().unwrap();
        let set = client.open_pinned(&server.address_of("0"), [("", hash)]).unwrap();
        assert!(set.read("", 50..1050).unwrap() == contents[0][50..1050]);
        assert_eq!(set.stats().unwrap().cached_bytes, cached);
    }
}

#[test]
fn processes_share_a_cache_and_what_cannot_be_one_is_refused() {
    let (dir, contents) = files(&[3 << 20]);
    let (cache, server) = (tempfile::tempdir().unwrap(), serve(dir.path()));
    let readers: Vec<_> = (0..4u64)
        .map(|reader| {
            let (cache, address) = (cache.path().to_owned(), server.address_of("0"));
            let content = contents[0].clone();
            std::thread::spawn(move || {
                let client = Client::builder().cache(&cache, 64 << 20).build().unwrap();
                let set = client.open(&address).unwrap();
                for k in 0..60 {
                    let start = (k * 7919 + reader * 104_729) * 777 % (3 << 20);
                    let end = (start + 30_000).min(3 << 20);
                    assert!(set.read("", start..end).unwrap() == content[start as usize..end as usize]);
                }
            })
        })
        .collect();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    for (path, bytes, says) in [(cache.path().to_owned(), 5, "too small"), (dir.path().join("0"), 64 << 20, "cache")] {
        let error = Client::builder().cache(&path, bytes).build().err().unwrap();
        assert!(error.kind() == ErrorKind::Usage && error.to_string().contains(says), "{error}");
    }
}

/// Replaces a file by another one with the same time.
fn put_in_place(path: &Path, bytes: &[u8]) {
    let new = path.with_extension("new");
    std::fs::write(&new, bytes).unwrap();
    let time = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    std::fs::File::options().write(true).open(&new).unwrap().set_modified(time).unwrap();
    std::fs::rename(&new, path).unwrap();
}

/// Reads a part of a file through a cache, and says whether the cache had it.
fn read_cached(cache: &Path, address: &str, right: &[u8]) -> bool {
    let client = Client::builder().cache(cache, 64 << 20).build().unwrap();
    let set = client.open(address).unwrap();
    assert!(set.read("", 100..90_000).unwrap() == right[100..90_000], "old bytes, or wrong ones");
    let stats = set.stats().unwrap();
    assert_eq!(stats.cached_bytes + stats.placed_bytes.min(1) * 89_900, 89_900, "{stats:?}");
    stats.cached_bytes > 0
}

/// Reads until the cache has it: a file written just now may not be settled yet.
fn settle(cache: &Path, address: &str, right: &[u8]) {
    assert!((0..50).any(|_| read_cached(cache, address, right)), "the cache keeps what does not change");
}

#[test]
fn a_source_that_was_replaced_by_one_of_the_same_size_and_time_is_read_anew() {
    let (dir, _) = files(&[]);
    let (cache, server) = (tempfile::tempdir().unwrap(), serve(dir.path()));
    let (cache, path) = (cache.path().join("cache"), dir.path().join("f"));
    for salt in 1..4 {
        let bytes = content(100_000, salt);
        put_in_place(&path, &bytes);
        assert!(!read_cached(&cache, &server.address_of("f"), &bytes), "round {salt}");
        settle(&cache, &server.address_of("f"), &bytes);
    }
}

#[test]
fn mirrors_share_what_a_cache_keeps_though_their_files_have_versions_of_their_own() {
    let (places, bytes) = ([files(&[]).0, files(&[]).0], content(100_000, 5));
    let servers = places.each_ref().map(|place| {
        put_in_place(&place.path().join("f"), &bytes);
        serve(place.path())
    });
    let ticket = |server: &Server| server.address_of("").split_once('#').unwrap().1.to_owned();
    let [first, second] = &servers;
    let (first, second) = ((first.address(), ticket(first)), (second.address(), ticket(second)));
    let source = format!("inhaul://{},{}/f#{},{}", first.0, second.0, first.1, second.1);
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    assert!(!read_cached(&cache, &source, &bytes));
    settle(&cache, &source, &bytes);
    assert!((0..3).all(|_| read_cached(&cache, &source, &bytes)), "whichever mirror answers first");
    let other = content(100_000, 6);
    places.iter().for_each(|place| put_in_place(&place.path().join("f"), &other));
    assert!(!read_cached(&cache, &source, &other));
}

#[test]
fn a_cache_removes_nothing_that_is_not_its_own() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("thesis.tex"), vec![1; 1 << 20]).unwrap();
    let error = Client::builder().cache(dir.path(), 64 << 20).build().err().unwrap();
    assert!(error.kind() == ErrorKind::Usage && error.to_string().contains("not empty"), "{error}");
    assert!(dir.path().join("thesis.tex").exists());
}

#[test]
fn holes_need_no_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sparse");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(3 << 30).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"data", 2 << 30).unwrap();
    let server = serve(dir.path());
    let set = client().open(&server.address_of("sparse")).unwrap();
    assert!(set.read("", 0..5 << 20).unwrap().iter().all(|&byte| byte == 0));
    let middle = (2 << 30) - 100..(2 << 30) + 100;
    let bytes = set.read("", middle).unwrap();
    assert_eq!((&bytes[100..104], bytes.iter().filter(|&&byte| byte != 0).count()), (&b"data"[..], 4));
    assert!(set.stats().unwrap().placed_bytes <= 64 << 10, "{:?}", set.stats());
}

#[test]
fn transfers_land_files_and_tell_how_far_they_are() {
    let (dir, contents) = files(&[2_000_000, 5]);
    let server = serve(dir.path());
    let landing = tempfile::tempdir().unwrap();
    let transfer = client().get(&[&server.address_of("")], landing.path().join("all")).unwrap().start().unwrap();
    let mut last = None;
    while let Some(progress) = transfer.progress() {
        last = Some(progress);
    }
    let (report, result) = transfer.join();
    result.unwrap();
    let last = last.unwrap();
    assert_eq!((report.bytes, last.total_bytes), (2_000_005, 2_000_005));
    // A rate is bytes over the time that stands beside it, and those of the sources add up.
    assert!((report.goodput_bps * report.seconds - report.fetched_bytes as f64 * 8.0).abs() < 1e-3, "{report:?}");
    let sum: f64 = report.sources.iter().map(|source| source.goodput_bps).sum();
    assert!((sum - report.goodput_bps).abs() < 1.0 && report.jain_index.is_none(), "{report:?}");
    assert!((last.average_bps * last.seconds - last.fetched_bytes as f64 * 8.0).abs() < 1e-3, "{last:?}");
    assert!(std::fs::read(landing.path().join("all/0")).unwrap() == contents[0]);
    assert_eq!(client().list(&server.address_of(""), false).unwrap().len(), 2);
}

#[test]
fn paths_are_bytes_and_links_are_told() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().unwrap();
    let raw = b"raw\xff#%";
    std::fs::write(dir.path().join(std::ffi::OsStr::from_bytes(raw)), b"raw bytes").unwrap();
    std::os::unix::fs::symlink("nowhere", dir.path().join("link")).unwrap();
    let server = serve(dir.path());
    let client = Client::builder().build().unwrap();
    let set = client.open(&server.address_of("")).unwrap();
    assert_eq!(set.files().map(|file| file.path.to_vec()).collect::<Vec<_>>(), [raw]);
    assert_eq!(set.links().collect::<Vec<_>>(), [b"link"]);
    let items: Vec<_> = set.items().map(|item| (item.path.to_vec(), item.kind)).collect();
    let expected = [
        (b"".to_vec(), ItemKind::Directory),
        (raw.to_vec(), ItemKind::File),
        (b"link".to_vec(), ItemKind::Symlink(b"nowhere")),
    ];
    assert_eq!(items, expected);
    assert_eq!(client.open(&server.address_of("")).unwrap().items().nth(1).unwrap().mode & 0o600, 0o600);
    assert_eq!(set.stat(&raw[..]).unwrap().size, 9);
    assert_eq!(set.read(raw, 4..9).unwrap(), b"bytes");
    let Buffers(both) =
        set.read_ranges(&[(raw, 0..3), (raw, 8..9)], Buffers(vec![vec![0; 3], vec![0; 1]])).unwrap().join().unwrap();
    assert_eq!(both, [b"raw".to_vec(), b"s".to_vec()]);
    let pinned = client.open_pinned(&server.address_of(""), [(raw, blake3(b"raw bytes"))]).unwrap();
    assert_eq!(pinned.read(raw, 0..3).unwrap(), b"raw");
}

fn blake3(bytes: &[u8]) -> Hash {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), bytes).unwrap();
    let client = Client::builder().build().unwrap();
    client.checksums(&serve(dir.path()).address_of("f")).unwrap()[0].1
}

#[test]
fn a_get_of_some_files_brings_these_only() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        std::fs::write(dir.path().join(name), name).unwrap();
    }
    let server = serve(dir.path());
    let client = Client::builder().build().unwrap();
    let home = tempfile::tempdir().unwrap();
    let get = |only: &[&str], to: &str| {
        let get = client.get(&[&server.address_of("")], home.path().join(to)).unwrap();
        get.only(only.iter().copied()).start().unwrap().join().1
    };
    get(&["a", "c"], "two").unwrap();
    let mut names: Vec<_> =
        std::fs::read_dir(home.path().join("two")).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a", "c"]);
    assert!(get(&["a", "none"], "other").is_err());
}

#[test]
fn waiting_for_a_server_ends_when_it_is_told_to() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("inhaul://{}/x", silent.local_addr().unwrap());
    let stop = inhaul::Stop::new();
    let client = Client::builder().accept_new().build().unwrap().until(&stop);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| client.open(&address).map(drop).unwrap_err().kind());
        let _connection = silent.accept().unwrap();
        stop.stop();
        assert_eq!(waiting.join().unwrap(), ErrorKind::Interrupted);
    });
}

#[test]
fn a_listing_ends_when_its_caller_has_enough() {
    let dir = tempfile::tempdir().unwrap();
    for name in 0..50 {
        std::fs::write(dir.path().join(name.to_string()), b"").unwrap();
    }
    let server = serve(dir.path());
    let client = Client::builder().build().unwrap();
    let mut seen = 0;
    let three = |_| {
        seen += 1;
        seen < 3
    };
    client.list_each(&server.address_of(""), true, three).unwrap();
    assert_eq!(seen, 3);
}
