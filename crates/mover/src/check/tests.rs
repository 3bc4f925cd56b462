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
    VerifyOptions { place: place.to_owned(), list: list.map(Path::to_owned), of_64_digits: Algorithm::Sha256 }
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
