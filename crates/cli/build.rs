//! Tells the program which commit it is built from, so that a kept result can say so. A published crate has the commit
//! in a file. Without git, or outside of a repository, the program knows none.

use std::path::Path;
use std::process::Command;

/// What the program is made of, from the top of the repository.
const SOURCES: [&str; 4] = ["crates", "experiments", "Cargo.toml", "Cargo.lock"];

fn main() {
    // Of the run, not of the compilation: a script kept in a shared target directory may come from another checkout.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let manifest = Path::new(&manifest);
    let commit = of_published(manifest).or_else(|| of_repository(&manifest.join("../.."))).unwrap_or_default();
    // Not INHAUL_…: cargo hands it to tests, and such a name is for a flag of the program.
    println!("cargo:rustc-env=COMMIT_OF_INHAUL={commit}");
}

/// The commit that `cargo package` has noted. Git would find the repository around the registry's folder.
fn of_published(manifest: &Path) -> Option<String> {
    let note = std::fs::read_to_string(manifest.join(".cargo_vcs_info.json")).ok()?;
    let (_, rest) = note.split_once("\"sha1\": \"")?;
    let commit: String = rest.chars().take_while(char::is_ascii_hexdigit).take(12).collect();
    Some(if note.contains("\"dirty\": true") { format!("{commit}-dirty") } else { commit })
}

fn of_repository(top: &Path) -> Option<String> {
    // When one of these changes, so may the commit, or whether the sources are those of the commit.
    let watched = SOURCES.map(|source| top.join(source)).into_iter().chain(
        ["HEAD", "logs/HEAD"].iter().filter_map(|file| Some(top.join(git(top, &["rev-parse", "--git-path", file])?))),
    );
    for path in watched.filter(|path| path.exists()) {
        println!("cargo:rerun-if-changed={}", path.display());
    }
    let status = ["status", "--porcelain", "--"];
    let commit = git(top, &["rev-parse", "--short=12", "HEAD"])?;
    let is_changed = git(top, &[&status[..], &SOURCES[..]].concat()).is_some_and(|changes| !changes.is_empty());
    Some(if is_changed { format!("{commit}-dirty") } else { commit })
}

/// The output of git, if it is installed and succeeds. It takes no locks: other programs may use the repository.
fn git(top: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(top).args(arguments).env("GIT_OPTIONAL_LOCKS", "0").output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
