//! Kept results, as documents may quote them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

/// All kept results: their paths from the top of the repository, and their texts.
#[derive(Debug, Default)]
pub struct Results {
    files: BTreeMap<String, String>,
    version: u64,
    /// Files read before: a document quotes the same file many times.
    read: RefCell<BTreeMap<String, Rc<Value>>>,
}

impl Results {
    /// Kept results, and the version of the form that `inhaul lab` keeps its own in.
    pub fn new(files: BTreeMap<String, String>, version: u64) -> Self {
        Self { files, version, read: RefCell::default() }
    }

    /// The result that is kept there.
    ///
    /// # Errors
    /// When there is none, when it is outdated, or when it is damaged.
    pub fn get(&self, path: &str) -> Result<Rc<Value>, String> {
        if let Some(value) = self.read.borrow().get(path) {
            return Ok(Rc::clone(value));
        }
        let text = self.files.get(path).ok_or_else(|| format!("there is no kept result {path}"))?;
        if let Some(newer) = self.newer(path) {
            return Err(format!("{path} is outdated: {newer} is of the same benchmark"));
        }
        let value: Value = serde_json::from_str(text).map_err(|error| format!("{path} is damaged: {error}"))?;
        match value.get("kept_version").map(|version| version.as_u64() == Some(self.version)) {
            Some(false) => Err(format!("{path} is outdated: results are kept in form {} now", self.version)),
            _ => {
                let value = Rc::new(value);
                self.read.borrow_mut().insert(path.to_owned(), Rc::clone(&value));
                Ok(value)
            }
        }
    }

    /// A later result of the same benchmark: their names differ in the date.
    fn newer(&self, path: &str) -> Option<&str> {
        let (date, rest) = dated(path)?;
        let others = self.files.keys().filter_map(|other| Some((dated(other)?, other)));
        let newest = others.filter(|((_, of), _)| *of == rest).max_by_key(|((date, _), _)| *date)?;
        (newest.0.0 > date).then_some(newest.1.as_str())
    }

    /// Results whose program was built from changed sources.
    pub fn dirty(&self) -> Vec<String> {
        let commit = |value: &Value| {
            let places = [&value["origin"]["commit"], &value["machine"]["versions"]["inhaul commit"]];
            places.into_iter().find_map(|place| place.as_str().map(str::to_owned))
        };
        let is_dirty = |text: &str| {
            let value = serde_json::from_str::<Value>(text).unwrap_or_default();
            commit(&value).is_some_and(|commit| commit.ends_with("-dirty"))
        };
        self.files.iter().filter(|(_, text)| is_dirty(text)).map(|(path, _)| path.clone()).collect()
    }
}

/// The date at the start of a file's name, and everything else of its path.
fn dated(path: &str) -> Option<(&str, (&str, &str))> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let (date, rest) = name.split_at_checked(10)?;
    let is_date =
        date.bytes().enumerate().all(|(at, b)| if at == 4 || at == 7 { b == b'-' } else { b.is_ascii_digit() });
    is_date.then_some((date, (folder, rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(files: &[(&str, &str)]) -> Results {
        Results::new(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect(), 2)
    }

    #[test]
    fn get_refuses_what_is_missing_outdated_or_damaged() {
        let kept = results(&[
            ("b/2026-01-02-many.json", "{}"),
            ("b/2026-01-03-many.json", "{\"a\": 1}"),
            ("b/2026-01-01-few.json", "{}"),
            ("c/2026-01-09-few.json", "{"),
            ("r/sim.json", "{\"kept_version\": 1}"),
            ("r/emu.json", "{\"kept_version\": 2}"),
        ]);
        assert!(kept.get("b/2026-01-02-many.json").unwrap_err().contains("outdated: b/2026-01-03-many.json"));
        assert!(kept.get("b/2026-01-03-many.json").is_ok() && kept.get("b/2026-01-01-few.json").is_ok());
        assert!(kept.get("c/2026-01-09-few.json").unwrap_err().contains("damaged"));
        assert!(kept.get("b/none.json").unwrap_err().contains("no kept result"));
        assert!(kept.get("r/sim.json").unwrap_err().contains("outdated"));
        assert!(kept.get("r/emu.json").is_ok());
    }

    #[test]
    fn dirty_names_results_of_changed_sources() {
        let kept = results(&[
            ("a.json", "{\"origin\": {\"commit\": \"012-dirty\"}}"),
            ("b.json", "{\"machine\": {\"versions\": {\"inhaul commit\": \"012-dirty\"}}}"),
            ("c.json", "{\"origin\": {\"commit\": \"012\"}}"),
            ("d.json", "[]"),
        ]);
        assert_eq!(kept.dirty(), ["a.json", "b.json"]);
    }
}
