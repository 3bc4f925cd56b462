//! Checksums in the form of other programs: `--checksum=sha-256=DIGITS`, `--md5 DIGITS`. Each becomes
//! `--expect ALGORITHM:DIGITS`, or the line is refused: no line that is suggested goes without it.

use inhaul_mover::Algorithm;

use crate::options::Checksum;

/// Options whose value is a checksum.
const OPTIONS: [&str; 4] = ["--checksum", "--hash", "--integrity", "--expected-checksum"];

/// A checksum that a line asks for.
pub(crate) struct ForeignChecksum {
    /// The words of the line that it takes, and how many.
    at: usize,
    count: usize,
    /// `ALGORITHM:DIGITS`, as far as it was written so.
    text: String,
}

impl ForeignChecksum {
    /// The checksum that the words ask for, in a form of other programs.
    pub(crate) fn of(words: &[String]) -> Option<Self> {
        let is_option = |name: &str| OPTIONS.contains(&name);
        // `--md5`, `--sha256sum`: the option names the algorithm.
        let named = |option: &str| Algorithm::named(option.strip_prefix("--")?.trim_end_matches("sum"));
        let is_checksum =
            |text: &str| text.split_once([':', '=']).is_some_and(|(name, _)| Algorithm::named(name).is_some());
        words.iter().enumerate().take_while(|(_, word)| *word != "--").find_map(|(at, word)| {
            if let Some((option, value)) = word.split_once('=').filter(|(option, _)| option.starts_with("--")) {
                let text = match named(option) {
                    Some(algorithm) => format!("{algorithm}:{value}"),
                    None if is_option(option) => value.to_owned(),
                    None => return None,
                };
                return Some(Self { at, count: 1, text });
            }
            let next = words.get(at + 1)?;
            if let Some(algorithm) = named(word) {
                return Some(Self { at, count: 2, text: format!("{algorithm}:{next}") });
            }
            (is_option(word) && is_checksum(next)).then(|| Self { at, count: 2, text: next.clone() })
        })
    }

    /// Its fault, if it has one.
    pub(crate) fn fault(&self) -> Option<String> {
        let error = self.text.parse::<Checksum>().err()?;
        let text = &self.text;
        Some(format!("'{text}' is no checksum: {error}; --expect takes it, as in --expect sha256:DIGITS"))
    }

    /// The line with `--expect` instead; `None` if it is no checksum.
    pub(crate) fn expected(&self, words: &[String]) -> Option<Vec<String>> {
        let Checksum { algorithm, .. } = self.text.parse().ok()?;
        let (_, digits) = self.text.split_once([':', '='])?;
        let expect = format!("--expect={algorithm}:{digits}");
        Some([&words[..self.at], &[expect], &words[self.at + self.count..]].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_told_in_every_form() {
        let digits = "0".repeat(32);
        let asked = |line: &str| {
            let words: Vec<String> = line.replace("DIGITS", &digits).split(' ').map(str::to_owned).collect();
            let asked = ForeignChecksum::of(&words)?;
            Some(asked.expected(&words).map(|words| words.join(" ")).ok_or_else(|| asked.fault().unwrap()))
        };
        let expected = format!("get --expect=md5:{digits} a/x .");
        for line in [
            "get --checksum=md5:DIGITS a/x .",
            "get --checksum=md5=DIGITS a/x .",
            "get --checksum md5=DIGITS a/x .",
            "get --checksum=MD5:DIGITS a/x .",
            "get --md5=DIGITS a/x .",
            "get --md5sum DIGITS a/x .",
            "get --hash md5:DIGITS a/x .",
        ] {
            assert_eq!(asked(line), Some(Ok(expected.clone())), "{line}");
        }
        for (line, words) in [
            ("get --checksum=sha256:abc a/x .", "64 hexadecimal digits"),
            ("get --checksum=md5=00 a/x .", "32 hexadecimal digits"),
            ("get --checksum sha-256=DIGITS a/x .", "64 hexadecimal digits"),
            ("get --checksum=md6:DIGITS a/x .", "'md6' is no algorithm"),
            ("get --checksum=DIGITS a/x .", "write ALGORITHM:DIGITS"),
            ("get --sha256 abc a/x .", "64 hexadecimal digits"),
        ] {
            let fault = asked(line).unwrap().unwrap_err();
            assert!(fault.contains(words) && fault.contains("--expect"), "{line}: {fault}");
        }
        for line in ["get --checksum a/x .", "get -- --checksum=md5:DIGITS", "get --checksum md5/x .", "get a/x ."] {
            assert!(asked(line).is_none(), "{line}");
        }
    }
}
