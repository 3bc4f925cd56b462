//! Hard words: their number in each room only falls.

use std::fs;

use inhaul_house_tests::words::{Counts, count, flat, lowered, parse, room, violations};

use super::documents::{BLESS, files};
use super::{read, report, top};

/// The limits.
const TABLE: &str = "tests/house/words.txt";
/// Files that name the phrases themselves.
const OWN: &[&str] = &["tests/house/src/words.rs", "tests/house/tests/house/words.rs"];

#[test]
fn hard_words_only_become_fewer() {
    let path = top().join(TABLE);
    let table = read(&path);
    let limits = parse(&table).unwrap_or_else(|error| panic!("{TABLE}: {error}"));
    let mut counts = Counts::new();
    for file in files().into_iter().filter(|file| !OWN.contains(&file.as_str())) {
        let Some(room) = room(&file) else { continue };
        let Ok(text) = fs::read_to_string(top().join(&file)) else { continue };
        let text = flat(&text);
        for phrase in limits.keys() {
            let found = count(&text, phrase);
            if found > 0 {
                *counts.entry(phrase.clone()).or_default().entry(room.clone()).or_default() += found;
            }
        }
    }
    let mut found = violations(&counts, &limits);
    if !found.is_empty() && std::env::var_os(BLESS).is_some() {
        fs::write(&path, lowered(&table, &counts)).expect("the table can be written");
    }
    let hint = format!("{TABLE} has the limits; {BLESS}=1 cargo test -p inhaul-house-tests words:: lowers them");
    found.extend((!found.is_empty()).then_some(hint));
    report("hard words", &found);
}
