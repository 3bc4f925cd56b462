//! Prints, of each crate whose folder is named, its modules, arrows, floors and circles:
//! `cargo run -p inhaul-house-tests --example circles -- crates/cli crates/lab`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use inhaul_house_tests::circles::{circles, floors};
use inhaul_house_tests::modules::Modules;

fn main() {
    for folder in std::env::args().skip(1) {
        let src = Path::new(&folder).join("src");
        let mut files = BTreeMap::new();
        read(&src, &src, &mut files);
        let modules = Modules::parse(files.iter().map(|(name, text)| (name.as_str(), text.as_str())));
        let (arrows, circles) = (modules.arrows(), circles(&modules));
        let count = modules.paths().count();
        let (floors, tied) = (floors(&modules), circles.iter().map(|circle| circle.rooms.len()).sum::<usize>());
        println!(
            "{folder}: {count} modules, {floors} floors, {} arrows, {} circles of {tied} rooms",
            arrows.len(),
            circles.len()
        );
        for circle in circles {
            println!("  {}\n      {}", circle.rooms.join(", "), circle.arrows.join("\n      "));
        }
    }
}

fn read(src: &Path, folder: &Path, into: &mut BTreeMap<String, String>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    for path in paths {
        if path.is_dir() {
            read(src, &path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && let Some(name) = path.strip_prefix(src).ok().and_then(Path::to_str)
        {
            into.insert(name.to_owned(), fs::read_to_string(&path).unwrap_or_default());
        }
    }
}
