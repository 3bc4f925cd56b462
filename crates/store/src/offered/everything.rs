//! Everything offered, as one data set: each directory under its name in requests.

use super::data_set::Base;
use super::scan::Tree;
use super::{DataSet, MayHold, Offered, OfferedError, ScanOptions};
use crate::{Contents, Timestamp};

/// The name of the data set. It is only a placeholder: nothing lands under it.
const NAME: &[u8] = b"everything";
/// The permissions of its directory, which exists on no disk.
const MODE: u32 = 0o755;

impl Offered {
    /// Everything, in one data set.
    pub(super) fn everything(
        &self,
        request: &[u8],
        options: ScanOptions,
        may_hold: &mut MayHold<'_>,
    ) -> Result<DataSet, OfferedError> {
        let mut may_hold = |bytes| may_hold(bytes);
        let mut tree = Tree::new(request, options, &mut may_hold);
        for root in &self.roots {
            match &root.file {
                Some(file) => tree.add_file(&root.dir, file, &root.name)?,
                None => tree.add(&root.dir, &root.name)?,
            }
        }
        let (mut contents, versions) = tree.finish()?;
        contents.top.mode = MODE;
        contents.top.modified = latest(&contents);
        DataSet::of_tree(Base::All(self.roots.clone()), NAME, request, (contents, versions))
    }
}

/// The latest modification time of the directories and files at the top.
fn latest(contents: &Contents) -> Timestamp {
    let directories = contents.directories.iter().map(|directory| (&directory.path, &directory.metadata));
    let all = directories.chain(contents.files.iter().map(|file| (&file.path, &file.metadata)));
    let at_top = all.filter(|(path, _)| !path.contains(&b'/')).map(|(_, metadata)| metadata.modified);
    at_top.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Offer;
    use std::fs;

    #[test]
    fn everything_is_each_directory_under_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("a/sub")).unwrap();
        fs::create_dir(at("b")).unwrap();
        for file in ["a/f", "a/sub/g", "b/f", "single"] {
            fs::write(at(file), file).unwrap();
        }
        fs::hard_link(at("a/f"), at("b/same")).unwrap();
        let named = Offer::named("n", at("b")).unwrap();
        let offered = Offered::of(&[at("a").into(), named, at("single").into()]).unwrap();
        let scan = || offered.scan(b"/", ScanOptions::default()).unwrap();
        let set = scan();
        let paths: Vec<_> = set.manifest().entries().iter().map(|file| file.path.as_slice()).collect();
        assert_eq!(paths, [&b"a/f"[..], b"a/sub/g", b"n/f", b"single"]);
        assert_eq!(set.manifest().hard_links()[0].path, b"n/same");
        let mut bytes = vec![0; set.manifest().size() as usize];
        set.read(0, &mut bytes).unwrap();
        assert_eq!(bytes, b"a/fa/sub/gb/fsingle");
        assert!(set.is_same(&scan()));
        fs::write(at("b/f"), "more").unwrap();
        assert!(!set.is_same(&scan()));
        // One that has a name is under that, as it is beside others.
        let one = Offered::of(&[Offer::named("x", at("b")).unwrap()]).unwrap();
        let set = one.scan(b"", ScanOptions::default()).unwrap();
        assert_eq!(set.manifest().entries()[0].path, b"x/f");
    }
}
