//! Which room of a crate may use which.
//!
//! A room is a folder, or a file, at the top of a crate's `src`, with all that lies beneath it.

use std::collections::BTreeSet;

use crate::modules::{Modules, Path};

/// The name of the root's own file.
const ROOT: &str = "crate";

/// The rooms of a crate, each with the others that it may use.
pub type MayUse<'a> = &'a [(&'a str, &'a [&'a str])];

/// The rooms of the crates that have several. A room that is not listed may not exist.
///
/// All rooms use the types of the callers' interface. Crates are kept apart by their dependencies.
pub const ROOMS: &[(&str, MayUse<'static>)] = &[
    ("session", &[("api", &[]), ("system", &["api"]), ("session", &["system", "api"])]),
    ("engine", &[("engine", &[]), ("paths", &["engine"])]),
    ("haul", &[("fetch_list", &[]), ("haul", &["fetch_list"])]),
    ("tools", &[("bench", &[]), ("check", &[]), ("doctor", &[]), ("predict", &[])]),
];

/// Every arrow between rooms that the list does not allow, every room that it lacks, and every listed room that is
/// gone.
pub fn violations(modules: &Modules, may_use: MayUse<'_>) -> Vec<String> {
    let rooms: BTreeSet<&str> = modules.paths().filter_map(|path| path.first()).map(String::as_str).collect();
    let is_listed = |room: &str| may_use.iter().any(|(name, _)| *name == room);
    let unlisted = rooms.iter().filter(|room| !is_listed(room));
    let mut found: Vec<String> = unlisted.map(|room| format!("{room} is not in the list of rooms")).collect();
    let gone = may_use.iter().filter(|(room, _)| !rooms.contains(room));
    found.extend(gone.map(|(room, _)| format!("there is no room {room} any more: take it off the list")));
    for (from, to) in modules.arrows() {
        // The root puts the rooms together.
        let Some(room) = from.first() else { continue };
        let used = to.first().map_or(ROOT, String::as_str);
        let is_allowed = may_use.iter().any(|(name, uses)| name == room && uses.contains(&used));
        if room != used && !is_allowed && is_listed(room) {
            found.push(format!("{room} may not use {used}: {} -> {}", name(&from), name(&to)));
        }
    }
    found
}

fn name(path: &Path) -> String {
    if path.is_empty() { ROOT.to_owned() } else { path.join("::") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: MayUse<'static> = &[("low", &[]), ("high", &["low"])];

    fn found(low: &str, high: &str) -> Vec<String> {
        let root = ("lib.rs", "mod low; mod high; pub struct Own;");
        let files = [root, ("low/mod.rs", "mod deep;"), ("low/deep.rs", low), ("high.rs", high)];
        violations(&Modules::parse(files), LIST)
    }

    #[test]
    fn violations_none_when_rooms_use_what_they_may() {
        assert_eq!(found("pub struct Low;", "use crate::low::deep::Low;"), [""; 0]);
    }

    #[test]
    fn violations_names_an_arrow_that_goes_up_or_to_the_root() {
        let high = "pub struct High;";
        assert_eq!(found("use crate::high::High;", high), ["low may not use high: low::deep -> high"]);
        assert_eq!(found("use crate::Own;", high), ["low may not use crate: low::deep -> crate"]);
    }

    #[test]
    fn violations_names_rooms_that_are_new_or_gone() {
        let files = [("lib.rs", "mod low; mod attic;"), ("low.rs", ""), ("attic.rs", "")];
        let expected = ["attic is not in the list of rooms", "there is no room high any more: take it off the list"];
        assert_eq!(violations(&Modules::parse(files), LIST), expected);
    }

    #[test]
    fn rooms_have_no_cycle() {
        // Each room uses only rooms that are listed before it.
        for (crate_name, rooms) in ROOMS {
            for (at, (room, uses)) in rooms.iter().enumerate() {
                let before = |used: &&str| rooms[..at].iter().any(|(name, _)| name == used);
                assert!(uses.iter().all(before), "{crate_name}: {room}");
            }
        }
    }
}
