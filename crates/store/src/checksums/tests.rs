use proptest::prelude::*;

use super::*;

const BLAKE3: Algorithm = Algorithm::Blake3;

fn listed(path: &[u8], size: Option<u64>, fill: u8, len: usize) -> FileSum {
    FileSum { path: path.to_vec(), size, checksum: vec![fill; len] }
}

fn list(format: Format, algorithm: Algorithm, paths: &[&[u8]]) -> Checksums {
    let size = matches!(format, Format::Inhaul(_)).then_some(7);
    let files = paths.iter().enumerate().map(|(k, path)| listed(path, size, k as u8, algorithm.bytes())).collect();
    Checksums { format, algorithm, files }
}

#[test]
fn ours_has_a_hash_of_the_whole() {
    let written = list(Format::Inhaul(Kind::Directory), BLAKE3, &[b"a", b"d/b"]).write();
    let text = String::from_utf8(written.clone()).unwrap();
    let body = format!("{} 7 a\n{} 7 d/b\n", "00".repeat(32), "01".repeat(32));
    let root = blake3::hash(body.as_bytes()).to_hex();
    assert_eq!(text, format!("# inhaul manifest 1 directory\n# root {root}\n{body}"));
    let changed = text.replace(" 7 a", " 8 a");
    assert_eq!(Checksums::read(changed.as_bytes(), BLAKE3), Err(ChecksumsError::Root));
    let newer = text.replace("manifest 1", "manifest 2");
    assert_eq!(Checksums::read(newer.as_bytes(), BLAKE3), Err(ChecksumsError::Version));
}

#[test]
fn read_takes_what_other_tools_write() {
    let (short, long) = ("ab".repeat(32), "CD".repeat(64));
    let read = |text: &str| Checksums::read(text.as_bytes(), Algorithm::Sha256);
    for text in [
        format!("{short}  a\n"),
        format!("{short} *a\n"),
        format!("{short}  ./a\r\n"),
        format!("{short} a"),
        format!("# made by hand\n{short}\ta\n\n"),
        format!("SHA256 (a) = {short}\n"),
    ] {
        let list = read(&text).unwrap();
        assert_eq!((list.algorithm, list.files), (Algorithm::Sha256, vec![listed(b"a", None, 0xab, 32)]), "{text}");
    }
    assert_eq!(read(&format!("{long}  a b\n")).unwrap().files, [listed(b"a b", None, 0xcd, 64)]);
    assert_eq!(read(&format!("\\{short}  a\\nb\\\\\n")).unwrap().files[0].path, b"a\nb\\");
    assert_eq!(read(&format!("BLAKE3 (a) = b) = {short}\n")).unwrap().files[0].path, b"a) = b");
}

#[test]
fn read_says_which_line_is_wrong() {
    let sum = "ab".repeat(32);
    let read = |text: String| Checksums::read(text.as_bytes(), BLAKE3).unwrap_err();
    for (line, error) in [
        ("nonsense".to_owned(), ChecksumsError::Line(2)),
        (sum.clone(), ChecksumsError::Line(2)),
        (format!("{}  b", "ab".repeat(20)), ChecksumsError::Line(2)),
        (format!("\\{sum}  b\\x"), ChecksumsError::Line(2)),
        (format!("{sum}  ../b"), ChecksumsError::Path(2)),
        (format!("{sum}  /b"), ChecksumsError::Path(2)),
        (format!("{sum}  a"), ChecksumsError::Twice(2)),
        (format!("{}  b", "ab".repeat(64)), ChecksumsError::Mixed(2)),
    ] {
        assert_eq!(read(format!("{sum}  a\n{line}\n")), error, "{line}");
    }
    assert_eq!(read(String::new()), ChecksumsError::Empty);
}

#[test]
fn payload_manifests_are_read_with_their_escapes() {
    let sum = "ab".repeat(64);
    let text = format!("{sum}  data/a%0Ab%25c\n{sum} *data/50% of\n{sum}\tdata/x\n");
    let read = |name: &str| (name == "manifest-sha512.txt").then(|| text.clone().into_bytes());
    let manifests = bag_manifests(read).unwrap().payload;
    let paths: Vec<&[u8]> = manifests[0].files.iter().map(|file| file.path.as_slice()).collect();
    assert_eq!(paths, [&b"data/a\nb%c"[..], b"data/50% of", b"data/x"]);
    assert_eq!(bag_manifests(|_| None), Err(BagItError::NoManifest));
    for path in ["bag-info.txt", "data/../x", "data//x", "data/"] {
        let wrong = |name: &str| (name == "manifest-sha512.txt").then_some(format!("{sum}  {path}\n").into_bytes());
        let error = BagItError::Line { name: "manifest-sha512.txt".to_owned(), line: 1 };
        assert_eq!(bag_manifests(wrong), Err(error), "{path}");
    }
}

#[test]
fn declaration_is_that_of_the_standard() {
    assert_eq!(check_declaration(b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"), Ok(()));
    for wrong in [&b""[..], b"BagIt-Version: 1.0\n", b"BagIt-Version: x\nTag-File-Character-Encoding: UTF-8\n", b"\xff"]
    {
        assert_eq!(check_declaration(wrong), Err(BagItError::Declaration));
    }
}

proptest! {
    #[test]
    fn every_format_gives_back_what_was_written(
        names in prop::collection::btree_set(prop::collection::vec(1u8..=255, 1..12), 1..6),
        kind in 0..4,
    ) {
        let names: Vec<Vec<u8>> = names.into_iter().filter(|name| !name.contains(&b'/') && name != b"." && name != b"..").collect();
        prop_assume!(!names.is_empty());
        let bag: Vec<Vec<u8>> = names.iter().map(|name| [b"data/".as_slice(), name].concat()).collect();
        let paths = |names: &[Vec<u8>]| -> Vec<Vec<u8>> { names.to_vec() };
        let (format, algorithm, paths) = match kind {
            0 => (Format::Inhaul(Kind::Directory), BLAKE3, paths(&names)),
            1 => (Format::Sums, Algorithm::Sha256, paths(&names)),
            2 => (Format::Sums, Algorithm::Sha512, paths(&names)),
            _ => (Format::BagIt, Algorithm::Sha256, paths(&bag)),
        };
        let paths: Vec<&[u8]> = paths.iter().map(Vec::as_slice).collect();
        let written = list(format, algorithm, &paths);
        let read = match format {
            Format::BagIt => bagit::read_manifest(&written.write(), algorithm, true).unwrap(),
            _ => Checksums::read(&written.write(), algorithm).unwrap(),
        };
        prop_assert_eq!(read, written);
    }

    #[test]
    fn read_takes_anything(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(list) = Checksums::read(&bytes, BLAKE3) {
            prop_assert_eq!(Checksums::read(&list.write(), list.algorithm), Ok(list));
        }
    }
}
