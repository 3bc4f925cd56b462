//! `verify` and `manifest`: compares directories with lists of checksums, and writes such lists.
//!
//! It uses `api` alone: nothing here touches the network. A transfer verifies by itself, in `haul`.

mod hashing;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use inhaul_store::checksums::{
    Algorithm, Checksums, FileSum, Format, LIST_BYTES_MAX, Strength, bag_manifests, check_declaration,
};
use inhaul_store::{DataSet, Kind, Offered, ScanOptions, printable};
use serde::Serialize;

use self::hashing::{Wanted, hash};
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::Stop;
use inhaul_session::api::report::{ErrorReport, Status, path_url};

/// What is to be verified.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// A directory, or a file.
    pub place: PathBuf,
    /// The list of checksums; `None`: the directory is a bag (RFC 8493) and has its own.
    pub list: Option<PathBuf>,
    /// Of which kind the list's checksums are. `None`: as the list says, or else as its name or their length tells.
    pub algorithm: Option<Algorithm>,
}

/// What a verification came to. Serialised, it is the object that `docs/json.md` documents.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct VerifyReport {
    /// `failed` when anything is not as it is listed.
    pub status: Status,
    /// Files that were listed and are as they should be.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The kinds of the checksums that were compared, by name, the strongest first.
    pub algorithms: Vec<&'static str>,
    /// What the weakest of them finds: `lies`, or only `damage`. `None` where nothing was compared.
    pub strength: Option<&'static str>,
    /// What is not as it is listed, in the order of paths.
    pub problems: Vec<Problem>,
    /// Why it ended badly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorReport>,
}

/// A file that is not as it is listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// Its path, relative to what is verified.
    pub path: String,
    /// If its bytes are not UTF-8: the path as in an address, with `%XX` for these.
    pub path_url: Option<String>,
    /// What is wrong with it.
    pub problem: ProblemKind,
}

/// What may be wrong with a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProblemKind {
    /// Its bytes are not those of its checksum.
    #[default]
    Bad,
    /// It is listed and is not there.
    Missing,
    /// It is there and is not listed, in a list that has all files.
    Extra,
}

/// Verifies a directory, or a file, against a list of checksums, on all processors, until `stop` is set.
///
/// # Errors
/// When something cannot be read, when the list is none, or when anything is not as it is listed: then the report
/// names it.
pub fn verify(options: &VerifyOptions, stop: &Stop) -> (VerifyReport, Result<(), MoveError>) {
    let began = Instant::now();
    let mut report = VerifyReport::default();
    let result = check(options, stop, &mut report);
    report.seconds = began.elapsed().as_secs_f64();
    if let Err(error) = &result {
        report.status = Status::Failed;
        report.error = Some(error.into());
    }
    (report, result)
}

fn check(options: &VerifyOptions, stop: &Stop, report: &mut VerifyReport) -> Result<(), MoveError> {
    let data_set = open(&options.place)?;
    let (lists, whole) = match &options.list {
        Some(path) => {
            let list = read_list(path, options.algorithm)?;
            let whole =
                if matches!(list.format, Format::Inhaul(Kind::Directory)) { Whole::All } else { Whole::Nothing };
            (vec![list], whole)
        }
        None => (read_bag(&options.place)?, Whole::Payload),
    };
    report.take_kinds(lists.iter().map(|list| list.algorithm));
    let manifest = data_set.manifest();
    let names = manifest.names();
    let mut problems = BTreeMap::new();
    let mut wanted = Vec::new();
    for list in &lists {
        for listed in &list.files {
            let found = names.binary_search_by(|(name, _)| (*name).cmp(&listed.path)).map(|at| names[at].1);
            match found {
                Err(_) => drop(problems.insert(listed.path.as_slice(), ProblemKind::Missing)),
                Ok(file) if listed.size.is_some_and(|size| size != manifest.entries()[file].size) => {
                    problems.insert(&listed.path, ProblemKind::Bad);
                }
                Ok(file) => wanted.push((Wanted { file, algorithm: list.algorithm }, listed)),
            }
        }
        for (name, _) in names.iter().filter(|(name, _)| whole.includes(list, name)) {
            if list.files.binary_search_by(|listed| listed.path.as_slice().cmp(name)).is_err()
                && !is_the_list(options, name)
            {
                problems.insert(name, ProblemKind::Extra);
            }
        }
    }
    let found = hash(&data_set, &wanted.iter().map(|(wanted, _)| *wanted).collect::<Vec<_>>(), stop)?;
    let mut good = BTreeMap::new();
    for ((wanted, listed), sum) in wanted.iter().zip(found) {
        if sum == listed.checksum {
            good.insert(listed.path.as_slice(), manifest.entries()[wanted.file].size);
        } else {
            problems.insert(&listed.path, ProblemKind::Bad);
        }
    }
    good.retain(|path, _| !problems.contains_key(path));
    report.files = good.len() as u64;
    report.bytes = good.values().sum();
    let problem =
        |(path, &problem): (&&[u8], &ProblemKind)| Problem { path: printable(path), path_url: path_url(path), problem };
    report.problems = problems.iter().map(problem).collect();
    if report.problems.is_empty() { Ok(()) } else { Err(MoveError::NotAsListed { count: report.problems.len() }) }
}

impl VerifyReport {
    fn take_kinds(&mut self, algorithms: impl Iterator<Item = Algorithm>) {
        let kinds: BTreeSet<Algorithm> = algorithms.collect();
        self.strength = kinds.iter().map(|kind| kind.strength()).min().map(Strength::name);
        self.algorithms = kinds.into_iter().map(Algorithm::name).collect();
    }
}

/// What a list says of files that it does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whole {
    /// Nothing.
    Nothing,
    /// There are none.
    All,
    /// There are none in the payload of a bag, if it is a list of the payload.
    Payload,
}

impl Whole {
    fn includes(self, list: &Checksums, path: &[u8]) -> bool {
        let is_payload = |path: &[u8]| path.starts_with(b"data/");
        match self {
            Self::Nothing => false,
            Self::All => true,
            Self::Payload => is_payload(path) && list.files.first().is_none_or(|first| is_payload(&first.path)),
        }
    }
}

/// Whether `path` in the directory is the list itself.
fn is_the_list(options: &VerifyOptions, path: &[u8]) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let inside = options.place.join(std::ffi::OsStr::from_bytes(path));
    let real = |path: &Path| path.canonicalize().ok();
    options.list.as_deref().and_then(real).is_some_and(|list| real(&inside) == Some(list))
}

fn open(place: &Path) -> Result<DataSet, MoveError> {
    let unreadable = |error: inhaul_store::OfferedError| MoveError::Unverifiable { detail: error.to_string() };
    Offered::new(&[place.to_path_buf()])
        .and_then(|offered| offered.scan(b"/", ScanOptions::default()))
        .map_err(unreadable)
}

/// Reads a file of at most [`LIST_BYTES_MAX`].
fn read_bounded(path: &Path) -> Result<Vec<u8>, MoveError> {
    let unreadable = |error: std::io::Error| MoveError::Unverifiable {
        detail: format!("'{}' cannot be read: {error}", path.display()),
    };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(LIST_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > LIST_BYTES_MAX {
        return Err(MoveError::Usage(format!("'{}' is larger than 1 GiB: that is no list", path.display())));
    }
    Ok(bytes)
}

fn read_list(path: &Path, algorithm: Option<Algorithm>) -> Result<Checksums, MoveError> {
    let failed = |detail: String| MoveError::Usage(format!("'{}': {detail}", path.display()));
    let read = Checksums::read(&read_bounded(path)?, algorithm.or_else(|| by_name(path)));
    let mut list = read.map_err(|error| failed(error.to_string()))?;
    if let Some(asked) = algorithm.filter(|asked| *asked != list.algorithm) {
        let found = list.algorithm;
        return Err(failed(format!("its checksums are {found} and not {asked}: leave --algorithm out")));
    }
    list.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(list)
}

/// What the checksums of a list most likely are, by a word of its name: `B3SUMS`, `md5checksums.txt`, `run7.adler32`.
fn by_name(list: &Path) -> Option<Algorithm> {
    const ENDINGS: [&str; 5] = ["", "sum", "sums", "checksum", "checksums"];
    let name = list.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let kind = |word: &str| {
        let word = ENDINGS.iter().rev().find_map(|ending| word.strip_suffix(ending)).unwrap_or(word);
        match word {
            "b3" => Some(Algorithm::Blake3),
            "sfv" => Some(Algorithm::Crc32),
            word => Algorithm::named(word),
        }
    };
    name.split(|c: char| !c.is_ascii_alphanumeric()).find_map(kind)
}

fn read_bag(place: &Path) -> Result<Vec<Checksums>, MoveError> {
    let failed = |detail: String| MoveError::Usage(format!("'{}': {detail}", place.display()));
    let declaration = place.join("bagit.txt");
    if !declaration.is_file() {
        return Err(failed("it is no bag, which would have its own list: name the list to verify it by".to_owned()));
    }
    check_declaration(&read_bounded(&declaration)?).map_err(|error| failed(error.to_string()))?;
    let found =
        bag_manifests(|name| read_bounded(&place.join(name)).ok()).map_err(|error| failed(error.to_string()))?;
    let mut lists: Vec<Checksums> = found.payload.into_iter().chain(found.tags).collect();
    lists.iter_mut().for_each(|list| list.files.sort_unstable_by(|a, b| a.path.cmp(&b.path)));
    Ok(lists)
}

/// How a manifest is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManifestFormat {
    /// Ours, with the hash of the whole.
    Inhaul,
    /// As sha256sum and its kin have it.
    Sums(Algorithm),
    /// The payload manifest of a bag whose `data/` this is.
    BagIt(Algorithm),
}

/// Hashes all files of a directory, or a file, on all processors, and gives their list as bytes.
///
/// # Errors
/// When something cannot be read, or when `stop` is set.
pub fn manifest(place: &Path, format: ManifestFormat, stop: &Stop) -> Result<Vec<u8>, MoveError> {
    let data_set = open(place)?;
    let manifest = data_set.manifest();
    let (format, algorithm, prefix) = match format {
        ManifestFormat::Inhaul => (Format::Inhaul(manifest.kind()), Algorithm::Blake3, &b""[..]),
        ManifestFormat::Sums(algorithm) => (Format::Sums, algorithm, &b""[..]),
        ManifestFormat::BagIt(algorithm) => (Format::BagIt, algorithm, &b"data/"[..]),
    };
    let wanted: Vec<_> = (0..manifest.entries().len()).map(|file| Wanted { file, algorithm }).collect();
    let sums = hash(&data_set, &wanted, stop)?;
    let sum = |(name, file): (&[u8], usize)| FileSum {
        path: [prefix, name].concat(),
        size: Some(manifest.entries()[file].size),
        checksum: sums[file].clone(),
    };
    let files = manifest.names().into_iter().map(sum).collect();
    Ok(Checksums { format, algorithm, files }.write())
}

#[cfg(test)]
mod tests;
