//! A client's order to a server to fetch data, as it is sent: JSON inside of frames.

use inhaul_store::{Existing, Filter, FilterError, Rule};
use serde::{Deserialize, Serialize};

use crate::api::error::MoveError;
use crate::api::options::Fallback;
use crate::api::source::{Source, SourceError};

/// Most data sets in one order.
pub const SOURCES_MAX: usize = 64;

/// What is to be fetched, from where and to where, and how it is to land.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// A number that a client draws for a transfer, and gives again when it orders the same once more: what is left of
    /// the order before makes way.
    pub transfer: u64,
    /// Where the data is.
    pub origin: Origin,
    /// A path beneath the directory that the server takes data sets into: what the one data set becomes, or, if it is
    /// empty or ends in `/`, the directory that all land in.
    pub destination: String,
    /// What of the data sets is wanted.
    pub rules: Vec<OrderRule>,
    /// What happens to files that exist and differ.
    #[serde(with = "ExistingName")]
    pub existing: Existing,
    /// Whether files that exist are compared by their bytes, rather than by size and time.
    pub checksum: bool,
    /// Whether extended attributes are carried.
    pub attributes: bool,
    /// Whether to begin anew, rather than to go on from what an interrupted transfer has left.
    pub fresh: bool,
    /// Only say what would be done.
    pub dry_run: bool,
    /// Most that each sender may send, in bits per second (R_app).
    pub rate_bps: Option<u64>,
    /// How long to go on trying without a byte when other servers cannot be reached or are lost, in seconds.
    pub retry_seconds: u64,
    /// Whether the data may come over streams that the client opens. Of a client that has the data itself.
    #[serde(default = "never", with = "FallbackName")]
    pub fallback: Fallback,
}

/// Where the data of an order is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Origin {
    /// At the client itself. It attaches a session for each data set; this is their number.
    Client {
        /// How many there are, at most [`SOURCES_MAX`].
        sources: u16,
    },
    /// On other servers: sources as users write them, at most [`SOURCES_MAX`].
    Servers {
        /// The sources.
        sources: Vec<String>,
    },
}

/// A [`Rule`] as it travels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderRule {
    /// See [`Rule::Include`].
    Include(String),
    /// See [`Rule::Exclude`].
    Exclude(String),
    /// See [`Rule::Line`].
    Line(String),
}

/// An [`Existing`] as it travels.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Existing", rename_all = "kebab-case")]
enum ExistingName {
    Refuse,
    Replace,
    Update,
    Keep,
}

/// A [`Fallback`] as it travels.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Fallback", rename_all = "kebab-case")]
enum FallbackName {
    Auto,
    Never,
    Always,
}

/// What holds for a client that does not say.
fn never() -> Fallback {
    Fallback::Never
}

/// Why bytes are no order.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// They are not the JSON of one.
    #[error("the order cannot be understood: {0}")]
    Json(#[from] serde_json::Error),
    /// It has no source, or too many.
    #[error("an order has from 1 to {SOURCES_MAX} sources, not {0}")]
    SourceCount(usize),
    /// A source cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A rule is not valid.
    #[error(transparent)]
    Rule(#[from] FilterError),
}

impl Order {
    /// Reads an order from JSON.
    ///
    /// # Errors
    /// When it is none, or one that cannot be carried out.
    pub fn parse(json: &[u8]) -> Result<Self, OrderError> {
        let order: Self = serde_json::from_slice(json)?;
        let count = match &order.origin {
            Origin::Client { sources } => usize::from(*sources),
            Origin::Servers { sources } => sources.len(),
        };
        if !(1..=SOURCES_MAX).contains(&count) {
            return Err(OrderError::SourceCount(count));
        }
        order.sources()?;
        order.filter()?;
        Ok(order)
    }

    /// The order as JSON.
    ///
    /// # Errors
    /// Never of what [`parse`](Order::parse) has given.
    pub fn to_json(&self) -> Result<Vec<u8>, OrderError> {
        Ok(serde_json::to_vec(self)?)
    }

    /// The order as a session takes it: see [`Self::to_json`].
    pub(crate) fn encode(&self) -> Result<Vec<u8>, MoveError> {
        self.to_json().map_err(|error| MoveError::Internal(error.to_string()))
    }

    /// The sources on other servers; none when the client has the data.
    pub(crate) fn sources(&self) -> Result<Vec<Source>, SourceError> {
        match &self.origin {
            Origin::Client { .. } => Ok(Vec::new()),
            Origin::Servers { sources } => sources.iter().map(|source| source.parse()).collect(),
        }
    }

    /// The filter that the rules make.
    pub(crate) fn filter(&self) -> Result<Filter, FilterError> {
        let rules: Vec<Rule> = self.rules.iter().cloned().map(Rule::from).collect();
        Filter::new(&rules)
    }
}

impl From<OrderRule> for Rule {
    fn from(rule: OrderRule) -> Self {
        match rule {
            OrderRule::Include(pattern) => Self::Include(pattern),
            OrderRule::Exclude(pattern) => Self::Exclude(pattern),
            OrderRule::Line(line) => Self::Line(line),
        }
    }
}

impl From<Rule> for OrderRule {
    fn from(rule: Rule) -> Self {
        match rule {
            Rule::Include(pattern) => Self::Include(pattern),
            Rule::Exclude(pattern) => Self::Exclude(pattern),
            Rule::Line(line) => Self::Line(line),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn order(origin: Origin) -> Order {
        Order {
            transfer: u64::MAX,
            origin,
            destination: "run7".to_owned(),
            rules: vec![OrderRule::Exclude("*.tmp".to_owned())],
            existing: Existing::Update,
            checksum: false,
            attributes: true,
            fresh: false,
            dry_run: false,
            rate_bps: Some(1_000_000),
            retry_seconds: 60,
            fallback: Fallback::Auto,
        }
    }

    #[test]
    fn parse_gives_back_what_to_json_wrote() {
        for origin in [Origin::Client { sources: 2 }, Origin::Servers { sources: vec!["inhaul://a/f".to_owned()] }] {
            let order = order(origin);
            assert_eq!(Order::parse(&order.to_json().unwrap()).unwrap(), order);
        }
    }

    #[test]
    fn an_order_that_does_not_speak_of_streams_has_none() {
        let json = order(Origin::Client { sources: 1 }).to_json().unwrap();
        let mut order: serde_json::Value = serde_json::from_slice(&json).unwrap();
        order.as_object_mut().unwrap().remove("fallback");
        assert_eq!(Order::parse(order.to_string().as_bytes()).unwrap().fallback, Fallback::Never);
    }

    #[test]
    fn parse_refuses_what_cannot_be_carried_out() {
        let parse = |order: &Order| Order::parse(&order.to_json().unwrap()).unwrap_err();
        assert!(matches!(Order::parse(b"{}"), Err(OrderError::Json(_))));
        for count in [0, 65] {
            let error = parse(&order(Origin::Client { sources: count }));
            assert!(matches!(error, OrderError::SourceCount(_)), "{error}");
        }
        let error = parse(&order(Origin::Servers { sources: vec!["http://a/f".to_owned()] }));
        assert!(matches!(error, OrderError::Source(_)), "{error}");
        let rules = vec![OrderRule::Include("[z-a]".to_owned())];
        let error = parse(&Order { rules, ..order(Origin::Client { sources: 1 }) });
        assert!(matches!(error, OrderError::Rule(_)), "{error}");
    }
}
