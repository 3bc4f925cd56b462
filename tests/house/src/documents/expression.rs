//! How a document says which number of a kept result it quotes: `rows[contestant=inhaul, size=1].seconds * 1000`.
//!
//! A path gives all values that it leads to: through a list it goes to each element, or to the elements that the
//! conditions in brackets choose (`=`, `!=`, `~` for "has in it"). `+ - * /` take one value, or as many on both sides.
//! `min`, `max`, `mean`, `median`, `sum` and `count` make one value of many; `abs` keeps them apart. What leads through
//! anything that says of itself that it is not valid is refused. `ratio(KEY: PATH, PATH):NAME` divides values with the
//! same key, in valid pairs only.

use serde_json::Value;

/// The numbers that `text` means in `root`.
///
/// # Errors
/// If it cannot be read, leads to no value, or leads through a result that is marked as invalid.
pub fn evaluate(text: &str, root: &[&Value]) -> Result<Vec<f64>, String> {
    let mut parser = Parser { rest: text.trim(), root };
    let values = parser.sum()?;
    if parser.rest.is_empty() { Ok(values) } else { Err(format!("'{}' is not understood", parser.rest)) }
}

/// The values of a path, for rows of a table.
///
/// # Errors
/// Like [`evaluate`].
pub fn select<'v>(text: &str, root: &[&'v Value]) -> Result<Vec<&'v Value>, String> {
    let mut rest = text.trim();
    let found = path(&mut rest, root, true)?;
    if rest.is_empty() { Ok(found) } else { Err(format!("'{rest}' is not understood")) }
}

struct Parser<'t, 'v> {
    rest: &'t str,
    root: &'t [&'v Value],
}

impl Parser<'_, '_> {
    fn sum(&mut self) -> Result<Vec<f64>, String> {
        let mut values = self.product()?;
        loop {
            values = if self.takes("+") {
                pairwise(&values, &self.product()?, |a, b| a + b)?
            } else if self.takes("-") {
                pairwise(&values, &self.product()?, |a, b| a - b)?
            } else {
                return Ok(values);
            };
        }
    }

    fn product(&mut self) -> Result<Vec<f64>, String> {
        let mut values = self.factor()?;
        loop {
            values = if self.takes("*") {
                pairwise(&values, &self.factor()?, |a, b| a * b)?
            } else if self.takes("/") {
                pairwise(&values, &self.factor()?, |a, b| a / b)?
            } else {
                return Ok(values);
            };
        }
    }

    fn factor(&mut self) -> Result<Vec<f64>, String> {
        if self.takes("-") {
            return Ok(self.factor()?.into_iter().map(|value| -value).collect());
        }
        if self.takes("(") {
            let values = self.sum()?;
            return if self.takes(")") { Ok(values) } else { Err("a bracket is not closed".to_owned()) };
        }
        if self.rest.starts_with(|c: char| c.is_ascii_digit()) {
            return self.number();
        }
        for (name, function) in FUNCTIONS {
            if self.rest.strip_prefix(name).is_some_and(|rest| rest.starts_with('(')) {
                self.rest = &self.rest[name.len()..];
                // The brackets are those of a factor.
                return Ok(vec![function(&self.factor()?)]);
            }
        }
        if self.rest.starts_with("abs(") {
            self.rest = &self.rest["abs".len()..];
            return Ok(self.factor()?.into_iter().map(f64::abs).collect());
        }
        if let Some(rest) = self.rest.strip_prefix("ratio(") {
            let (inside, after) = rest.split_once("):").ok_or("ratio(KEY: PATH, PATH):NAME is not closed")?;
            let len = after.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(after.len());
            self.rest = after[len..].trim_start();
            return ratio(inside, &after[..len], self.root);
        }
        let values = path(&mut self.rest, self.root, true)?;
        values.into_iter().map(number_of).collect()
    }

    fn number(&mut self) -> Result<Vec<f64>, String> {
        let in_number = |c: char| c.is_ascii_alphanumeric() || c == '.';
        let len = self.rest.find(|c| !in_number(c)).unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at(len);
        self.rest = rest.trim_start();
        Ok(vec![number.parse().map_err(|_| format!("'{number}' is no number"))?])
    }

    fn takes(&mut self, sign: &str) -> bool {
        let after = self.rest.strip_prefix(sign);
        self.rest = after.map_or(self.rest, str::trim_start);
        after.is_some()
    }
}

type Function = fn(&[f64]) -> f64;
const FUNCTIONS: &[(&str, Function)] = &[
    ("min", |values| values.iter().copied().fold(f64::INFINITY, f64::min)),
    ("max", |values| values.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
    ("sum", |values| values.iter().sum()),
    ("count", |values| values.len() as f64),
    ("mean", |values| values.iter().sum::<f64>() / values.len() as f64),
    ("median", median),
];

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    f64::midpoint(low, high)
}

fn pairwise(left: &[f64], right: &[f64], with: impl Fn(f64, f64) -> f64) -> Result<Vec<f64>, String> {
    match (left, right) {
        ([one], many) => Ok(many.iter().map(|other| with(*one, *other)).collect()),
        (many, [one]) => Ok(many.iter().map(|other| with(*other, *one)).collect()),
        _ if left.len() == right.len() => Ok(left.iter().zip(right).map(|(a, b)| with(*a, *b)).collect()),
        _ => Err(format!("{} values do not go with {}", left.len(), right.len())),
    }
}

fn number_of(value: &Value) -> Result<f64, String> {
    match value {
        Value::Bool(is) => Ok(f64::from(u8::from(*is))),
        Value::Number(number) => number.as_f64().ok_or_else(|| format!("{number} is out of range")),
        other => Err(format!("{} is no number", short(other))),
    }
}

/// Takes a path off the front of `rest` and follows it.
fn path<'v>(rest: &mut &str, root: &[&'v Value], only_valid: bool) -> Result<Vec<&'v Value>, String> {
    let mut found = root.to_vec();
    let check = |values: &[&Value]| if only_valid { check(values) } else { Ok(()) };
    check(&found)?;
    loop {
        let name = word(rest)?;
        found = step(&found, name, &check)?;
        while let Some(inside) = rest.strip_prefix('[') {
            let end = closing(inside).ok_or("a bracket is not closed")?;
            found = chosen(found, &inside[..end])?;
            *rest = &inside[end + 1..];
        }
        check(&found)?;
        match rest.strip_prefix('.') {
            Some(after) => *rest = after,
            None => break,
        }
    }
    *rest = rest.trim_start();
    Ok(found)
}

/// `KEY: PATH, PATH` and a name: that name's value in the elements of the first path, over its value in the elements of
/// the second path with the same key. Pairs with an invalid element are left out.
fn ratio(text: &str, name: &str, root: &[&Value]) -> Result<Vec<f64>, String> {
    let (key, paths) = text.split_once(':').ok_or("ratio has no key")?;
    let mut rest = paths.trim();
    let left = path(&mut rest, root, false)?;
    rest = rest.strip_prefix(',').ok_or("ratio has one path")?.trim_start();
    let right = path(&mut rest, root, false)?;
    let is_valid = |value: &&&Value| check(&[**value]).is_ok();
    let of = |value: &Value| number_of(value.get(name).ok_or_else(|| format!("{} has no '{name}'", short(value)))?);
    let mut ratios = Vec::new();
    for above in left.iter().filter(is_valid) {
        let same = |below: &&&Value| below.get(key.trim()) == above.get(key.trim());
        if let Some(below) = right.iter().filter(same).find(is_valid) {
            ratios.push(of(above)? / of(below)?);
        }
    }
    if ratios.is_empty() { Err("no pair is valid".to_owned()) } else { Ok(ratios) }
}

/// A name, or the text between `'`.
fn word<'t>(rest: &mut &'t str) -> Result<&'t str, String> {
    let (word, after) = if let Some(quoted) = rest.strip_prefix('\'') {
        quoted.split_once('\'').ok_or("a quote is not closed")?
    } else {
        let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        rest.split_at(len)
    };
    if word.is_empty() {
        return Err(format!("a name is missing before '{rest}'"));
    }
    *rest = after;
    Ok(word)
}

fn step<'v>(
    found: &[&'v Value],
    name: &str,
    check: &impl Fn(&[&Value]) -> Result<(), String>,
) -> Result<Vec<&'v Value>, String> {
    let each = found.iter().flat_map(|value| match value {
        Value::Array(items) => items.iter().collect(),
        other => vec![*other],
    });
    let each: Vec<&Value> = each.collect();
    check(&each)?;
    each.into_iter().map(|value| value.get(name).ok_or_else(|| format!("{} has no '{name}'", short(value)))).collect()
}

/// Where the bracket ends that is open at the start.
fn closing(text: &str) -> Option<usize> {
    let mut quoted = false;
    text.char_indices().find_map(|(at, c)| {
        quoted ^= c == '\'';
        (c == ']' && !quoted).then_some(at)
    })
}

/// Those elements that all conditions choose, or the one of that number.
fn chosen<'v>(found: Vec<&'v Value>, conditions: &str) -> Result<Vec<&'v Value>, String> {
    let items: Vec<&Value> = found
        .into_iter()
        .flat_map(|value| if let Value::Array(items) = value { items.iter().collect() } else { vec![value] })
        .collect();
    if let Ok(number) = conditions.trim().parse::<usize>() {
        let item = items.get(number).ok_or_else(|| format!("there is no [{number}]"))?;
        return Ok(vec![*item]);
    }
    let mut rest = conditions.trim();
    let mut kept = items;
    loop {
        let key = word(&mut rest)?;
        rest = rest.trim_start();
        let operator = ["!=", "=", "~"].into_iter().find(|operator| rest.starts_with(operator));
        let operator = operator.ok_or_else(|| format!("[{conditions}] has no condition behind '{key}'"))?;
        rest = rest[operator.len()..].trim_start();
        let wanted = if rest.starts_with('\'') {
            word(&mut rest)?
        } else {
            let (value, after) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
            rest = after;
            value.trim()
        };
        kept.retain(|item| {
            let actual = item.get(key).map(text_of).unwrap_or_default();
            match operator {
                "=" => actual == wanted,
                "!=" => actual != wanted,
                _ => actual.contains(wanted),
            }
        });
        match rest.trim_start().strip_prefix(',') {
            Some(more) => rest = more.trim_start(),
            None if rest.trim().is_empty() => break,
            None => return Err(format!("'{rest}' is not understood")),
        }
    }
    if kept.is_empty() { Err(format!("nothing has [{conditions}]")) } else { Ok(kept) }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What says of itself that it is not valid proves nothing.
fn check(values: &[&Value]) -> Result<(), String> {
    match values.iter().find(|value| value.get("valid") == Some(&Value::Bool(false))) {
        Some(invalid) => Err(format!("{} is marked as invalid: it proves nothing", short(invalid))),
        None => Ok(()),
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    let end = text.char_indices().nth(80).map_or(text.len(), |(at, _)| at);
    if end < text.len() { format!("{}...", &text[..end]) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: &str = r#"{"rows": [
        {"who": "a", "size": 1, "case": "x, y = 1", "seconds": 2.0, "told": {"bytes": [1, 3]}, "valid": true},
        {"who": "a", "size": 10, "case": "z", "seconds": 6.0, "told": {"bytes": [5]}},
        {"who": "b", "size": 1, "case": "z", "seconds": 8.0, "valid": false},
        {"who": "c", "size": 1, "case": "z", "seconds": 4.0},
        {"who": "c", "size": 10, "case": "z", "seconds": 3.0}
    ]}"#;

    fn value(text: &str) -> Result<Vec<f64>, String> {
        let kept: Value = serde_json::from_str(KEPT).unwrap();
        evaluate(text, &[&kept])
    }

    #[test]
    fn paths_choose_by_conditions() {
        assert_eq!(value("rows[who=a].seconds"), Ok(vec![2.0, 6.0]));
        assert_eq!(value("rows[who=a, size=10].seconds"), Ok(vec![6.0]));
        assert_eq!(value("rows[case='x, y = 1'].seconds"), Ok(vec![2.0]));
        assert_eq!(value("rows[who!=b, size~1].seconds"), Ok(vec![2.0, 6.0, 4.0, 3.0]));
        assert_eq!(value("rows[0].seconds"), Ok(vec![2.0]));
        assert_eq!(value("sum(rows[size=10, who=a].told.bytes[0])"), Ok(vec![5.0]));
    }

    #[test]
    fn values_are_computed_with() {
        assert_eq!(value("2 * (1 + 3) / 4 - 1"), Ok(vec![1.0]));
        assert_eq!(value("rows[who=a].seconds / rows[who=c].seconds"), Ok(vec![0.5, 2.0]));
        assert_eq!(value("max(rows[who=a].seconds / 2)"), Ok(vec![3.0]));
        assert_eq!(value("median(rows[who!=b].seconds)"), Ok(vec![3.5]));
        assert_eq!(value("mean(rows[who=a].seconds) - -1"), Ok(vec![5.0]));
        assert_eq!(value("abs(1 - rows[who=a].seconds)"), Ok(vec![1.0, 5.0]));
        assert_eq!(value("count(rows[who=a].seconds)"), Ok(vec![2.0]));
    }

    #[test]
    fn invalid_rows_are_refused_and_others_beside_them_are_not() {
        assert!(value("rows[who=b].seconds").unwrap_err().contains("marked as invalid"));
        assert!(value("sum(rows.seconds)").unwrap_err().contains("marked as invalid"));
        assert_eq!(value("rows[who=c, size=1].seconds"), Ok(vec![4.0]));
    }

    #[test]
    fn ratios_are_of_valid_pairs() {
        assert_eq!(value("ratio(size: rows[who=a], rows[who=c]):seconds"), Ok(vec![0.5, 2.0]));
        assert_eq!(value("max(ratio(size: rows[who=a], rows[who=c]):seconds) * 2"), Ok(vec![4.0]));
        assert!(value("ratio(size: rows[who=a], rows[who=b]):seconds").unwrap_err().contains("no pair"));
    }

    #[test]
    fn what_leads_to_nothing_is_an_error() {
        for text in ["rows[who=d].seconds", "rows[who=a].minutes", "lines", "rows[who=a", "rows[9].seconds", "", "1 +"]
        {
            assert!(value(text).is_err(), "{text}");
        }
        assert!(value("rows[who=a].who").unwrap_err().contains("no number"));
        assert!(value("rows[who=a].seconds + rows[who!=b].seconds").unwrap_err().contains("do not go with"));
    }

    #[test]
    fn select_gives_the_objects() {
        let kept: Value = serde_json::from_str(KEPT).unwrap();
        assert_eq!(select("rows[who=c]", &[&kept]).unwrap().len(), 2);
        assert!(select("rows[who=c] x", &[&kept]).is_err());
    }
}
