//! Tells the program which commit it is built from, so that a kept result can say so. Without git, or outside of a
//! repository, it knows none.

use std::path::Path;
use std::process::Command;

/// What the program is made of, from the top of the repository.
const SOURCES: [&str; 4] = ["crates", "experiments", "Cargo.toml", "Cargo.lock"];

fn main() {
    // Of the run, not of the compilation: a script kept in a shared target directory may come from another checkout.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let top = Path::new(&manifest).join("../..");
    // When one of these changes, so may the commit, or whether the sources are those of the commit.
    let watched = SOURCES.map(|source| top.join(source)).into_iter().chain(
        ["HEAD", "logs/HEAD"].iter().filter_map(|file| Some(top.join(git(&top, &["rev-parse", "--git-path", file])?))),
    );
    for path in watched.filter(|path| path.exists()) {
        println!("cargo:rerun-if-changed={}", path.display());
    }
    let status = ["status", "--porcelain", "--"];
    let commit = git(&top, &["rev-parse", "--short=12", "HEAD"]).map(|commit| {
        let is_changed = git(&top, &[&status[..], &SOURCES[..]].concat()).is_some_and(|changes| !changes.is_empty());
        if is_changed { format!("{commit}-dirty") } else { commit }
    });
    // Not INHAUL_…: cargo hands it to tests, and such a name is for a flag of the program.
    println!("cargo:rustc-env=COMMIT_OF_INHAUL={}", commit.unwrap_or_default());
}

/// The output of git, if it is installed and succeeds. It takes no locks: other programs may use the repository.
fn git(top: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(top).args(arguments).env("GIT_OPTIONAL_LOCKS", "0").output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
