//! The rules of the house, applied to the workspace.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use inhaul_house_tests::circles;
use inhaul_house_tests::dependencies::{self, Metadata};
use inhaul_house_tests::modules::Modules;
use inhaul_house_tests::published;
use inhaul_house_tests::rooms;
use inhaul_house_tests::rules;
use inhaul_house_tests::source::Source;
use inhaul_protocols::registry;
use serde::de::DeserializeOwned;

#[path = "house/documents.rs"]
mod documents;
#[path = "house/limits.rs"]
mod limits;
#[path = "house/words.rs"]
mod words;

/// The only place where unsafe code may stand.
const SYSTEM_CALLS: &str = "crates/udp/src/sys";
/// Crates and folders that may use clocks and hash maps.
const ENGINES: &[&str] = &[
    "crates/udp",
    "crates/emu",
    "crates/session",
    "crates/engine",
    "crates/sources",
    "crates/haul",
    "crates/read",
    "crates/serve",
    "crates/delegate",
    "crates/tools",
    "crates/cli",
    "crates/lab/src/agents",
    "tests/hostile",
    "tests/interop/src/bin/speed.rs",
    "tests/interop/src/bin/udt4_path.rs",
    "tests/interop/src/bin/udt4_rates.rs",
    "tests/interop/tests/udt4",
];
/// Places where a protocol's name has another meaning, and that meaning.
const NAMES_OF_OTHERS: &[(&str, &str)] = &[
    ("crates/lab/src/agents/jobs.rs", "congestion controls of the kernel"),
    ("crates/lab/src/kernel_cc", "files of congestion controls of the kernel"),
    ("crates/cli/src/man.rs", "the page of 'inhaul udt'"),
    ("crates/cli/src/options/address.rs", "schemes that other programs' addresses begin with"),
];
/// Files or folders that sleep, with the reason. A place that no longer sleeps leaves the list.
const SLEEPS: &[(&str, &str)] = &[
    ("crates/delegate/src/retry.rs", "backs off before it orders again, and looks whether the user stops it"),
    ("crates/udp/src/watch/watcher.rs", "looks at the host at times of its own, and is woken to end"),
    ("crates/tools/src/doctor/host.rs", "measures by how much sleeps are late"),
    (
        "crates/engine/src/engine/event_loop/outside.rs",
        "a receiver whose processor time is scarce reads larger batches",
    ),
    ("crates/haul/src/haul/get/busy.rs", "whether another process has released a destination can only be polled"),
    ("crates/engine/src/paths/changing.rs", "probes wait until the server has read that they come"),
    ("crates/serve/src/greeting.rs", "the clock of a file system has to move on"),
    ("crates/serve/src/server.rs", "whether a predecessor has released a port can only be polled"),
    ("crates/sources/src/fake.rs", "a source of tests delivers slowly"),
    ("crates/sources/src/http/odd.rs", "a server of tests delivers slowly"),
    ("crates/sources/src/opener.rs", "backs off before it opens a mirror again"),
    ("crates/lab/src/agents", "real processes start and send at the times of the plan"),
    ("crates/cli/src/service.rs", "whether the server was told to stop, and is alive, can only be polled"),
    ("crates/cli/src/metrics.rs", "a connection that could not be taken is taken after a pause"),
    ("crates/cli/src/link/run.rs", "whether a command in a host listens can only be polled"),
    ("crates/cli/tests/processes/common.rs", "come_true: polls the state of other processes, with a deadline"),
    ("crates/cli/tests/processes/link.rs", "holds the emulator up for stretches of real time, which it has to notice"),
    ("crates/emu/examples/two_hosts.rs", "whether a command in a host listens can only be polled"),
    ("tests/hostile/src/lib.rs", "wait_for: polls the state of other processes, with a deadline"),
    ("tests/hostile/tests/kills.rs", "processes are killed at random times"),
];
/// Folders with Rust code.
const ROOMS: &[&str] = &["crates", "python", "tests", "fuzz", "bench"];

#[test]
fn crates_depend_only_on_what_lies_below_them() {
    report("dependencies", &dependencies::violations(&metadata()));
}

#[test]
fn published_crates_have_all_that_publishing_needs() {
    let metadata: published::Metadata = metadata();
    let mut found = published::violations(&metadata);
    let crates = top().join("crates").canonicalize().expect("the crates are there");
    for package in &metadata.packages {
        let folder = Path::new(&package.manifest_path).parent().expect("a manifest stands in a folder");
        let is_in_crates = folder.parent().is_some_and(|parent| parent == crates);
        if is_in_crates != package.publish.is_none() {
            found.push(format!("{}: exactly the crates in crates/ are published", package.name));
        }
        if !is_in_crates {
            continue;
        }
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            if read(&folder.join(licence)) != read(&top().join(licence)) {
                found.push(format!("{}: {licence} is not that of the project: link to it", package.name));
            }
        }
        for (file, text) in source_files(folder) {
            let outside = published::includes_outside(Path::new(&file), &text);
            found.extend(outside.into_iter().map(|what| format!("{}: {file}: {what}", package.name)));
        }
    }
    report("published crates", &found);
}

#[test]
fn every_crate_guards_against_unsafe_code() {
    let mut found = Vec::new();
    for package in metadata::<Metadata>().packages {
        let manifest = Path::new(&package.manifest_path);
        let folder = manifest.parent().expect("a manifest stands in a folder");
        let root = ["src/lib.rs", "src/main.rs"].iter().map(|name| folder.join(name)).find(|path| path.exists());
        let root = root.expect("a crate has a root");
        let broken = rules::unguarded(&read(manifest), &Source::parse(&read(&root)));
        found.extend(broken.into_iter().map(|what| format!("{}: {what}", package.name)));
    }
    report("guard against unsafe code", &found);
}

#[test]
fn unsafe_code_stands_in_one_place() {
    for_each_file(
        "unsafe code",
        |path, source| {
            if path.starts_with(SYSTEM_CALLS) { Vec::new() } else { rules::unsafe_code(source) }
        },
    );
}

#[test]
fn a_silenced_lint_has_a_reason() {
    for_each_file("silenced lints", |_, source| rules::allow_without_reason(source));
}

#[test]
fn only_engines_use_clocks_and_hash_maps() {
    for_each_file("clocks and hash maps", |path, source| {
        if ENGINES.iter().any(|engine| path.starts_with(engine)) {
            Vec::new()
        } else {
            rules::lifts_determinism(source)
        }
    });
}

#[test]
fn nothing_is_left_unfinished() {
    for_each_file("unfinished code", |_, source| rules::unfinished(source));
}

#[test]
fn no_file_outside_the_protocols_names_one() {
    let names: Vec<String> = registry::PROTOCOLS.iter().map(|protocol| format!("\"{}\"", protocol.name)).collect();
    let may = |path: &Path| {
        let elsewhere = ["crates/protocols", "tests", "fuzz", "bench"].iter().any(|room| path.starts_with(room));
        elsewhere || NAMES_OF_OTHERS.iter().any(|(file, _)| path.starts_with(file))
    };
    let mut found = Vec::new();
    for path in rust_files().into_iter().filter(|path| !may(path) && !rules::is_test(path)) {
        let text = read(&top().join(&path));
        let code = text.split("#[cfg(test)]").next().unwrap_or_default().lines().enumerate();
        let code = code.filter(|(_, line)| !line.trim_start().starts_with("//"));
        let named = code.filter(|(_, line)| names.iter().any(|name| line.contains(name.as_str())));
        found.extend(named.map(|(number, line)| format!("{}:{}: {}", path.display(), number + 1, line.trim())));
    }
    report("names of protocols", &found);
}

#[test]
fn protocols_do_not_import_each_other() {
    let protocols = Path::new("crates/protocols/src");
    let folders: Vec<String> = entries(&top().join(protocols))
        .into_iter()
        .filter(|path| path.is_dir())
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .collect();
    // Any protocol may use the laws, and they none.
    let (laws, folders): (Vec<String>, Vec<String>) = folders.into_iter().partition(|folder| folder == "laws");
    for_each_file("imports between protocols", |path, source| {
        let mut inside = path.strip_prefix(protocols).into_iter().flat_map(Path::components);
        match inside.next().and_then(|c| c.as_os_str().to_str()) {
            Some(folder) if folders.iter().chain(&laws).any(|f| f == folder) => {
                // udt4 is libudt's wire around the core of udt.
                let may = |other: &&String| folder == "udt4" && *other == "udt";
                let others: Vec<String> = folders.iter().filter(|other| !may(other)).cloned().collect();
                rules::imports_sibling(source, folder, &others)
            }
            _ => Vec::new(),
        }
    });
}

#[test]
fn modules_do_not_use_each_other_in_circles() {
    let mut found = Vec::new();
    for package in metadata::<Metadata>().packages {
        let folder = Path::new(&package.manifest_path).parent().expect("a manifest stands in a folder");
        let files = source_files(&folder.join("src"));
        let modules = Modules::parse(files.iter().map(|(file, text)| (file.as_str(), text.as_str())));
        found.extend(circles::violations(&package.name, &modules));
    }
    report("circles between modules", &found);
}

#[test]
fn rooms_use_only_what_lies_below_them() {
    for (name, may_use) in rooms::ROOMS {
        let files = source_files(&top().join("crates").join(name).join("src"));
        let modules = Modules::parse(files.iter().map(|(file, text)| (file.as_str(), text.as_str())));
        report(&format!("rooms of {name}"), &rooms::violations(&modules, may_use));
    }
}

#[test]
fn nothing_sleeps_but_what_has_to() {
    let mut asleep = vec![false; SLEEPS.len()];
    let mut found = Vec::new();
    for path in rust_files() {
        let broken = rules::sleeps(&Source::parse(&read(&top().join(&path))));
        match SLEEPS.iter().position(|(place, _)| path.starts_with(place)) {
            Some(at) => asleep[at] |= !broken.is_empty(),
            None => found.extend(broken.into_iter().map(|what| format!("{}:{what}", path.display()))),
        }
    }
    let awake = SLEEPS.iter().zip(asleep).filter(|(_, asleep)| !asleep);
    found.extend(awake.map(|((place, _), _)| format!("{place} does not sleep any more: take it off the list")));
    report("sleeps", &found);
}

/// Applies `rule` to every Rust file of the workspace; paths are relative to its top.
fn for_each_file(name: &str, rule: impl Fn(&Path, &Source) -> Vec<String>) {
    let mut found = Vec::new();
    for path in rust_files() {
        let source = Source::parse(&read(&top().join(&path)));
        found.extend(rule(&path, &source).into_iter().map(|what| format!("{}:{what}", path.display())));
    }
    report(name, &found);
}

fn report(rule: &str, found: &[String]) {
    assert!(found.is_empty(), "{rule}:\n  {}\n", found.join("\n  "));
}

fn metadata<T: DeserializeOwned>() -> T {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(top())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata has its documented form")
}

/// Every Rust file of the workspace, as paths relative to its top, in order.
fn rust_files() -> Vec<PathBuf> {
    let mut waiting: Vec<PathBuf> = ROOMS.iter().map(|room| top().join(room)).collect();
    let mut files = Vec::new();
    while let Some(folder) = waiting.pop() {
        for path in entries(&folder) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                waiting.push(path);
            } else if name.ends_with(".rs") {
                files.push(path.strip_prefix(top()).expect("found below the top").to_owned());
            }
        }
    }
    files.sort();
    assert!(files.len() > 20, "the files of the workspace were not found: {files:?}");
    files
}

/// The Rust files below a folder: their paths below it, and their texts.
fn source_files(folder: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(inner) = waiting.pop() {
        for path in entries(&inner) {
            if path.is_dir() {
                waiting.push(path);
            } else if let Some(name) =
                path.strip_prefix(folder).ok().and_then(Path::to_str).filter(|n| n.ends_with(".rs"))
            {
                files.insert(name.to_owned(), read(&path));
            }
        }
    }
    files
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn top() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
