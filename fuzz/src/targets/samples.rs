//! Samples of a corpus, from texts.

/// The bytes of each text.
pub(super) fn of_texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
