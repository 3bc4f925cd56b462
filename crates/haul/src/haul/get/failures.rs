//! The data sets and files of a transfer that failed, while others land.

use inhaul_store::{Plan, printable};

use inhaul_session::api::error::MoveError;
use inhaul_session::api::source::Source;

/// A data set, and the result of one step of its transfer.
pub type Outcome<T> = (Source, Result<T, MoveError>);

/// The failures of a transfer, while other data lands.
#[derive(Default)]
pub struct Failures {
    pub(super) texts: Vec<String>,
}

impl Failures {
    /// Sets those aside that have failed; if all have, with the first one's error.
    pub fn keep<T>(&mut self, results: Vec<Outcome<T>>) -> Result<Vec<T>, MoveError> {
        let mut kept = Vec::new();
        let mut first = None;
        for (source, result) in results {
            match result {
                Ok(good) => kept.push(good),
                // What the user has stopped is not going on.
                Err(MoveError::Interrupted) => return Err(MoveError::Interrupted),
                Err(error) => {
                    self.texts.push(format!("{source}: {error}"));
                    first = first.or(Some(error));
                }
            }
        }
        match first {
            Some(error) if kept.is_empty() => Err(error),
            _ => Ok(kept),
        }
    }

    /// What the source of a data set may not read does not come.
    pub fn note_unreadable(&mut self, plan: &Plan) {
        let unreadable = plan.unreadable();
        if unreadable.count > 0 {
            let named: Vec<String> = unreadable.paths.iter().map(|path| format!("'{}'", printable(path))).collect();
            let more = match unreadable.count - named.len() as u64 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            self.texts.push(format!("the server may not read {}{more}", named.join(", ")));
        }
    }

    /// What has failed, in words.
    pub fn into_texts(self) -> Vec<String> {
        self.texts
    }

    pub(super) fn result(self) -> Result<(), MoveError> {
        if self.texts.is_empty() { Ok(()) } else { Err(MoveError::Partial { failures: self.texts }) }
    }
}
