//! A client's order to a server to fetch data, as it is sent: JSON inside of frames.

use inhaul_identity::Right;
use inhaul_store::{Existing, Filter, FilterError, Rule, check_rules_size};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::Fallback;
use inhaul_session::api::source::{Source, SourceError};

/// Most data sets in one order.
pub const SOURCES_MAX: usize = 64;
/// Most rules in one order, and most bytes of their patterns: compiled, those take some hundred times as much.
const RULES_MAX: usize = 1000;
const RULES_BYTES_MAX: usize = 64 << 10;
/// Longest destination, in bytes: the kernel takes no longer paths.
const DESTINATION_BYTES_MAX: usize = 4096;
/// Longest source, in bytes.
const SOURCE_BYTES_MAX: usize = 64 << 10;

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

/// What of an order says which right it needs: the rest is passed over.
#[derive(Deserialize)]
pub(crate) struct OrderHead {
    origin: OriginHead,
    /// See [`Order::destination`].
    pub(crate) destination: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OriginHead {
    Client(IgnoredAny),
    Servers(IgnoredAny),
}

impl OrderHead {
    /// Reads what is needed to ask for the right, and nothing else: that may come from anybody.
    ///
    /// # Errors
    /// When it is not the JSON of an order.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, OrderError> {
        let head: Self = serde_json::from_slice(json)?;
        if head.destination.len() > DESTINATION_BYTES_MAX {
            return Err(OrderError::TooLong { what: "destination", bytes_max: DESTINATION_BYTES_MAX });
        }
        Ok(head)
    }

    /// The right that the order needs.
    pub(crate) fn right(&self) -> Right {
        match self.origin {
            OriginHead::Client(_) => Right::Write,
            OriginHead::Servers(_) => Right::Copy,
        }
    }
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
    /// A part of it is too long.
    #[error("the {what} of an order is longer than {bytes_max} bytes")]
    TooLong {
        /// Which part.
        what: &'static str,
        /// How long it may be.
        bytes_max: usize,
    },
    /// A source cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A rule is not valid.
    #[error(transparent)]
    Rule(#[from] FilterError),
}

impl Order {
    /// Reads an order from JSON. Its patterns are counted, and not compiled.
    ///
    /// # Errors
    /// When it is none, or too large a one.
    pub fn parse(json: &[u8]) -> Result<Self, OrderError> {
        let order: Self = serde_json::from_slice(json)?;
        let count = match &order.origin {
            Origin::Client { sources } => usize::from(*sources),
            Origin::Servers { sources } => sources.len(),
        };
        if !(1..=SOURCES_MAX).contains(&count) {
            return Err(OrderError::SourceCount(count));
        }
        order.check_size()?;
        Ok(order)
    }

    /// The order as JSON.
    ///
    /// # Errors
    /// Never of what [`parse`](Order::parse) has given.
    pub fn to_json(&self) -> Result<Vec<u8>, OrderError> {
        Ok(serde_json::to_vec(self)?)
    }

    fn check_size(&self) -> Result<(), OrderError> {
        let too_long = |what, bytes_max| Err(OrderError::TooLong { what, bytes_max });
        if self.destination.len() > DESTINATION_BYTES_MAX {
            return too_long("destination", DESTINATION_BYTES_MAX);
        }
        if let Origin::Servers { sources } = &self.origin
            && sources.iter().map(String::len).sum::<usize>() > SOURCE_BYTES_MAX
        {
            return too_long("list of sources", SOURCE_BYTES_MAX);
        }
        Ok(check_rules_size(&self.rules(), RULES_MAX, RULES_BYTES_MAX)?)
    }

    fn rules(&self) -> Vec<Rule> {
        self.rules.iter().cloned().map(Rule::from).collect()
    }

    /// The order as a session takes it: see [`Self::to_json`].
    pub(crate) fn encode(&self) -> Result<Vec<u8>, MoveError> {
        self.check_size().map_err(|error| MoveError::Usage(error.to_string()))?;
        self.to_json().map_err(|error| MoveError::Internal(error.to_string()))
    }

    /// The sources on other servers; none when the client has the data.
    pub(crate) fn sources(&self) -> Result<Vec<Source>, SourceError> {
        match &self.origin {
            Origin::Client { .. } => Ok(Vec::new()),
            Origin::Servers { sources } => {
                // Whoever orders a copy must not have this host read its own files.
                sources.iter().map(|source| source.parse::<Source>().and_then(Source::of_servers_only)).collect()
            }
        }
    }

    /// The filter that the rules make.
    pub fn filter(&self) -> Result<Filter, FilterError> {
        Filter::new(&self.rules())
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
        for local in ["file:///etc/passwd", "inhaul://a/f,file:///etc/passwd"] {
            let order = order(Origin::Servers { sources: vec![local.to_owned()] });
            assert!(matches!(order.sources(), Err(SourceError::NotTrusted(_))), "{local}");
        }
        let bad = order(Origin::Servers { sources: vec!["ftp://a/f".to_owned()] });
        assert!(matches!(bad.sources(), Err(SourceError::Scheme(_))));
        let rules = vec![OrderRule::Include("[z-a]".to_owned())];
        let bad = Order { rules, ..order(Origin::Client { sources: 1 }) };
        assert!(matches!(bad.filter(), Err(FilterError::BadPattern { .. })));
    }

    #[test]
    fn orders_are_bounded_in_number_and_in_bytes() {
        let put = || order(Origin::Client { sources: 1 });
        let rules = |pattern: &str, count| vec![OrderRule::Exclude(pattern.to_owned()); count];
        let long = |bytes| "a".repeat(bytes);
        for order in [
            Order { rules: rules("a", RULES_MAX + 1), ..put() },
            Order { rules: rules(&long(RULES_BYTES_MAX / 4), 5), ..put() },
            Order { destination: long(DESTINATION_BYTES_MAX + 1), ..put() },
            order(Origin::Servers { sources: vec![long(SOURCE_BYTES_MAX / 4); 5] }),
        ] {
            let error = Order::parse(&order.to_json().unwrap()).unwrap_err();
            assert!(matches!(error, OrderError::Rule(FilterError::TooMany { .. }) | OrderError::TooLong { .. }));
            assert!(matches!(order.encode(), Err(MoveError::Usage(_))), "its client says so before it is sent");
        }
        assert!(put().encode().is_ok());
    }

    #[test]
    fn head_says_which_right_is_needed_whatever_else_there_is() {
        let put =
            OrderHead::parse(br#"{"rules":[{"exclude":"[z-a]"}],"origin":{"client":{"sources":0}},"destination":"a"}"#);
        assert!(matches!(put, Ok(head) if head.right() == Right::Write && head.destination == "a"));
        let copy = OrderHead::parse(&order(Origin::Servers { sources: Vec::new() }).to_json().unwrap());
        assert!(matches!(copy, Ok(head) if head.right() == Right::Copy));
        let long = format!(r#"{{"origin":{{"client":1}},"destination":"{}"}}"#, "a".repeat(DESTINATION_BYTES_MAX + 1));
        assert!(OrderHead::parse(long.as_bytes()).is_err() && OrderHead::parse(b"{}").is_err());
    }
}
