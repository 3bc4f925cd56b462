//! Builds the folder `experiments/` of the repository into the library, so that an installed program has it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    // Of the run, not of the compilation: a build script that is kept in a shared target directory may come from
    // another checkout.
    let manifest =
        env::var_os("CARGO_MANIFEST_DIR").ok_or_else(|| io::Error::other("CARGO_MANIFEST_DIR is not set"))?;
    let root = Path::new(&manifest).join("experiments");
    println!("cargo:rerun-if-changed={}", root.display());
    println!("cargo:rerun-if-changed=build.rs");
    if !root.is_dir() {
        return Err(io::Error::other(format!(
            "{} is missing: a build without its experiments would lack 'inhaul lab run'",
            root.display()
        )));
    }
    let mut items = Vec::new();
    for paper in folders(&root)? {
        for item in folders(&paper)? {
            if item.join("experiment.toml").is_file() {
                items.push((format!("{}/{}", name(&paper), name(&item)), item));
            }
        }
    }
    let mut code = String::from("&[\n");
    for (name, folder) in items {
        let text = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
        let (experiment, scenario) = (text("experiment.toml"), text("scenario.toml"));
        let (published, readme) = (text("published.csv"), text("README.md"));
        let written = writeln!(
            code,
            "Files {{ name: {name:?}, experiment: {experiment:?}, scenario: {scenario:?}, published: {published:?}, readme: {readme:?} }},"
        );
        written.map_err(io::Error::other)?;
    }
    code.push_str("]\n");
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR is not set"))?;
    let out = PathBuf::from(out);
    fs::write(out.join("experiments.rs"), code)?;
    fs::write(out.join("host_traces.rs"), host_traces(&root.join("hosts"))?)
}

/// The kept traces of hosts: name and text of each.
fn host_traces(folder: &Path) -> io::Result<String> {
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    files.sort();
    let mut code = String::from("&[\n");
    for path in files {
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        writeln!(code, "({stem:?}, {:?}),", fs::read_to_string(&path)?).map_err(io::Error::other)?;
    }
    code.push_str("]\n");
    Ok(code)
}

fn folders(of: &Path) -> io::Result<Vec<PathBuf>> {
    if !of.is_dir() {
        return Ok(Vec::new());
    }
    println!("cargo:rerun-if-changed={}", of.display());
    let mut folders = Vec::new();
    for entry in fs::read_dir(of)? {
        let path = entry?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    folders.sort();
    Ok(folders)
}

fn name(folder: &Path) -> String {
    folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
