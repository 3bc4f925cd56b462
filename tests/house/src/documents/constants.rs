//! Tables of constants in the documents of protocols, which are the code's: each constant of a protocol's folder stands
//! there with its value and its file.

use std::collections::BTreeMap;

use super::markdown::cells;

/// What tables begin with.
pub const HEAD: &str = "| name | value | file |\n|---|---|---|\n";

/// A constant of the code.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// The file that defines it.
    pub file: String,
    /// Its name there; of a part of a tuple, with `.0` and so on behind it.
    pub name: String,
    /// Its value; several numbers for an array.
    pub values: Vec<f64>,
    /// Their unit.
    pub kind: Kind,
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number without a unit of its own.
    Number,
    /// A number of bytes, by how it is written.
    Bytes,
    /// A span of time, in nanoseconds.
    Time,
    /// A rate, in bits per second.
    Rate,
}

/// Types whose constants are numbers.
const TYPES: &[&str] =
    &["u8", "u16", "u32", "u64", "u128", "usize", "i32", "i64", "f64", "Span", "Bitrate", "Probability", "Duration"];

/// The constants of these files, outside of tests, blocks and functions.
pub fn of_code(files: &BTreeMap<String, String>) -> Vec<Constant> {
    let written: Vec<(&str, &str, String)> = files
        .iter()
        .flat_map(|(file, text)| written(text).into_iter().map(move |(name, value)| (file.as_str(), name, value)))
        .collect();
    let mut found = Vec::new();
    for (file, name, value) in &written {
        let Some((mut values, mut kind)) = (Evaluator { all: &written, file, rest: value, depth: 0 }).whole() else {
            continue;
        };
        if let Some((_, scale)) = TIMES.iter().find(|(ending, _)| kind == Kind::Number && name.ends_with(ending)) {
            values.iter_mut().for_each(|value| *value *= scale);
            kind = Kind::Time;
        }
        let constant = |name: String, values| Constant { file: (*file).to_owned(), name, values, kind };
        if value.starts_with('(') && values.len() > 1 {
            let parts = values.into_iter().enumerate();
            found.extend(parts.map(|(place, value)| constant(format!("{name}.{place}"), vec![value])));
        } else {
            found.push(constant((*name).to_owned(), values));
        }
    }
    found
}

/// What names of numbers that are times end with, and how many nanoseconds it is.
const TIMES: &[(&str, f64)] = &[("_NANOS", 1.0), ("_US", 1e3), ("_MS", 1e6)];

/// The names of a file's constants, and the text behind `=`.
fn written(text: &str) -> Vec<(&str, String)> {
    let text = text.split("#[cfg(test)]\nmod").next().unwrap_or_default();
    let mut found = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let after = ["pub ", "pub(crate) ", "pub(super) "].iter().find_map(|word| line.strip_prefix(word));
        let Some(rest) = after.unwrap_or(line).strip_prefix("const ") else { continue };
        let Some((name, kind)) = rest.split_once(": ") else { continue };
        let kind = kind.split(" =").next().unwrap_or_default();
        let of_kind = kind.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let is_number = |word: &str| TYPES.contains(&word) || word.chars().all(|c| c.is_ascii_digit());
        if kind.starts_with('&') || !of_kind.into_iter().all(is_number) {
            continue;
        }
        let value = text[start..].split_once(" =").map_or("", |(_, value)| value);
        let lines = value.split(';').next().unwrap_or_default().lines();
        let value = lines.map(|line| line.split("//").next().unwrap_or_default().trim()).collect::<Vec<_>>().join(" ");
        found.push((name, value.trim().to_owned()));
    }
    found
}

/// Computes the value of a constant.
struct Evaluator<'t> {
    all: &'t [(&'t str, &'t str, String)],
    file: &'t str,
    rest: &'t str,
    depth: u8,
}

type Computed = (Vec<f64>, Kind);

impl Evaluator<'_> {
    fn whole(mut self) -> Option<Computed> {
        let value = self.shift()?;
        self.rest.trim().is_empty().then_some(value)
    }

    fn shift(&mut self) -> Option<Computed> {
        let mut value = self.sum()?;
        while self.takes("<<") {
            let by = self.sum()?;
            value = (vec![one(&value)? * 2f64.powf(one(&by)?)], Kind::Bytes);
        }
        Some(value)
    }

    fn sum(&mut self) -> Option<Computed> {
        let mut value = self.product()?;
        loop {
            let sign = if self.takes("+") {
                1.0
            } else if self.takes("-") {
                -1.0
            } else {
                return Some(value);
            };
            let other = self.product()?;
            // A sum is counted, not a round number of bytes.
            let kind = if value.1 == Kind::Bytes { Kind::Number } else { value.1 };
            value = (vec![one(&value)? + sign * one(&other)?], kind);
        }
    }

    fn product(&mut self) -> Option<Computed> {
        let mut value = self.factor()?;
        loop {
            value = if self.takes("*") {
                let other = self.factor()?;
                let kind = if one(&other)? == 1024.0 { Kind::Bytes } else { value.1 };
                (vec![one(&value)? * one(&other)?], kind)
            } else if self.takes("/") {
                (vec![one(&value)? / one(&self.factor()?)?], value.1)
            } else {
                return Some(value);
            };
        }
    }

    fn factor(&mut self) -> Option<Computed> {
        let mut value = self.atom()?;
        loop {
            if self.takes("as ") {
                let len = self.rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(self.rest.len());
                self.rest = self.rest[len..].trim_start();
            } else if self.takes(".as_nanos()") {
                value.1 = Kind::Number;
            } else {
                return Some(value);
            }
        }
    }

    fn atom(&mut self) -> Option<Computed> {
        if self.takes("(") {
            return self.list(")");
        }
        if self.takes("[") {
            return self.list("]");
        }
        let in_word = |c: char| c.is_alphanumeric() || c == '_' || c == ':' || c == '.';
        let len = self.rest.find(|c| !in_word(c)).unwrap_or(self.rest.len());
        let mut word = &self.rest[..len];
        if let Some(at) = word.find(".as_") {
            word = &word[..at];
        }
        self.rest = self.rest[word.len()..].trim_start();
        if let Some(scale) = SCALES.iter().find(|(name, ..)| *name == word) {
            let value = if self.takes("(") { self.list(")")? } else { return None };
            return Some((vec![one(&value)? * scale.1], scale.2));
        }
        number(word).map(|value| (vec![value], Kind::Number)).or_else(|| self.named(word))
    }

    fn list(&mut self, end: &str) -> Option<Computed> {
        let (mut values, mut kind) = self.shift()?;
        while self.takes(",") {
            if self.rest.starts_with(end) {
                break;
            }
            let (more, of) = self.shift()?;
            values.extend(more);
            kind = of;
        }
        self.takes(end).then_some((values, kind))
    }

    /// Another constant, of the same file or else of any.
    fn named(&self, name: &str) -> Option<Computed> {
        let name = name.rsplit("::").next()?;
        let mut of_name = self.all.iter().filter(|(_, other, _)| *other == name);
        let (file, _, value) = of_name.clone().find(|(file, ..)| *file == self.file).or_else(|| of_name.next())?;
        let inner = Evaluator { all: self.all, file, rest: value, depth: self.depth + 1 };
        (self.depth < 8).then(|| inner.whole())?
    }

    fn takes(&mut self, sign: &str) -> bool {
        let after = self.rest.trim_start().strip_prefix(sign);
        self.rest = after.map_or(self.rest, str::trim_start);
        after.is_some()
    }
}

/// What makes a number a time or a rate, and in what unit it is then.
const SCALES: &[(&str, f64, Kind)] = &[
    ("Span::from_nanos", 1.0, Kind::Time),
    ("Span::from_micros", 1e3, Kind::Time),
    ("Span::from_millis", 1e6, Kind::Time),
    ("Span::from_secs", 1e9, Kind::Time),
    ("Bitrate::from_bps", 1.0, Kind::Rate),
    ("Bitrate::from_kbps", 1e3, Kind::Rate),
    ("Bitrate::from_mbps", 1e6, Kind::Rate),
    ("Bitrate::from_gbps", 1e9, Kind::Rate),
];

fn one(value: &Computed) -> Option<f64> {
    if let [value] = value.0[..] { Some(value) } else { None }
}

fn number(word: &str) -> Option<f64> {
    let plain = word.replace('_', "");
    match word {
        "u8::MAX" => Some(255.0),
        "u16::MAX" => Some(65_535.0),
        "u32::MAX" => Some(f64::from(u32::MAX)),
        _ => match plain.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok().map(|value| value as f64),
            None if plain.starts_with(|c: char| c.is_ascii_digit()) => plain.parse().ok(),
            None => None,
        },
    }
}

/// A row of a document's table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    name: String,
    value: String,
    file: String,
    code: String,
}

/// The rows of the table under the heading `Constants`.
pub fn rows(document: &str) -> Vec<Row> {
    let section = document.split("\n## ").find(|section| is_constants(section)).unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| `")).filter_map(|line| {
        let cells = cells(line);
        let [name, value, file] = &cells[..] else { return None };
        let mut words = file.split_whitespace();
        let (file, code) = (words.next()?, words.next().map(|code| code.replace('`', "")));
        let name = name.replace('`', "");
        Some(Row { code: code.unwrap_or_else(|| name.clone()), name, value: value.clone(), file: file.to_owned() })
    });
    rows.collect()
}

fn is_constants(section: &str) -> bool {
    section.lines().next().is_some_and(|heading| heading.ends_with("Constants"))
}

/// The faults of a document's table. `own` are the constants that must be there; `other` looks up the constants of a
/// further file that a row names.
pub fn violations(document: &str, own: &[Constant], other: &dyn Fn(&str) -> Option<Vec<Constant>>) -> Vec<String> {
    let rows = rows(document);
    let mut found = Vec::new();
    for row in &rows {
        let of_file: Option<Vec<Constant>> = match own.iter().any(|constant| constant.file == row.file) {
            true => Some(own.iter().filter(|constant| constant.file == row.file).cloned().collect()),
            false => other(&row.file),
        };
        let Some(of_file) = of_file else {
            found.push(format!("{}: there is no file {} with constants", row.name, row.file));
            continue;
        };
        match of_file.iter().find(|constant| constant.name == row.code) {
            None => found.push(format!("{}: {} has no constant {}", row.name, row.file, row.code)),
            Some(constant) if !is_value(&row.value, constant) => {
                found.push(format!("{}: '{}' is written, the code has {}", row.name, row.value, written_as(constant)));
            }
            Some(_) => {}
        }
    }
    for constant in own {
        let count = rows.iter().filter(|row| row.file == constant.file && row.code == constant.name).count();
        if count != 1 {
            found.push(format!("{} of {} is there {count} times", constant.name, constant.file));
        }
    }
    found
}

/// The document with the table that the code makes. Names and words of units stay as they are.
pub fn blessed(document: &str, own: &[Constant], other: &dyn Fn(&str) -> Option<Vec<Constant>>) -> String {
    let rows = rows(document);
    let is_there = |row: &Row| own.iter().any(|constant| constant.file == row.file && constant.name == row.code);
    let mut made: Vec<Row> = rows
        .iter()
        .filter(|row| !own.iter().any(|constant| constant.file == row.file))
        .filter(|row| other(&row.file).is_some_and(|all| all.iter().any(|constant| constant.name == row.code)))
        .cloned()
        .collect();
    for constant in own {
        let same = |row: &&Row| row.file == constant.file && row.code == constant.name;
        let moved = |row: &&Row| !is_there(row) && row.code == constant.name;
        let before = rows.iter().find(same).or_else(|| rows.iter().find(moved));
        let value = before.map(|row| row.value.clone()).filter(|value| is_value(value, constant));
        made.push(Row {
            name: before.map_or_else(|| constant.name.clone(), |row| row.name.clone()),
            value: value.unwrap_or_else(|| written_as(constant)),
            file: constant.file.clone(),
            code: constant.name.clone(),
        });
    }
    made.sort_by(|a, b| (&a.name, &a.file).cmp(&(&b.name, &b.file)));
    let lines = made.iter().map(|row| {
        let code = if row.code == row.name { String::new() } else { format!(" `{}`", row.code) };
        format!("| `{}` | {} | {}{code} |\n", row.name, row.value, row.file)
    });
    let table: String = HEAD.chars().chain(lines.collect::<String>().chars()).collect();
    let sections = document.split("\n## ").map(|section| {
        if !is_constants(section) {
            return section.to_owned();
        }
        let is_row = |line: &str| line.starts_with('|');
        let before: Vec<&str> = section.lines().take_while(|line| !is_row(line)).collect();
        let after: Vec<&str> =
            section.lines().skip_while(|line| !is_row(line)).skip_while(|line| is_row(line)).collect();
        let end = if after.is_empty() { String::new() } else { after.join("\n") + "\n" };
        format!("{}\n\n{table}{end}", before.join("\n").trim_end())
    });
    sections.collect::<Vec<_>>().join("\n## ")
}

/// Whether a cell has the constant's value.
fn is_value(cell: &str, constant: &Constant) -> bool {
    let Some(values) = read(cell) else { return false };
    let is_near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * b.abs();
    values.len() == constant.values.len() && values.iter().zip(&constant.values).all(is_near)
}

/// The numbers of a cell, in ns or bit/s where it says so.
fn read(cell: &str) -> Option<Vec<f64>> {
    let pieces: Vec<&str> = cell.split(", ").collect();
    // The unit behind the last number is that of all.
    let unit = pieces.last()?.rsplit(' ').next()?;
    let scale = UNITS.iter().find(|(name, ..)| *name == unit).map_or(1.0, |(_, scale, _)| *scale);
    let read = |piece: &&str| {
        let words = piece.split_whitespace().take_while(|word| !word.starts_with(char::is_alphabetic));
        let text: String = words.collect();
        let (text, less) = text.split_once('-').unwrap_or((&text, "0"));
        let (base, power) = text.split_once('^').unwrap_or((text, "1"));
        let plain = |text: &str| text.replace(',', "").parse::<f64>().ok();
        Some((plain(base)?.powf(plain(power)?) - plain(less)?) * scale)
    };
    pieces.iter().map(read).collect()
}

/// Units, the largest first, and their dimension.
const UNITS: &[(&str, f64, Kind)] = &[
    ("s", 1e9, Kind::Time),
    ("ms", 1e6, Kind::Time),
    ("us", 1e3, Kind::Time),
    ("ns", 1.0, Kind::Time),
    ("Tbit/s", 1e12, Kind::Rate),
    ("Gbit/s", 1e9, Kind::Rate),
    ("Mbit/s", 1e6, Kind::Rate),
    ("kbit/s", 1e3, Kind::Rate),
    ("bit/s", 1.0, Kind::Rate),
    ("GiB", 1_073_741_824.0, Kind::Bytes),
    ("MiB", 1_048_576.0, Kind::Bytes),
    ("KiB", 1024.0, Kind::Bytes),
];

/// A table's text for a constant.
fn written_as(constant: &Constant) -> String {
    let largest = constant.values.iter().copied().fold(f64::INFINITY, |a, b| if b > 0.0 { a.min(b) } else { a });
    let of_kind = UNITS.iter().filter(|(_, _, kind)| *kind == constant.kind);
    let unit = of_kind.into_iter().find(|(_, scale, _)| *scale <= largest);
    let scale = unit.map_or(1.0, |(_, scale, _)| *scale);
    let numbers: Vec<String> = constant.values.iter().map(|value| grouped(value / scale)).collect();
    let unit = unit.map_or(String::new(), |(name, ..)| format!(" {name}"));
    numbers.join(", ") + &unit
}

/// A number with commas between thousands.
fn grouped(value: f64) -> String {
    let text = format!("{value}");
    let (whole, part) =
        text.split_once('.').map_or((&text[..], String::new()), |(whole, part)| (whole, format!(".{part}")));
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + &part
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "/// How long.\npub(crate) const GAP: Span = Span::from_millis(50);\n\
        const SIZE_MAX: u64 = 256 << 10;\nconst STEP: (f64, f64) = (0.002, 0.01);\nconst STEPS_MS: [u64; 2] = [5, 10];\nconst COUNT: usize = 16_384;\n\
        const PART: Span = Span::from_nanos(GAP.as_nanos() / 32);\nconst LEN: u32 = (1 << 24) - 1;\n\
        const FLOOR: Bitrate = Bitrate::from_bps(200_000);\nconst NAMES: &[&str] = &[\"a\"];\n\
        const KIND: u8 = OWN + 1;\n#[cfg(test)]\nmod tests {\nconst NONE: u64 = 1;\n}\n";
    const WIRE: &str = "pub const OWN: u8 = 0x10;\n";
    const DOCUMENT: &str = "# P\n\n## 1. Constants\n\nAll of them.\n\n| name | value | file |\n|---|---|---|\n\
        | `COUNT` | 16,384 ranges | a.rs |\n| `FLOOR` | 200 kbit/s | a.rs |\n| `GAP` | 50 ms | a.rs |\n\
        | `KIND` | 17 | a.rs |\n| `LEN` | 2^24 - 1 segments | a.rs |\n| `OWN` | 16 | wire.rs |\n\
        | `PART` | 1,562.5 us | a.rs |\n| `SIZE_MAX` | 256 KiB | a.rs |\n| `STEPS` | 5, 10 ms | a.rs `STEPS_MS` |\n\
        | `STEP_MAX` | 0.01 | a.rs `STEP.1` |\n| `STEP_MIN` | 0.002 | a.rs `STEP.0` |\n\n\
        After.\n\n## 2. More\n\nEnd.\n";

    fn code() -> Vec<Constant> {
        let files = [("a.rs", CODE), ("wire.rs", WIRE)].map(|(file, text)| (file.to_owned(), text.to_owned()));
        of_code(&BTreeMap::from(files))
    }

    fn elsewhere(file: &str) -> Option<Vec<Constant>> {
        (file == "kit/b.rs")
            .then(|| of_code(&BTreeMap::from([("kit/b.rs".to_owned(), "const ROOM: f64 = 0.75;\n".to_owned())])))
    }

    fn wrong(from: &str, to: &str) -> Vec<String> {
        assert!(DOCUMENT.contains(from), "{from}");
        violations(&DOCUMENT.replace(from, to), &code(), &elsewhere)
    }

    #[test]
    fn the_table_has_all_constants_of_the_code() {
        assert_eq!(violations(DOCUMENT, &code(), &elsewhere), [""; 0]);
        assert_eq!(blessed(DOCUMENT, &code(), &elsewhere), DOCUMENT);
    }

    #[test]
    fn a_wrong_value_file_or_name_fails_and_so_does_one_that_is_missing() {
        assert_eq!(wrong("| 50 ms |", "| 51 ms |"), ["GAP: '51 ms' is written, the code has 50 ms"]);
        assert_eq!(wrong("| 50 ms |", "| 50 us |"), ["GAP: '50 us' is written, the code has 50 ms"]);
        assert_eq!(wrong("| 5, 10 ms |", "| 5 ms |").len(), 1);
        let moved = wrong("| 50 ms | a.rs |", "| 50 ms | wire.rs |");
        assert_eq!(moved, ["GAP: wire.rs has no constant GAP", "GAP of a.rs is there 0 times"]);
        let gone = wrong("| 50 ms | a.rs |", "| 50 ms | gone.rs |");
        assert_eq!(gone[0], "GAP: there is no file gone.rs with constants");
        assert_eq!(wrong("| `GAP` | 50 ms | a.rs |\n", ""), ["GAP of a.rs is there 0 times"]);
        let twice = "| `GAP` | 50 ms | a.rs |\n| `GAP2` | 50 ms | a.rs `GAP` |\n";
        assert_eq!(wrong("| `GAP` | 50 ms | a.rs |\n", twice), ["GAP of a.rs is there 2 times"]);
    }

    #[test]
    fn constants_of_other_folders_may_be_there() {
        assert_eq!(wrong("| `STEPS`", "| `ROOM` | 0.75 | kit/b.rs |\n| `STEPS`"), [""; 0]);
        assert_eq!(wrong("| `STEPS`", "| `ROOM` | 0.5 | kit/b.rs |\n| `STEPS`").len(), 1);
    }

    #[test]
    fn blessed_mends_a_table() {
        let broken = DOCUMENT
            .replace("| `GAP` | 50 ms | a.rs |\n", "")
            .replace("| 16,384 ranges | a.rs |", "| 16,384 ranges | wire.rs |")
            .replace("256 KiB", "255 KiB");
        assert_eq!(blessed(&broken, &code(), &elsewhere), DOCUMENT);
    }
}
