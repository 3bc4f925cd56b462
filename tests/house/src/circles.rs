//! Circles between the modules of a crate.
//!
//! A crate is looked at a folder at a time, the root first. The rooms of a folder are its own file (`lib.rs`,
//! `mod.rs`, or `a.rs` beside the folder `a`) and each of its modules, with all that lies beneath it: an arrow of
//! [`Modules::arrows`] between two files is one between the rooms that they are in. Rooms that reach each other are
//! a circle. So two folders whose files use each other both ways are one, though no two of these files need be.
//!
//! That a parent declares its children and re-exports their names is no arrow. It is in a circle with a child if it
//! uses something of the child, and the child uses something that stands in the parent's own file.

use std::collections::{BTreeMap, BTreeSet};

use crate::modules::{Modules, Path};

/// Rooms that reach each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Circle {
    /// Their names from the root of the crate, like `haul::object`, in order. The root's own file is `crate`.
    pub rooms: Vec<String>,
    /// What ties them: arrows between their files.
    pub arrows: Vec<String>,
}

/// All circles of a crate.
pub fn circles(modules: &Modules) -> Vec<Circle> {
    let arrows = modules.arrows();
    let folders = modules.paths().filter(|path| modules.paths().any(|other| is_child(path, other)));
    let mut found: Vec<Circle> = folders.flat_map(|folder| circles_in(folder, &arrows)).collect();
    found.sort();
    found
}

fn is_child(folder: &Path, other: &Path) -> bool {
    other.len() == folder.len() + 1 && other.starts_with(folder)
}

fn circles_in(folder: &Path, arrows: &BTreeSet<(Path, Path)>) -> Vec<Circle> {
    let room = |path: &Path| path.starts_with(folder).then(|| path[..path.len().min(folder.len() + 1)].to_vec());
    let mut doors: BTreeMap<Path, BTreeSet<Path>> = BTreeMap::new();
    for (from, to) in arrows {
        if let (Some(from), Some(to)) = (room(from), room(to))
            && from != to
        {
            doors.entry(from).or_default().insert(to);
        }
    }
    let reached: BTreeMap<&Path, BTreeSet<Path>> = doors.keys().map(|from| (from, reach(from, &doors))).collect();
    let mut circles: Vec<BTreeSet<Path>> = Vec::new();
    for (from, rooms) in &reached {
        if !rooms.contains(*from) || circles.iter().any(|circle| circle.contains(*from)) {
            continue;
        }
        let back = |room: &&Path| reached.get(*room).is_some_and(|rooms| rooms.contains(*from));
        circles.push(rooms.iter().filter(back).cloned().collect());
    }
    let described = circles.into_iter().map(|circle| {
        let is_inside = |path: &Path| room(path).is_some_and(|room| circle.contains(&room));
        let ties = arrows.iter().filter(|(from, to)| room(from) != room(to) && is_inside(from) && is_inside(to));
        Circle {
            rooms: circle.iter().map(name).collect(),
            arrows: ties.map(|(from, to)| format!("{} -> {}", name(from), name(to))).collect(),
        }
    });
    described.collect()
}

/// All rooms that one gets to from `start`; `start` itself if there is a way back.
fn reach(start: &Path, doors: &BTreeMap<Path, BTreeSet<Path>>) -> BTreeSet<Path> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![start];
    while let Some(room) = waiting.pop() {
        for next in doors.get(room).into_iter().flatten() {
            if reached.insert(next.clone()) {
                waiting.push(next);
            }
        }
    }
    reached
}

/// How many floors a crate has: each file stands above all that it uses, and files that reach each other stand on
/// one floor.
pub fn floors(modules: &Modules) -> usize {
    let mut doors: BTreeMap<Path, BTreeSet<Path>> = BTreeMap::new();
    for (from, to) in modules.arrows() {
        doors.entry(from).or_default().insert(to);
    }
    let reached: BTreeMap<&Path, BTreeSet<Path>> = modules.paths().map(|path| (path, reach(path, &doors))).collect();
    let mut floors: BTreeMap<&Path, usize> = modules.paths().map(|path| (path, 1)).collect();
    // No way is longer than there are files.
    for _ in 0..floors.len() {
        for (from, to) in modules.arrows() {
            let (Some((from, _)), Some((to, below))) = (reached.get_key_value(&from), reached.get_key_value(&to))
            else {
                continue;
            };
            let step = usize::from(!below.contains(*from));
            let floor = floors[from].max(floors[to] + step);
            floors.insert(from, floor);
        }
    }
    floors.into_values().max().unwrap_or(0)
}

fn name(path: &Path) -> String {
    if path.is_empty() { "crate".to_owned() } else { path.join("::") }
}

/// The circles of the crate `name`, each with what ties it. There may be none.
pub fn violations(name: &str, modules: &Modules) -> Vec<String> {
    let described = circles(modules).into_iter().map(|circle| {
        let ties = circle.arrows.join("\n      ");
        format!("{name}: {} use each other:\n      {ties}", circle.rooms.join(", "))
    });
    described.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rooms(files: &[(&str, &str)]) -> Vec<String> {
        let found = circles(&Modules::parse(files.iter().copied()));
        found.iter().map(|circle| circle.rooms.join(" ")).collect()
    }

    #[test]
    fn circles_are_named_at_any_length() {
        let root = ("lib.rs", "mod a; mod b; mod c; mod d;");
        let (a, b) = (("a.rs", "use crate::b::B;"), ("b.rs", "use crate::c::C;"));
        let d = ("d.rs", "use crate::{a::A, b::B};");
        assert_eq!(rooms(&[root, a, b, ("c.rs", ""), d]), [""; 0]);
        assert_eq!(rooms(&[root, a, b, ("c.rs", "use crate::a::A;"), d]), ["a b c"]);
        assert_eq!(rooms(&[root, a, ("b.rs", "use crate::a::A;"), ("c.rs", "use crate::d::D;"), d]), ["a b"]);
    }

    #[test]
    fn circles_of_a_parent_and_a_child_need_both_to_use_what_is_the_other_s() {
        let root = ("lib.rs", "mod a;");
        let child = ("a/child.rs", "use super::Own; pub struct Child;");
        assert_eq!(rooms(&[root, ("a.rs", "mod child; pub use child::Child; pub struct Own;"), child]), [""; 0]);
        assert_eq!(rooms(&[root, ("a.rs", "mod child; pub struct Own(child::Child);"), child]), ["a a::child"]);
        let apart = ("a/child.rs", "pub struct Child;");
        assert_eq!(rooms(&[root, ("a.rs", "mod child; pub struct Own(child::Child);"), apart]), [""; 0]);
    }

    #[test]
    fn circles_of_the_root_count_too() {
        let files = [("main.rs", "mod a; fn main() { a::run() } fn stop() {}"), ("a.rs", "fn run() { crate::stop() }")];
        assert_eq!(rooms(&files), ["crate a"]);
    }

    #[test]
    fn circles_between_folders_need_no_circle_of_files() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod up; mod down;"),
            ("a/up.rs", "use crate::b::B;"),
            ("a/down.rs", "pub struct Down;"),
            ("b.rs", "use crate::a::down::Down;"),
        ];
        assert_eq!(rooms(&files), ["a b"]);
    }

    #[test]
    fn circles_inside_a_folder_are_the_folder_s() {
        let files = [
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod x; mod y;"),
            ("a/x.rs", "use super::y::Y;"),
            ("a/y.rs", "use super::x::X;"),
        ];
        assert_eq!(rooms(&files), ["a::x a::y"]);
    }

    #[test]
    fn floors_are_the_longest_way_down() {
        let floors = |files: &[(&str, &str)]| floors(&Modules::parse(files.iter().copied()));
        let root = ("lib.rs", "mod a; mod b; mod c;");
        let a = ("a.rs", "use crate::{b::B, c::C};");
        assert_eq!(floors(&[root, ("a.rs", ""), ("b.rs", ""), ("c.rs", "")]), 1);
        assert_eq!(floors(&[root, a, ("b.rs", "use crate::c::C;"), ("c.rs", "")]), 3);
        assert_eq!(floors(&[root, a, ("b.rs", "use crate::c::C;"), ("c.rs", "use crate::b::B;")]), 2);
    }

    #[test]
    fn violations_say_what_ties_a_circle() {
        let files = [("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B;"), ("b.rs", "use crate::a::A;")];
        assert_eq!(violations("x", &Modules::parse(files)), ["x: a, b use each other:\n      a -> b\n      b -> a"]);
        assert_eq!(violations("x", &Modules::parse(files[..2].iter().copied())), [""; 0]);
    }
}
