use proptest::prelude::*;

use super::*;
use crate::Kind;

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
    assert_eq!(Checksums::read(changed.as_bytes(), None), Err(ChecksumsError::Root));
    let newer = text.replace("manifest 1", "manifest 2");
    assert_eq!(Checksums::read(newer.as_bytes(), None), Err(ChecksumsError::Version));
}

#[test]
fn read_takes_what_other_tools_write() {
    let (short, long) = ("ab".repeat(32), "CD".repeat(64));
    let read = |text: &str| Checksums::read(text.as_bytes(), None);
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
    let read = |text: String| Checksums::read(text.as_bytes(), Some(BLAKE3)).unwrap_err();
    for (line, error) in [
        ("nonsense".to_owned(), ChecksumsError::Line(2)),
        (sum.clone(), ChecksumsError::Line(2)),
        (format!("{}  b", "ab".repeat(21)), ChecksumsError::Line(2)),
        (format!("{}  b", "ab".repeat(20)), ChecksumsError::Mixed(2)),
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

/// A list of one file as archives and grids publish it, and what it is.
const PUBLISHED: &[(&str, Algorithm)] = &[
    // Zenodo, NCBI, md5sum in both modes, BSD.
    ("25f9e794323b453885f5181f1b624d0b  d/a b\n", Algorithm::Md5),
    ("25f9e794323b453885f5181f1b624d0b *d/a b\n", Algorithm::Md5),
    ("25f9e794323b453885f5181f1b624d0b\t./d/a b\r\n", Algorithm::Md5),
    ("MD5 (d/a b) = 25f9e794323b453885f5181f1b624d0b\n", Algorithm::Md5),
    ("MD5(./d/a b)= 25f9e794323b453885f5181f1b624d0b\n", Algorithm::Md5),
    ("md5:25f9e794323b453885f5181f1b624d0b d/a b\n", Algorithm::Md5),
    ("JfnnlDI7RTiF9RgfG2JNCw==  d/a b\n", Algorithm::Md5),
    ("f7c3bc1d808e04732adf679965ccc34ca7ae3441  d/a b\n", Algorithm::Sha1),
    ("SHA1 (d/a b) = f7c3bc1d808e04732adf679965ccc34ca7ae3441\n", Algorithm::Sha1),
    // WLCG, S3, zip's.
    ("adler32:091e01de  d/a b\n", Algorithm::Adler32),
    ("ADLER32 (d/a b) = 091e01de\n", Algorithm::Adler32),
    ("crc32c:4waSgw== d/a b\n", Algorithm::Crc32c),
    ("CRC32C (d/a b) = 4waSgw==\n", Algorithm::Crc32c),
    ("crc64nvme:ae8b14860a799888  d/a b\n", Algorithm::Crc64Nvme),
    ("ae8b14860a799888  d/a b\n", Algorithm::Crc64Nvme),
    ("; made by hand\nd/a b CBF43926\n", Algorithm::Crc32),
];

#[test]
fn lists_that_archives_and_grids_publish_are_read() {
    for (text, algorithm) in PUBLISHED {
        let list = Checksums::read(text.as_bytes(), None).unwrap_or_else(|error| panic!("{text}: {error}"));
        let mut hasher = Hasher::new(*algorithm);
        hasher.update(b"123456789");
        let file = FileSum { path: b"d/a b".to_vec(), size: None, checksum: hasher.finish() };
        assert_eq!((list.algorithm, list.files), (*algorithm, vec![file]), "{text}");
    }
    // Eight digits may be of three kinds, and sixty-four of two.
    for algorithm in [Algorithm::Crc32, Algorithm::Crc32c, Algorithm::Adler32] {
        let read = |text: &str| Checksums::read(text.as_bytes(), Some(algorithm)).unwrap().algorithm;
        assert_eq!([read("091e01de  a\n"), read("a\t091e01de\n")], [algorithm; 2]);
    }
    assert_eq!(Checksums::read(b"091e01de  a\n", None), Err(ChecksumsError::Unnamed(1)));
    assert_eq!(Checksums::read(b"091e01de  a\n", Some(Algorithm::Md5)), Err(ChecksumsError::Unnamed(1)));
}

#[test]
fn kinds_that_are_not_supported_are_refused_by_name() {
    let refused = |text: &str, name: &str| {
        let error = Checksums::read(text.as_bytes(), None).unwrap_err();
        assert_eq!(error, ChecksumsError::Unsupported { line: 1, name: name.to_owned() }, "{text}");
        let said = error.to_string();
        assert!(said.contains(name) && said.contains("md5") && said.contains("adler32"), "{said}");
    };
    refused(&format!("SHA3-256 (a) = {}\n", "ab".repeat(32)), "SHA3-256");
    refused(&format!("RMD160 (a) = {}\n", "ab".repeat(20)), "RMD160");
    refused(&format!("xxh3:{} a\n", "ab".repeat(8)), "xxh3");
    refused(&format!("{}  a\n", "ab".repeat(28)), "SHA-224");
    refused(&format!("{}  a\n", "ab".repeat(48)), "SHA-384");
    // A name with other digits than its own is no line of a list.
    for text in ["MD5 (a) = 091e01de\n", "md5:091e01de a\n"] {
        assert_eq!(Checksums::read(text.as_bytes(), None), Err(ChecksumsError::Line(1)), "{text}");
    }
}

#[test]
fn weak_manifests_of_a_bag_count_only_where_there_is_no_other() {
    let (weak, strong) = (format!("{}  data/a\n", "ab".repeat(16)), format!("{}  data/a\n", "cd".repeat(32)));
    let bag = |has_strong: bool| {
        let read = |name: &str| match name {
            "manifest-md5.txt" => Some(weak.clone().into_bytes()),
            "manifest-sha256.txt" if has_strong => Some(strong.clone().into_bytes()),
            "tagmanifest-md5.txt" => Some(format!("{}  bagit.txt\n", "ef".repeat(16)).into_bytes()),
            _ => None,
        };
        let found = bag_manifests(read).unwrap();
        let kinds = |lists: &[Checksums]| lists.iter().map(|list| list.algorithm).collect::<Vec<_>>();
        (kinds(&found.payload), kinds(&found.tags))
    };
    assert_eq!(bag(false), (vec![Algorithm::Md5], vec![Algorithm::Md5]));
    assert_eq!(bag(true), (vec![Algorithm::Sha256], vec![Algorithm::Md5]));
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
fn a_checksum_of_parts_is_refused_as_that() {
    let sum = "d41d8cd98f00b204e9800998ecf8427e";
    for line in [format!("{sum}-2  a"), format!("\"{sum}-17\" a"), format!("md5:{sum}-2 a")] {
        let error = Checksums::read(format!("{line}\n").as_bytes(), None).unwrap_err();
        assert_eq!(error, ChecksumsError::OfParts(1), "{line}");
        assert!(error.to_string().contains("uploaded in parts"), "{error}");
    }
    assert!(Checksums::read(b"deadbeef-2 12345678\n", None).is_ok(), "the name of a file may look like it");
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
        kind in 0..4 + Algorithm::all().count(),
    ) {
        let names: Vec<Vec<u8>> = names.into_iter().filter(|name| !name.contains(&b'/') && name != b"." && name != b"..").collect();
        prop_assume!(!names.is_empty());
        let bag: Vec<Vec<u8>> = names.iter().map(|name| [b"data/".as_slice(), name].concat()).collect();
        let paths = |names: &[Vec<u8>]| -> Vec<Vec<u8>> { names.to_vec() };
        let (format, algorithm, paths) = match kind {
            0 => (Format::Inhaul(Kind::Directory), BLAKE3, paths(&names)),
            1 => (Format::Sums, Algorithm::Sha256, paths(&names)),
            2 => (Format::Sums, Algorithm::Sha512, paths(&names)),
            3 => (Format::BagIt, Algorithm::Sha256, paths(&bag)),
            more => (Format::Sums, Algorithm::all().nth(more - 4).unwrap(), paths(&names)),
        };
        let paths: Vec<&[u8]> = paths.iter().map(Vec::as_slice).collect();
        let written = list(format, algorithm, &paths);
        let read = match format {
            Format::BagIt => bagit::read_manifest(&written.write(), algorithm, true).unwrap(),
            _ => Checksums::read(&written.write(), Some(algorithm)).unwrap(),
        };
        prop_assert_eq!(read, written);
    }

    #[test]
    fn read_takes_anything(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(list) = Checksums::read(&bytes, Some(BLAKE3)) {
            prop_assert_eq!(Checksums::read(&list.write(), Some(list.algorithm)), Ok(list));
        }
    }
}
