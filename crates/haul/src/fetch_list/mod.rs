//! Lists of files to fetch: Metalink 4 (RFC 5854) and 3, and the input files of aria2.
//!
//! Such a list names files one by one. Fetched separately, each file would need a session with each of its mirrors. So
//! files that lie in one directory at their mirrors, in the same way as they will here, are fetched as one data set;
//! the other files of that directory are left out.
//!
//! It uses `api` alone. Its input is text, and its output is requests.

mod bounds;
mod input_file;
mod item;
mod metalink;

use std::collections::{BTreeMap, BTreeSet};

pub use self::item::FetchListError;
use self::item::{Item, PATH_BYTES_MAX, SESSIONS_MAX, joined, shown};
use inhaul_session::api::request::{Location, Part, Request};

/// Longest list that is read, in bytes.
pub const FETCH_LIST_BYTES_MAX: u64 = 256 << 20;
/// From this number of files on, files in one directory are fetched together. For fewer files it is not worth it that
/// the server scans the directory, which may be large.
const TOGETHER_MIN: usize = 8;
/// Longest name of a file or directory, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// How a list is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchListFormat {
    /// Metalink 4 (RFC 5854).
    Metalink,
    /// What `aria2c --input-file` takes.
    InputFile,
}

/// What the list `text` asks for. Its paths are sound, and no two are the same.
///
/// # Errors
/// When the text is no such list, or asks for what cannot be.
pub fn read_fetch_list(format: FetchListFormat, text: &[u8]) -> Result<Vec<Request>, FetchListError> {
    let text = str::from_utf8(text).map_err(|_| FetchListError::NotText)?;
    let items = match format {
        FetchListFormat::Metalink => metalink::read(text)?,
        FetchListFormat::InputFile => input_file::read(text)?,
    };
    check(&items)?;
    let requests = gather(items);
    match requests.iter().map(|request| request.mirrors.len()).sum() {
        0 => Err(FetchListError::Empty),
        sessions if sessions > SESSIONS_MAX => Err(FetchListError::TooManySessions { sessions }),
        _ => Ok(requests),
    }
}

/// Paths stay beneath the destination, and each is there once (RFC 5854 4.1.2.1).
fn check(items: &[Item]) -> Result<(), FetchListError> {
    let mut lines = BTreeMap::new();
    for Item { line, path, .. } in items {
        let is_name =
            |name: &str| !matches!(name, "" | "." | "..") && name.len() <= NAME_BYTES_MAX && !name.contains('\0');
        if path.len() > PATH_BYTES_MAX {
            return Err(FetchListError::TooLong { line: *line, what: "a path", most: PATH_BYTES_MAX });
        }
        if !path.split('/').all(is_name) {
            return Err(FetchListError::BadPath { line: *line, path: shown(path) });
        }
        if let Some(earlier) = lines.insert(path.as_str(), *line) {
            return Err(FetchListError::Twice { line: *line, earlier, path: shown(path) });
        }
    }
    // With slashes before all other bytes (no name has a zero), what lies below a path comes right behind it.
    let mut in_order: Vec<&Item> = items.iter().collect();
    in_order.sort_by(|a, b| slashes_first(&a.path).cmp(slashes_first(&b.path)));
    let mut file: Option<&Item> = None;
    let mut first: Option<(&Item, &Item)> = None;
    for item in in_order {
        let above = file.filter(|file| item.path.strip_prefix(&file.path).is_some_and(|rest| rest.starts_with('/')));
        match above {
            Some(above) if first.is_none_or(|(item_before, _)| item.line < item_before.line) => {
                first = Some((item, above));
            }
            Some(_) => {}
            None => file = Some(item),
        }
    }
    first.map_or(Ok(()), |(item, file)| {
        Err(FetchListError::InFile { line: item.line, file: file.line, path: shown(&item.path) })
    })
}

fn slashes_first(path: &str) -> impl Iterator<Item = u8> {
    path.bytes().map(|byte| if byte == b'/' { 0 } else { byte })
}

/// Where some files lie together: the directory of each mirror, and the one beneath the destination.
type Home = (Vec<Location>, String);

/// Makes as few requests of the items as may be.
fn gather(items: Vec<Item>) -> Vec<Request> {
    let mut homes: BTreeMap<Home, Vec<(String, Item)>> = BTreeMap::new();
    let mut requests = Vec::new();
    for item in items {
        match home_of(&item) {
            Some((home, rest)) => homes.entry(home).or_default().push((rest, item)),
            None => requests.push(alone(item)),
        }
    }
    let mut taken = BTreeSet::new();
    let mut homes: Vec<_> = homes.into_iter().collect();
    homes.sort_by_key(|(_, items)| std::cmp::Reverse(items.len()));
    for ((mut mirrors, mut place), mut items) in homes {
        let shared = shared_directory(items.iter().map(|(rest, _)| rest.as_str()));
        mirrors.iter_mut().for_each(|mirror| mirror.path = joined(&mirror.path, &shared));
        place = joined(&place, &shared);
        // Each data set has a journal of its own beside it, or in it.
        if items.len() < TOGETHER_MIN || !taken.insert(place.clone()) {
            requests.extend(items.into_iter().map(|(_, item)| alone(item)));
            continue;
        }
        let below = |rest: &str| rest[shared.len()..].trim_start_matches('/').as_bytes().to_vec();
        let listed = items.drain(..).map(|(rest, item)| (below(&rest), item.known)).collect();
        requests.push(Request { mirrors, place: Some(place.into_bytes()), part: Part::Listed(listed) });
    }
    requests
}

fn alone(item: Item) -> Request {
    Request { mirrors: item.mirrors, place: Some(item.path.into_bytes()), part: Part::Whole(item.known) }
}

/// Where an item lies, and its path below, which is as long as all mirrors and the destination share it.
fn home_of(item: &Item) -> Option<(Home, String)> {
    if item.mirrors.iter().any(|mirror| mirror.server.url.is_some()) {
        // A URL is of one file.
        return None;
    }
    let shared = item.mirrors.iter().fold(item.path.as_str(), |shared, mirror| shared_end(shared, &mirror.path));
    let above = |path: &str| path[..path.len() - shared.len()].trim_end_matches('/').to_owned();
    let mirrors =
        item.mirrors.iter().map(|Location { server, path }| Location { server: server.clone(), path: above(path) });
    (!shared.is_empty()).then(|| ((mirrors.collect(), above(&item.path)), shared.to_owned()))
}

/// The components that both paths end in.
fn shared_end<'a>(a: &'a str, b: &str) -> &'a str {
    let same = a.rsplit('/').zip(b.rsplit('/')).take_while(|(a, b)| a == b && !a.is_empty());
    let len: usize = same.map(|(name, _)| name.len() + 1).sum();
    // Of the components' slashes the first one has none when that is all of `a`.
    &a[(a.len() + 1).saturating_sub(len.max(1)).min(a.len())..]
}

/// The directory, beneath which all paths lie; empty when there is none.
fn shared_directory<'a>(paths: impl Iterator<Item = &'a str>) -> String {
    let parent = |path: &'a str| path.rfind('/').map_or("", |slash| &path[..slash]);
    let shared = paths.map(parent).reduce(|a, b| {
        let same = a.split('/').zip(b.split('/')).take_while(|(a, b)| a == b);
        let len: usize = same.map(|(name, _)| name.len() + 1).sum();
        &a[..len.saturating_sub(1).min(a.len())]
    });
    shared.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch_list::item::locations;
    use inhaul_session::api::request::Known;

    fn item(path: &str, urls: &[&str]) -> Item {
        let mirrors = urls.iter().flat_map(|url| locations(url, 1).unwrap().unwrap()).collect();
        Item { line: 1, path: path.to_owned(), mirrors, known: Known::default() }
    }

    #[test]
    fn shared_end_counts_whole_components() {
        for (a, b, shared) in [
            ("x/y/f", "q/y/f", "y/f"),
            ("f", "run7/f", "f"),
            ("run7/f", "f", "f"),
            ("a/f", "a/f", "a/f"),
            ("af", "bf", ""),
            ("xa/f", "a/f", "f"),
            ("f", "g", ""),
            ("f", "", ""),
        ] {
            assert_eq!(shared_end(a, b), shared, "{a} {b}");
        }
    }

    #[test]
    fn shared_directory_is_the_deepest() {
        for (paths, shared) in [
            (&["a/b/f", "a/b/g"][..], "a/b"),
            (&["a/b/f", "a/c"], "a"),
            (&["a/b/f", "ab/g"], ""),
            (&["f", "a/g"], ""),
            (&["a/bc/f", "a/b/f"], "a"),
        ] {
            assert_eq!(shared_directory(paths.iter().copied()), shared, "{paths:?}");
        }
    }

    #[test]
    fn gather_fetches_together_what_lies_together() {
        let url = |name: &str| [format!("inhaul://a/run7/{name}"), format!("inhaul://b:5/copy/{name}")];
        let mut items: Vec<Item> = (0..TOGETHER_MIN)
            .map(|k| {
                let name = format!("sub/f{k}");
                let [a, b] = url(&name);
                item(&name, &[&a, &b])
            })
            .collect();
        items.push(item("other", &["inhaul://a/elsewhere/name"]));
        let requests = gather(items);
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[0].place.as_deref(), Some(&b"other"[..]));
        assert_eq!(requests[0].part, Part::Whole(Known::default()));
        let together = &requests[1];
        assert_eq!(
            together.mirrors.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["inhaul://a:4321/run7/sub", "inhaul://b:5/copy/sub"]
        );
        assert_eq!(together.place.as_deref(), Some(&b"sub"[..]));
        let Part::Listed(listed) = &together.part else { panic!("{together:?}") };
        assert_eq!(listed.len(), TOGETHER_MIN);
        assert!(listed.contains_key(&b"f0"[..]), "{listed:?}");
    }

    #[test]
    fn gather_never_has_two_data_sets_in_one_directory() {
        let of = |dir: &'static str| {
            (0..TOGETHER_MIN).map(move |k| item(&format!("{dir}{k}"), &[&format!("inhaul://a/{dir}/{dir}{k}")]))
        };
        let requests = gather(of("x").chain(of("y")).collect());
        let together = requests.iter().filter(|request| matches!(request.part, Part::Listed(_))).count();
        assert_eq!((together, requests.len()), (1, 1 + TOGETHER_MIN));
    }

    #[test]
    fn check_refuses_paths_that_lead_out_and_names_that_come_twice() {
        for path in ["", "/etc/passwd", "../f", "a/../f", "a//b", "a/.", "a\0"] {
            let error = check(&[item(path, &["inhaul://a/f"])]).unwrap_err();
            assert!(matches!(error, FetchListError::BadPath { line: 1, .. }), "{path}: {error}");
        }
        let twice = [item("f", &["inhaul://a/f"]), item("f", &["inhaul://b/f"])];
        assert!(matches!(check(&twice), Err(FetchListError::Twice { .. })));
    }

    #[test]
    fn check_refuses_files_that_lie_in_files() {
        for paths in [["a/b/c", "a/b"], ["a", "a/b/c"]] {
            let error = check(&paths.map(|path| item(path, &["inhaul://a/f"]))).unwrap_err();
            assert!(matches!(&error, FetchListError::InFile { path, .. } if path == paths[0].max(paths[1])), "{error}");
        }
        assert_eq!(check(&["a/b", "a-b", "ab/c"].map(|path| item(path, &["inhaul://a/f"]))), Ok(()));
    }

    #[test]
    fn check_names_the_first_line_of_several_that_are_wrong() {
        let at = |line, path| Item { line, ..item(path, &["inhaul://a/f"]) };
        let items = [at(1, "x/y"), at(2, "a/c"), at(3, "a/b"), at(4, "a"), at(5, "a/b/d"), at(6, "a.b")];
        let error = check(&items).unwrap_err();
        assert_eq!(error, FetchListError::InFile { line: 2, file: 4, path: "a/c".to_owned() });
    }

    /// The longest path has two thousand directories. To look each of them up would take minutes here.
    #[test]
    fn check_is_as_fast_as_paths_are_long() {
        let deep = "a/".repeat(PATH_BYTES_MAX / 2 - 8);
        let items: Vec<Item> = (0..1000).map(|k| item(&format!("{deep}{k}"), &["inhaul://a/f"])).collect();
        assert_eq!(check(&items), Ok(()));
        let error = check(&[item(&"a/".repeat(PATH_BYTES_MAX), &["inhaul://a/f"])]).unwrap_err();
        assert_eq!(error, FetchListError::TooLong { line: 1, what: "a path", most: PATH_BYTES_MAX });
    }

    #[test]
    fn messages_repeat_little_of_a_list_and_nothing_that_a_terminal_obeys() {
        for text in ["inhaul://a/\u{1b}]0;x\u{7}%zz".to_owned(), format!("inhaul://{}/", "\u{9b}".repeat(50_000))] {
            let error = read_fetch_list(FetchListFormat::InputFile, text.as_bytes()).unwrap_err().to_string();
            assert!(error.len() < 2000 && !error.contains(char::is_control), "{error}");
        }
    }

    #[test]
    fn read_refuses_a_source_of_very_many_mirrors() {
        let hosts: Vec<String> = (0..10_000).map(|k| format!("h{k}")).collect();
        let error = read_fetch_list(FetchListFormat::InputFile, format!("inhaul://{}/f", hosts.join(",")).as_bytes());
        assert!(matches!(error, Err(FetchListError::BadUrl { line: 1, .. })), "{error:?}");
    }

    #[test]
    fn read_refuses_a_list_of_too_many_sessions() {
        let text: String = (0..=SESSIONS_MAX).map(|k| format!("inhaul://a/d{k}/f\n out=g{k}\n")).collect();
        let error = read_fetch_list(FetchListFormat::InputFile, text.as_bytes()).unwrap_err();
        assert_eq!(error, FetchListError::TooManySessions { sessions: SESSIONS_MAX + 1 });
        assert_eq!(read_fetch_list(FetchListFormat::InputFile, b"# none\n"), Err(FetchListError::Empty));
        assert_eq!(read_fetch_list(FetchListFormat::InputFile, b"\xff"), Err(FetchListError::NotText));
    }
}
