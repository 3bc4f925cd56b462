//! Faults of the words of a command line, and their corrections.

/// Words that mean nothing here. `Display` says why, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) message: String,
    /// The correction of the line, if known. It may have a secret in it.
    pub(crate) mend: Option<Mend>,
}

/// A change to a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mend {
    /// Another word in the place of this one.
    Word { wrong: String, right: String },
    /// One more word at the end.
    Append(&'static str),
    /// Another command with the same words.
    Command(&'static str),
}

impl Wrong {
    /// Nothing is known that would do.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), mend: None }
    }

    /// The same, with a correction.
    pub(crate) fn with(self, mend: Mend) -> Self {
        Self { mend: Some(mend), ..self }
    }

    /// The same; `right` may replace `wrong`.
    pub(crate) fn or(self, wrong: &str, right: impl Into<String>) -> Self {
        self.with(Mend::Word { wrong: wrong.to_owned(), right: right.into() })
    }
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Wrong {}
