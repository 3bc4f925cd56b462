//! Requirements on a crate so that it can be published, and be built from the published files.

use std::path::{Component, Path};

use serde::Deserialize;

/// What `cargo metadata --no-deps` says, as far as publishing needs it.
#[derive(Debug, Deserialize)]
pub struct Metadata {
    /// The crates of the workspace.
    pub packages: Vec<Package>,
}

/// A crate of the workspace.
#[derive(Debug, Deserialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Where its `Cargo.toml` stands.
    pub manifest_path: String,
    /// The registries that it may go to: none named is any, an empty list is nowhere.
    pub publish: Option<Vec<String>>,
    /// Its description, in a line.
    pub description: Option<String>,
    /// Its keywords.
    pub keywords: Vec<String>,
    /// Where it is found.
    pub categories: Vec<String>,
    /// Its dependencies: of the crate, its build and its tests.
    pub dependencies: Vec<Dependency>,
}

/// A dependency of a crate.
#[derive(Debug, Deserialize)]
pub struct Dependency {
    /// The name of the crate that is used.
    pub name: String,
    /// The accepted versions; `*` if none is given.
    pub req: String,
    /// `dev`, `build`, or nothing for the crate itself.
    pub kind: Option<String>,
}

impl Package {
    fn is_published(&self) -> bool {
        self.publish.is_none()
    }
}

/// What crates lack that are published: words that describe them, and dependencies that are published with them.
pub fn violations(metadata: &Metadata) -> Vec<String> {
    let mut found = Vec::new();
    for package in metadata.packages.iter().filter(|package| package.is_published()) {
        let name = &package.name;
        let is_described = package.description.as_ref().is_some_and(|text| !text.is_empty());
        let has_words = (1..=5).contains(&package.keywords.len()) && (1..=5).contains(&package.categories.len());
        if !is_described || !has_words {
            found.push(format!("{name} needs a description, one to five keywords, and one to five categories"));
        }
        for dependency in &package.dependencies {
            let Some(used) = metadata.packages.iter().find(|other| other.name == dependency.name) else { continue };
            found.extend(unfit(dependency, used).map(|what| format!("{name}: {what}")));
        }
    }
    found
}

/// Why a published crate cannot have this dependency on a crate of the workspace.
fn unfit(dependency: &Dependency, used: &Package) -> Option<String> {
    let (name, req) = (&used.name, &dependency.req);
    let is_for_tests = dependency.kind.as_deref() == Some("dev");
    match used.is_published() {
        // Crates of one version belong together: their internals change between any two versions.
        true if *req == format!("={}", used.version) => None,
        true => Some(format!("{name} must be \"={}\", and is \"{req}\"", used.version)),
        // Cargo leaves dependencies without a version out of a published crate.
        false if is_for_tests && req == "*" => None,
        false => Some(format!("{name} is not published: only tests may use it, and without a version")),
    }
}

/// Files that the source at `path`, relative to its crate, includes from outside of the crate: they would be missing in
/// the published crate.
pub fn includes_outside(path: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("include_str!(\"").chain(text.match_indices("include_bytes!(\"")) {
        let Some(file) = text[at..].split('"').nth(1) else { continue };
        let folder = path.parent().unwrap_or(Path::new(""));
        if leaves(&folder.join(file)) {
            found.push(format!("{file} is outside of the crate: link to it from within"));
        }
    }
    found
}

/// Whether the path, followed from some folder, leaves that folder.
fn leaves(path: &Path) -> bool {
    let mut depth = 0;
    path.components().any(|part| {
        depth += match part {
            Component::ParentDir => -1,
            Component::Normal(_) => 1,
            _ => 0,
        };
        depth < 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, publish: Option<Vec<String>>, dependencies: &[(&str, &str, Option<&str>)]) -> Package {
        let dependency = |(name, req, kind): &(&str, &str, Option<&str>)| Dependency {
            name: (*name).to_owned(),
            req: (*req).to_owned(),
            kind: kind.map(str::to_owned),
        };
        Package {
            name: name.to_owned(),
            version: "0.2.0".to_owned(),
            manifest_path: String::new(),
            publish,
            description: Some("It moves data".to_owned()),
            keywords: vec!["network".to_owned()],
            categories: vec!["network-programming".to_owned()],
            dependencies: dependencies.iter().map(dependency).collect(),
        }
    }

    fn found(dependencies: &[(&str, &str, Option<&str>)]) -> Vec<String> {
        let packages = vec![
            package("base", None, &[]),
            package("fuzz", Some(Vec::new()), &[("base", "*", None)]),
            package("mover", None, dependencies),
        ];
        violations(&Metadata { packages })
    }

    #[test]
    fn violations_accepts_what_cargo_can_publish() {
        assert_eq!(found(&[("base", "=0.2.0", None), ("fuzz", "*", Some("dev")), ("libc", "^0.2", None)]), [""; 0]);
    }

    #[test]
    fn violations_names_dependencies_that_are_not_published_with_the_crate() {
        assert_eq!(found(&[("base", "*", None)]), ["mover: base must be \"=0.2.0\", and is \"*\""]);
        assert_eq!(found(&[("base", "^0.2", Some("dev"))]).len(), 1);
        let refused = "mover: fuzz is not published: only tests may use it, and without a version";
        assert_eq!(found(&[("fuzz", "*", None)]), [refused]);
        assert_eq!(found(&[("fuzz", "=0.2.0", Some("dev"))]), [refused]);
    }

    #[test]
    fn violations_names_a_crate_without_keywords() {
        let mut bare = package("mover", None, &[]);
        bare.keywords.clear();
        let found = violations(&Metadata { packages: vec![bare] });
        assert_eq!(found, ["mover needs a description, one to five keywords, and one to five categories"]);
    }

    #[test]
    fn includes_outside_follows_the_path_from_the_file() {
        let check = |path: &str, text: &str| includes_outside(Path::new(path), text).len();
        assert_eq!(check("src/man.rs", r#"include_str!("../docs/json.md"), include_str!("style.css")"#), 0);
        assert_eq!(check("src/man.rs", r#"include_str!("../../docs/json.md")"#), 1);
        assert_eq!(check("src/a/b.rs", r#"include_bytes!("../../../logo.png")"#), 1);
        assert_eq!(check("src/a/b.rs", r#"include_str!("../../docs/../../other")"#), 1);
    }
}
