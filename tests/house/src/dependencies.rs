//! Who may depend on whom.

use serde::Deserialize;

/// The other crates that each crate may use. A crate that is not listed may not exist.
///
/// None of `udp`, `store`, `link` and `sim` knows any protocol: an engine that did could not carry the next one.
const MAY_USE: &[(&str, &[&str])] = &[
    ("inhaul-base", &[]),
    ("inhaul-transport", &["inhaul-base"]),
    ("inhaul-protocols", &["inhaul-transport", "inhaul-base"]),
    ("inhaul-store", &["inhaul-base"]),
    ("inhaul-identity", &[]),
    ("inhaul-link", &["inhaul-base"]),
    ("inhaul-sim", &["inhaul-link", "inhaul-transport", "inhaul-base"]),
    (
        "inhaul-lab",
        &[
            "inhaul-emu",
            "inhaul-mover",
            "inhaul-identity",
            "inhaul-udp",
            "inhaul-sim",
            "inhaul-link",
            "inhaul-protocols",
            "inhaul-transport",
            "inhaul-base",
        ],
    ),
    ("inhaul-udp", &["inhaul-transport", "inhaul-base"]),
    ("inhaul-udt4", &["inhaul-protocols", "inhaul-udp", "inhaul-transport", "inhaul-base"]),
    ("inhaul-emu", &["inhaul-link", "inhaul-udp", "inhaul-base"]),
    (
        "inhaul-session",
        &["inhaul-store", "inhaul-identity", "inhaul-udp", "inhaul-protocols", "inhaul-transport", "inhaul-base"],
    ),
    ("inhaul-engine", &["inhaul-session", "inhaul-udp", "inhaul-protocols", "inhaul-transport", "inhaul-base"]),
    (
        "inhaul-sources",
        &["inhaul-engine", "inhaul-session", "inhaul-store", "inhaul-udp", "inhaul-transport", "inhaul-base"],
    ),
    (
        "inhaul-haul",
        &[
            "inhaul-sources",
            "inhaul-engine",
            "inhaul-session",
            "inhaul-store",
            "inhaul-udp",
            "inhaul-transport",
            "inhaul-base",
        ],
    ),
    (
        "inhaul-read",
        &[
            "inhaul-haul",
            "inhaul-sources",
            "inhaul-engine",
            "inhaul-session",
            "inhaul-store",
            "inhaul-udp",
            "inhaul-transport",
            "inhaul-base",
        ],
    ),
    (
        "inhaul-serve",
        &[
            "inhaul-engine",
            "inhaul-session",
            "inhaul-store",
            "inhaul-identity",
            "inhaul-udp",
            "inhaul-protocols",
            "inhaul-transport",
            "inhaul-base",
        ],
    ),
    (
        "inhaul-delegate",
        &[
            "inhaul-haul",
            "inhaul-serve",
            "inhaul-engine",
            "inhaul-session",
            "inhaul-store",
            "inhaul-identity",
            "inhaul-udp",
            "inhaul-transport",
            "inhaul-base",
        ],
    ),
    // Its tests start a server that takes orders.
    (
        "inhaul-tools",
        &[
            "inhaul-delegate",
            "inhaul-haul",
            "inhaul-sources",
            "inhaul-serve",
            "inhaul-engine",
            "inhaul-session",
            "inhaul-store",
            "inhaul-identity",
            "inhaul-udp",
            "inhaul-transport",
            "inhaul-base",
        ],
    ),
    (
        "inhaul-mover",
        &[
            "inhaul-tools",
            "inhaul-delegate",
            "inhaul-read",
            "inhaul-haul",
            "inhaul-engine",
            "inhaul-session",
            "inhaul-store",
            "inhaul-udp",
            "inhaul-protocols",
            "inhaul-transport",
            "inhaul-base",
        ],
    ),
    ("inhaul", &["inhaul-mover", "inhaul-store", "inhaul-identity", "inhaul-base"]),
    ("inhaul-python", &["inhaul", "inhaul-lab", "inhaul-transport", "inhaul-base"]),
    // Its tests mutate configuration files with the fuzzers' hand.
    (
        "inhaul-cli",
        &[
            "inhaul-emu",
            "inhaul-lab",
            "inhaul-mover",
            "inhaul-identity",
            "inhaul-udt4",
            "inhaul-protocols",
            "inhaul-base",
            "inhaul-fuzz",
        ],
    ),
    (
        "inhaul-fuzz",
        &[
            "inhaul-lab",
            "inhaul-mover",
            "inhaul-store",
            "inhaul-identity",
            "inhaul-udp",
            "inhaul-udt4",
            "inhaul-protocols",
            "inhaul-transport",
            "inhaul-base",
        ],
    ),
    (
        "inhaul-contract-tests",
        &[
            "inhaul-mover",
            "inhaul-identity",
            "inhaul-sim",
            "inhaul-link",
            "inhaul-protocols",
            "inhaul-transport",
            "inhaul-base",
        ],
    ),
    (
        "inhaul-interop-tests",
        &[
            "inhaul-emu",
            "inhaul-sim",
            "inhaul-link",
            "inhaul-udt4",
            "inhaul-protocols",
            "inhaul-transport",
            "inhaul-base",
            "inhaul-fuzz",
        ],
    ),
    (
        "inhaul-hostile-tests",
        &[
            "inhaul",
            "inhaul-mover",
            "inhaul-store",
            "inhaul-identity",
            "inhaul-udp",
            "inhaul-udt4",
            "inhaul-protocols",
            "inhaul-transport",
            "inhaul-base",
        ],
    ),
    ("inhaul-model-tests", &["inhaul-protocols", "inhaul-transport", "inhaul-base"]),
    ("inhaul-house-tests", &["inhaul-protocols"]),
];

/// What `cargo metadata --no-deps` says, as far as the rules need it.
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
    /// Where its `Cargo.toml` stands.
    pub manifest_path: String,
    /// Its dependencies: of the crate, its build and its tests.
    pub dependencies: Vec<Dependency>,
}

/// A dependency of a crate.
#[derive(Debug, Deserialize)]
pub struct Dependency {
    /// The name of the crate that is used.
    pub name: String,
}

/// Every dependency between crates of the workspace that the table does not allow, and every crate that it does not
/// list.
pub fn violations(metadata: &Metadata) -> Vec<String> {
    let mut found = Vec::new();
    for package in &metadata.packages {
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == package.name) else {
            found.push(format!("{} is not in the table of who may depend on whom", package.name));
            continue;
        };
        for dependency in package.dependencies.iter().map(|d| d.name.as_str()) {
            let ours = metadata.packages.iter().any(|p| p.name == dependency);
            if ours && !allowed.contains(&dependency) {
                found.push(format!("{} may not depend on {dependency}", package.name));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[&str]) -> Package {
        let dependencies = dependencies.iter().map(|name| Dependency { name: (*name).to_owned() }).collect();
        Package { name: name.to_owned(), manifest_path: String::new(), dependencies }
    }

    fn workspace(udp_uses: &[&str]) -> Metadata {
        let packages = vec![
            package("inhaul-base", &["rand_core"]),
            package("inhaul-transport", &["inhaul-base"]),
            package("inhaul-protocols", &["inhaul-transport"]),
            package("inhaul-udp", udp_uses),
        ];
        Metadata { packages }
    }

    #[test]
    fn violations_none_when_dependencies_point_down() {
        assert_eq!(violations(&workspace(&["inhaul-transport", "inhaul-base", "libc"])), [""; 0]);
    }

    #[test]
    fn violations_names_an_engine_that_knows_a_protocol() {
        assert_eq!(violations(&workspace(&["inhaul-protocols"])), ["inhaul-udp may not depend on inhaul-protocols"]);
    }

    #[test]
    fn violations_names_a_crate_that_is_not_listed() {
        let mut metadata = workspace(&[]);
        metadata.packages.push(package("inhaul-attic", &[]));
        assert_eq!(violations(&metadata), ["inhaul-attic is not in the table of who may depend on whom"]);
    }

    #[test]
    fn may_use_has_no_cycle() {
        // Each crate uses only crates that are settled already, in some order: repeated until nothing changes.
        let mut settled: Vec<&str> = Vec::new();
        while let Some((name, _)) = MAY_USE
            .iter()
            .find(|(name, uses)| !settled.contains(name) && uses.iter().all(|used| settled.contains(used)))
        {
            settled.push(name);
        }
        assert_eq!(settled.len(), MAY_USE.len(), "these can be settled: {settled:?}");
    }
}
