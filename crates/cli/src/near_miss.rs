//! Suggests a known name for an unknown one.

/// How similar a name must be to count as the intended one: of three letters, two may be swapped or one may be wrong.
const SIMILAR: f64 = 0.6;

/// The one of `names` that was meant by `word`, if one is near.
pub(crate) fn near_miss<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    names
        .map(|name| (strsim::normalized_damerau_levenshtein(word, name), name))
        .filter(|(similarity, _)| *similarity > SIMILAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// The long option nearest to `word`, if one is near enough. Never an option of the opposite meaning, nor one that
/// destroys data.
pub(crate) fn near_option<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let same = |name: &&str| {
        let is_typo = strsim::damerau_levenshtein(word, name) <= 2;
        word.starts_with("no") == name.starts_with("no") && (*name != "overwrite" || is_typo)
    };
    near_miss(word, names.filter(same))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_option_means_no_opposite() {
        let near = |word| near_option(word, ["overwrite", "proxy", "no-resume", "checksum"].into_iter());
        assert_eq!(
            (near("overwrit"), near("overwirte"), near("prxy")),
            (Some("overwrite"), Some("overwrite"), Some("proxy"))
        );
        assert_eq!((near("noresume"), near("no-overwrite"), near("never-overwrite")), (Some("no-resume"), None, None));
        assert_eq!((near("noproxy"), near("no-checksum")), (None, None));
    }
}
