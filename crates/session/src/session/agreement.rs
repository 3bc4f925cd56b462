//! How mirrors are judged that say different things of the same bytes, wherever these go.

use inhaul_base::Span;

use crate::session::frame::GroupDigest;

/// A mirror that owes digests and sends none for so long is not waited for until it does. Hashing a frame of them takes
/// a tenth of a second from a slow disk; what takes longer may take for ever.
pub const SILENCE_MAX: Span = Span::from_secs(3);
/// When no digest has more than half of the votes, a mirror that has not spoken yet is waited for so long.
pub const TIE_MAX: Span = Span::from_secs(10);
/// A mirror that has other bytes of so many groups than most is left out: it is not one group that went bad.
pub const DIFFERENT_MAX: u64 = 8;

/// Digits of a digest in a message.
const DIGITS: usize = 16;

/// That there is no majority: who says what, and what to do.
pub fn no_majority<'a>(votes: impl Iterator<Item = (String, &'a GroupDigest)>) -> String {
    let said: Vec<String> = votes.map(|(server, digest)| format!("{server}: {}", digits(digest))).collect();
    let said = said.join(", ");
    format!("and no majority tells which copy is right ({said}): find out, and fetch from that one alone")
}

fn digits(digest: &GroupDigest) -> String {
    let nibbles = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    nibbles.take(DIGITS).filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_majority_says_who_says_what() {
        let votes = [("a:4321".to_owned(), &[0xab; 32]), ("[::1]:5".to_owned(), &[1; 32])];
        let said = no_majority(votes.into_iter());
        assert!(said.contains("(a:4321: abababababababab, [::1]:5: 0101010101010101)"), "{said}");
    }
}
