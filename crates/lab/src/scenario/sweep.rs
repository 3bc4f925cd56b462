//! Changes to the text of a scenario: by `--set`, and by the cells of a sweep.
//!
//! A scenario is changed as a document and then read again, so that every cell is checked like any scenario and
//! unchanged values keep their places.

use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::error::Refusal;
use super::file::{RangeFile, SweepFile};

/// Most cells of a sweep.
const CELLS_MAX: usize = 10_000;
/// Most steps of a range.
const STEPS_MAX: u32 = 1_000;

/// One change of the document.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// Which value, like `flows.*.protocol`.
    pub(crate) key: String,
    /// Its new value.
    pub(crate) value: Value,
}

/// A cell of a sweep: its name and its changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Case {
    /// For people: the names of its cases and the values of its keys.
    pub(crate) name: String,
    /// The changed key.
    pub(crate) settings: Vec<Setting>,
}

/// Reads `text` as a TOML value; any other text is a string.
pub(crate) fn value_of(text: &str) -> Value {
    text.trim().parse().unwrap_or_else(|_| Value::from(text))
}

/// Every combination of the values of all dimensions, the last dimension varying fastest. One empty case if there are
/// none.
pub(crate) fn cases(
    sweeps: &[serde_spanned::Spanned<SweepFile>],
    document: &DocumentMut,
) -> Result<Vec<Case>, Refusal> {
    let mut cases = vec![Case::default()];
    for (index, sweep) in sweeps.iter().enumerate() {
        let refuse = |message: String| Refusal::at(sweep.span(), message);
        let dimension = dimension(sweep.get_ref(), sweep_table(document, index)).map_err(refuse)?;
        dimension.iter().flat_map(|case| &case.settings).try_for_each(is_of_a_cell).map_err(refuse)?;
        if dimension.len() * cases.len() > CELLS_MAX {
            return Err(refuse(format!("the sweep has more than {CELLS_MAX} cells: take fewer values")));
        }
        cases = cases.iter().flat_map(|case| dimension.iter().map(|next| case.and(next))).collect();
    }
    Ok(cases)
}

/// Cells differ in their plans alone: a sweep over these keys would label its cells wrongly.
fn is_of_a_cell(setting: &Setting) -> Result<(), String> {
    match setting.key.split('.').next() {
        Some(key @ ("seed" | "repetitions")) => Err(format!(
            "a sweep cannot vary `{key}`, which is for the whole scenario: write it at the top, or use --{key} N; each \
             repetition has the next seed"
        )),
        Some(key @ ("title" | "sweep")) => Err(format!("a sweep cannot vary `{key}`, which is for the whole scenario")),
        _ => Ok(()),
    }
}

impl Case {
    fn and(&self, other: &Self) -> Self {
        let names: Vec<&str> =
            [&self.name, &other.name].into_iter().map(String::as_str).filter(|n| !n.is_empty()).collect();
        Self { name: names.join(", "), settings: [self.settings.as_slice(), other.settings.as_slice()].concat() }
    }
}

fn sweep_table(document: &DocumentMut, index: usize) -> Option<&dyn TableLike> {
    match document.get("sweep")? {
        Item::ArrayOfTables(tables) => tables.get(index).map(|table| table as &dyn TableLike),
        Item::Value(Value::Array(array)) => array.get(index)?.as_inline_table().map(|table| table as &dyn TableLike),
        _ => None,
    }
}

fn dimension(sweep: &SweepFile, table: Option<&dyn TableLike>) -> Result<Vec<Case>, String> {
    let forms = [!sweep.values.is_empty(), sweep.range.is_some(), !sweep.cases.is_empty()];
    if forms.iter().filter(|form| **form).count() != 1 {
        return Err("a sweep has either `key` and `values`, or `key` and `range`, or `cases`".to_owned());
    }
    if !sweep.cases.is_empty() {
        return if sweep.key.is_none() {
            Ok(named_cases(table))
        } else {
            Err("`cases` name their keys themselves: remove `key`".to_owned())
        };
    }
    let key = sweep.key.as_ref().ok_or("a sweep of values needs a `key`, like \"flows.*.protocol\"")?;
    let values = match &sweep.range {
        Some(range) => range_values(range)?,
        None => elements(table.and_then(|table| table.get("values"))).into_iter().cloned().collect(),
    };
    let short = key.rsplit('.').next().unwrap_or(key);
    Ok(values
        .into_iter()
        .map(|value| Case {
            name: format!("{short} = {}", plain(&value)),
            settings: vec![Setting { key: key.clone(), value }],
        })
        .collect())
}

fn named_cases(table: Option<&dyn TableLike>) -> Vec<Case> {
    let case = |table: &dyn TableLike| {
        let settings = table.get("set").and_then(Item::as_table_like).map(|set| {
            let pairs = set.iter().filter_map(|(key, item)| Some((key, item.as_value()?)));
            pairs.map(|(key, value)| Setting { key: key.to_owned(), value: bare(value) }).collect()
        });
        let name = table.get("name").and_then(Item::as_str).unwrap_or_default().to_owned();
        Case { name, settings: settings.unwrap_or_default() }
    };
    match table.and_then(|table| table.get("cases")) {
        Some(Item::ArrayOfTables(tables)) => tables.iter().map(|table| case(table)).collect(),
        item => {
            elements(item).into_iter().filter_map(|value| value.as_inline_table()).map(|table| case(table)).collect()
        }
    }
}

fn elements(item: Option<&Item>) -> Vec<&Value> {
    item.and_then(Item::as_array).map(|array| array.iter().collect()).unwrap_or_default()
}

fn range_values(range: &RangeFile) -> Result<Vec<Value>, String> {
    if !(2..=STEPS_MAX).contains(&range.steps) {
        return Err(format!("a range has from 2 to {STEPS_MAX} `steps`"));
    }
    if !(range.from.is_finite() && range.to.is_finite()) || (range.logarithmic && !(range.from > 0.0 && range.to > 0.0))
    {
        return Err("a range needs finite ends, and a logarithmic one ends above zero".to_owned());
    }
    let last = f64::from(range.steps - 1);
    let at = |step: u32| {
        let part = f64::from(step) / last;
        let number = if range.logarithmic {
            range.from * (range.to / range.from).powf(part)
        } else {
            range.from + (range.to - range.from) * part
        };
        // Six digits, as a person would write.
        let scale = 10f64.powf(5.0 - number.abs().max(1e-12).log10().floor());
        let number = (number * scale).round() / scale;
        if range.unit.is_empty() { Value::from(number) } else { Value::from(format!("{number} {}", range.unit)) }
    };
    Ok((0..range.steps).map(at).collect())
}

/// Adds a dimension after the document's own.
pub(crate) fn add(document: &mut DocumentMut, key: &str, values: &[String]) -> Result<(), String> {
    if values.is_empty() {
        return Err(format!("{key} is varied, but has no values: give it some"));
    }
    let values: Array = values.iter().map(|text| value_of(text)).map(|value| bare(&value)).collect();
    match document.entry("sweep").or_insert(Item::ArrayOfTables(ArrayOfTables::new())) {
        Item::ArrayOfTables(tables) => {
            let mut table = Table::new();
            table.insert("key", Item::Value(key.into()));
            table.insert("values", Item::Value(Value::Array(values)));
            tables.push(table);
            Ok(())
        }
        Item::Value(Value::Array(array)) => {
            let mut table = InlineTable::new();
            table.insert("key", key.into());
            table.insert("values", Value::Array(values));
            array.push(table);
            Ok(())
        }
        _ => Err("`sweep` is a list of tables: write [[sweep]]".to_owned()),
    }
}

/// Changes the document.
pub(crate) fn apply(document: &mut DocumentMut, setting: &Setting) -> Result<(), String> {
    let path: Vec<&str> = setting.key.split('.').collect();
    if path.iter().any(|part| part.is_empty()) {
        return Err(format!("'{}' is no key: write names with dots between, like flows.*.protocol", setting.key));
    }
    set_in_table(document.as_table_mut(), &path, &setting.value)
        .map_err(|message| format!("{}: {message}", setting.key))
}

fn set_in_table(table: &mut dyn TableLike, path: &[&str], value: &Value) -> Result<(), String> {
    let Some((key, rest)) = path.split_first() else { return Ok(()) };
    if rest.is_empty() {
        // A table may be written in many ways; its text is replaced by the plain value.
        table.insert(key, Item::Value(bare(value)));
        return Ok(());
    }
    let item = table.entry(key).or_insert(Item::Value(Value::InlineTable(InlineTable::new())));
    match item {
        Item::ArrayOfTables(tables) => {
            let tables = tables.iter_mut().map(|table| table as &mut dyn TableLike);
            set_in_elements(tables.collect(), rest, value)
        }
        Item::Value(Value::Array(array)) => {
            let tables =
                array.iter_mut().filter_map(Value::as_inline_table_mut).map(|table| table as &mut dyn TableLike);
            set_in_elements(tables.collect(), rest, value)
        }
        item => match item.as_table_like_mut() {
            Some(table) => set_in_table(table, rest, value),
            None => Err(format!("'{key}' is a value and has no '{}'", rest.join("."))),
        },
    }
}

/// `path` begins with which elements are meant: `*`, a number from 0, or a name; names may end in `*`.
fn set_in_elements(elements: Vec<&mut dyn TableLike>, path: &[&str], value: &Value) -> Result<(), String> {
    let Some((selector, rest)) = path.split_first() else { return Ok(()) };
    if rest.is_empty() {
        return Err(format!("name a field of '{selector}'"));
    }
    let names: Vec<String> = elements.iter().map(|table| name_of(&**table)).collect();
    let mut found = false;
    for (index, table) in elements.into_iter().enumerate() {
        let by_name = match selector.strip_suffix('*') {
            Some(start) => names[index].starts_with(start),
            None => names[index] == **selector,
        };
        if by_name || selector.parse() == Ok(index) {
            found = true;
            set_in_table(table, rest, value)?;
        }
    }
    if found { Ok(()) } else { Err(format!("there is no '{selector}'; there are: {}", names.join(", "))) }
}

/// The name of an element of a list.
fn name_of(table: &dyn TableLike) -> String {
    ["name", "sender", "link"].iter().find_map(|key| table.get(key)?.as_str()).unwrap_or("(no name)").to_owned()
}

/// The value without the spaces and comments around it.
fn bare(value: &Value) -> Value {
    let mut value = value.clone();
    value.decor_mut().clear();
    value
}

/// A value for people: strings without quotes.
pub(crate) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| bare(value).to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(text: &str, key: &str, value: &str) -> Result<String, String> {
        let mut document: DocumentMut = text.parse().unwrap();
        apply(&mut document, &Setting { key: key.to_owned(), value: value_of(value) })?;
        Ok(document.to_string())
    }

    #[test]
    fn apply_changes_every_element_that_is_meant() {
        let text = "[[flows]]\nname = \"a1\"\nprotocol = \"gtp\"\n[[flows]]\nname = \"b\"\nprotocol = \"gtp\"\n";
        let all = changed(text, "flows.*.protocol", "cubic").unwrap();
        assert_eq!(all.matches("\"cubic\"").count(), 2, "{all}");
        let one = changed(text, "flows.a*.parameters.control", "paper").unwrap();
        assert_eq!(one.matches("parameters").count(), 1, "{one}");
        assert_eq!(changed(text, "flows.1.protocol", "x").unwrap(), changed(text, "flows.b.protocol", "x").unwrap());
        assert_eq!(changed(text, "seed", "7").unwrap().parse::<DocumentMut>().unwrap()["seed"].as_integer(), Some(7));
    }

    #[test]
    fn apply_refuses_what_is_not_there() {
        let text = "seed = 1\n[[flows]]\nname = \"a\"\n";
        assert!(changed(text, "flows.z.protocol", "x").unwrap_err().contains("there are: a"));
        assert!(changed(text, "seed.deep", "x").unwrap_err().contains("is a value"));
        assert!(changed(text, "flows.a", "x").is_err() && changed(text, "a..b", "x").is_err());
    }

    #[test]
    fn range_values_linear_and_logarithmic() {
        let range = |from, to, steps, logarithmic| RangeFile { from, to, steps, unit: "ms".to_owned(), logarithmic };
        let texts = |range| range_values(&range).unwrap().iter().map(plain).collect::<Vec<_>>();
        assert_eq!(texts(range(1.0, 2.0, 3, false)), ["1 ms", "1.5 ms", "2 ms"]);
        assert_eq!(texts(range(1.0, 100.0, 3, true)), ["1 ms", "10 ms", "100 ms"]);
        assert!(range_values(&range(0.0, 1.0, 3, true)).is_err());
        assert!(range_values(&range(0.0, 1.0, 1, false)).is_err());
    }
}
