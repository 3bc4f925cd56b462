use super::*;

/// A directory of three files, one of several groups.
fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("d")).unwrap();
    std::fs::write(dir.path().join("a"), b"abc").unwrap();
    std::fs::write(dir.path().join("d/empty"), b"").unwrap();
    std::fs::write(dir.path().join("d/large"), vec![7; 70 << 20]).unwrap();
    dir
}

/// Writes the list of `dir` beside it and gives its path.
fn listed(dir: &Path, format: ManifestFormat) -> tempfile::NamedTempFile {
    let list = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(list.path(), manifest(dir, format, &Stop::new()).unwrap()).unwrap();
    list
}

fn options(place: &Path, list: Option<&Path>) -> VerifyOptions {
    VerifyOptions { place: place.to_owned(), list: list.map(Path::to_owned), algorithm: None }
}

fn problems(options: &VerifyOptions) -> Vec<(String, ProblemKind)> {
    let (report, result) = verify(options, &Stop::new());
    assert_eq!(result.is_ok(), report.problems.is_empty(), "{result:?}");
    report.problems.into_iter().map(|problem| (problem.path, problem.problem)).collect()
}

#[test]
fn verify_names_what_is_bad_missing_or_extra() {
    for format in [ManifestFormat::Inhaul, ManifestFormat::Sums(Algorithm::Sha256)] {
        let dir = tree();
        let list = listed(dir.path(), format);
        let options = options(dir.path(), Some(list.path()));
        let (report, result) = verify(&options, &Stop::new());
        result.unwrap();
        assert_eq!((report.files, report.bytes), (3, (70 << 20) + 3));
        let large = std::fs::OpenOptions::new().write(true).open(dir.path().join("d/large")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&large, b"x", 69 << 20).unwrap();
        std::fs::remove_file(dir.path().join("a")).unwrap();
        std::fs::write(dir.path().join("new"), b"").unwrap();
        let mut expected = vec![("a".to_owned(), ProblemKind::Missing), ("d/large".to_owned(), ProblemKind::Bad)];
        if format == ManifestFormat::Inhaul {
            expected.push(("new".to_owned(), ProblemKind::Extra));
        }
        assert_eq!(problems(&options), expected);
    }
}

#[test]
fn checksums_are_those_of_the_standards() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a"), b"abc").unwrap();
    let text = |format| String::from_utf8(manifest(dir.path(), format, &Stop::new()).unwrap()).unwrap();
    // FIPS 180-4's own example, and the one of the BLAKE3 paper's test vectors for "abc".
    let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n";
    assert_eq!(text(ManifestFormat::Sums(Algorithm::Sha256)), sha256);
    assert!(text(ManifestFormat::BagIt(Algorithm::Sha512)).starts_with("ddaf35a193617abacc417349ae204131"));
    assert!(text(ManifestFormat::BagIt(Algorithm::Sha512)).ends_with("  data/a\n"));
    assert!(
        text(ManifestFormat::Inhaul).contains("6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85 3 a\n")
    );
}

#[test]
fn a_bag_is_verified_by_its_own_manifests() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("data")).unwrap();
    std::fs::write(dir.path().join("data/100%"), b"abc").unwrap();
    std::fs::write(dir.path().join("bagit.txt"), "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n").unwrap();
    let payload = manifest(&dir.path().join("data"), ManifestFormat::BagIt(Algorithm::Sha256), &Stop::new()).unwrap();
    std::fs::write(dir.path().join("manifest-sha256.txt"), payload).unwrap();
    let options = options(dir.path(), None);
    assert_eq!(problems(&options), []);
    std::fs::write(dir.path().join("data/more"), b"").unwrap();
    std::fs::write(dir.path().join("data/100%"), b"abd").unwrap();
    let expected = [("data/100%".to_owned(), ProblemKind::Bad), ("data/more".to_owned(), ProblemKind::Extra)];
    assert_eq!(problems(&options), expected);
}

#[test]
fn weak_lists_are_checked_and_named_as_weak() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a"), b"123456789").unwrap();
    let verified = |name: &str, text: &str| {
        let lists = tempfile::tempdir().unwrap();
        let list = lists.path().join(name);
        std::fs::write(&list, text).unwrap();
        verify(&options(dir.path(), Some(&list)), &Stop::new())
    };
    for (name, text, algorithm) in [
        ("md5sums.txt", "25f9e794323b453885f5181f1b624d0b  a\n", "md5"),
        ("list", "MD5 (a) = 25f9e794323b453885f5181f1b624d0b\n", "md5"),
        ("SHA1SUMS", "f7c3bc1d808e04732adf679965ccc34ca7ae3441 *a\n", "sha1"),
        ("run7.adler32", "091e01de  a\n", "adler32"),
        ("crc32c.txt", "4waSgw==  a\n", "crc32c"),
        ("run7.sfv", "a cbf43926\n", "crc32"),
    ] {
        let (report, result) = verified(name, text);
        result.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((report.files, report.algorithms, report.strength), (1, vec![algorithm], Some("damage")), "{name}");
        std::fs::write(dir.path().join("a"), b"123456780").unwrap();
        assert!(matches!(verified(name, text).1, Err(MoveError::NotAsListed { count: 1 })), "{name}");
        std::fs::write(dir.path().join("a"), b"123456789").unwrap();
    }
    let strong = format!("{}  a\n", "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225");
    assert_eq!(verified("SHA256SUMS", &strong).0.strength, Some("lies"));
    // Refused in words: it may be of three kinds; it is of one that is not known.
    for (text, said) in [("091e01de  a\n", "--algorithm crc32, crc32c or adler32"), ("RMD160 (a) = ab\n", "RMD160")] {
        let (report, result) = verified("list", text);
        assert!(result.unwrap_err().to_string().contains(said));
        assert_eq!(report.strength, None);
    }
}

#[test]
fn what_the_user_says_of_a_list_must_be_so() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a"), b"abc").unwrap();
    let list = listed(dir.path(), ManifestFormat::Sums(Algorithm::Sha256));
    let said = |algorithm| {
        let options = VerifyOptions { algorithm: Some(algorithm), ..options(dir.path(), Some(list.path())) };
        verify(&options, &Stop::new()).1
    };
    said(Algorithm::Sha256).unwrap();
    assert!(matches!(said(Algorithm::Blake3), Err(MoveError::NotAsListed { .. })), "as long as BLAKE3");
    let error = said(Algorithm::Md5).unwrap_err().to_string();
    assert!(error.contains("are sha256 and not md5"), "{error}");
}

#[test]
fn by_name_takes_words_and_not_parts_of_them() {
    for (name, algorithm) in [
        ("B3SUMS", Some(Algorithm::Blake3)),
        ("sums.blake3", Some(Algorithm::Blake3)),
        ("md5checksums.txt", Some(Algorithm::Md5)),
        ("manifest-sha512.txt", Some(Algorithm::Sha512)),
        ("SHA256SUM", Some(Algorithm::Sha256)),
        ("web3.list", None),
        ("checksums.txt", None),
    ] {
        assert_eq!(by_name(Path::new("x.md5").join(name).as_path()), algorithm, "{name}");
    }
}

#[test]
fn a_directory_without_a_list_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (_, result) = verify(&options(dir.path(), None), &Stop::new());
    assert!(matches!(result, Err(MoveError::Usage(_))), "{result:?}");
    let (_, result) = verify(&options(&dir.path().join("no"), None), &Stop::new());
    assert!(matches!(result, Err(MoveError::Unverifiable { .. })), "{result:?}");
}

#[test]
fn the_list_itself_is_not_extra() {
    let dir = tree();
    let list = dir.path().join("list");
    std::fs::write(&list, manifest(dir.path(), ManifestFormat::Inhaul, &Stop::new()).unwrap()).unwrap();
    assert_eq!(problems(&options(dir.path(), Some(&list))), []);
}

#[test]
fn every_name_of_a_file_is_listed_and_verified() {
    let dir = tree();
    std::fs::hard_link(dir.path().join("a"), dir.path().join("d/also")).unwrap();
    let list = listed(dir.path(), ManifestFormat::Sums(Algorithm::Sha256));
    let text = std::fs::read_to_string(list.path()).unwrap();
    assert!(text.contains("  a\n") && text.contains("  d/also\n"), "{text}");
    assert_eq!(problems(&options(dir.path(), Some(list.path()))), []);
    std::fs::remove_file(dir.path().join("d/also")).unwrap();
    assert_eq!(problems(&options(dir.path(), Some(list.path()))), [("d/also".to_owned(), ProblemKind::Missing)]);
}
