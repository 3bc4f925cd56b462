//! A path to offer, and its name.

use std::path::{Path, PathBuf};

/// A directory or file to offer, with or without a chosen name. Without one, its own name is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    name: Option<String>,
    path: PathBuf,
}

/// A text is not a valid name for an offer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is no name to offer something under: write one without '/', up to 255 bytes", .0.escape_debug())]
pub struct OfferNameError(String);

impl Offer {
    /// Longest name, in bytes.
    const NAME_BYTES_MAX: usize = 255;

    /// Offers `path` as `name`. Requests must begin with it, even if nothing else is offered.
    ///
    /// When the name is not a valid path component.
    pub fn named(name: &str, path: impl Into<PathBuf>) -> Result<Self, OfferNameError> {
        let is_name = !matches!(name, "" | "." | "..")
            && !name.contains('/')
            && !name.chars().any(char::is_control)
            && name.len() <= Self::NAME_BYTES_MAX;
        if is_name {
            Ok(Self { name: Some(name.to_owned()), path: path.into() })
        } else {
            Err(OfferNameError(name.to_owned()))
        }
    }

    /// The chosen name.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl From<PathBuf> for Offer {
    fn from(path: PathBuf) -> Self {
        Self { name: None, path }
    }
}
