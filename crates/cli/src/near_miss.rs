//! Suggests a known name for an unknown one.

/// How similar a name must be to be what was meant: of three letters two may be swapped, or one be wrong.
const SIMILAR: f64 = 0.6;

/// The one of `names` that was meant by `word`, if one is near.
pub(crate) fn near_miss<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    names
        .map(|name| (strsim::normalized_damerau_levenshtein(word, name), name))
        .filter(|(similarity, _)| *similarity > SIMILAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}
