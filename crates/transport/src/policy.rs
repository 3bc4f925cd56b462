//! A receiver's share beside others' traffic.

use std::fmt;
use std::str::FromStr;

/// How much a receiver takes beside others' traffic, where its protocol lets its user choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// As much as one TCP flow.
    #[default]
    Fair,
    /// Only bandwidth that others leave unused.
    Low,
    /// What two TCP flows would have.
    High,
    /// The given rate, regardless of other traffic.
    Fixed,
}

impl Policy {
    /// The protocol parameter that says it.
    pub const PARAMETER: &str = "policy";

    /// All of them.
    pub const ALL: [Self; 4] = [Self::Fair, Self::Low, Self::High, Self::Fixed];

    /// Its name, as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fair => "fair",
            Self::Low => "low",
            Self::High => "high",
            Self::Fixed => "fixed",
        }
    }

    /// Whether others have at least what TCP flows would leave them.
    pub fn is_fair(self) -> bool {
        matches!(self, Self::Fair | Self::Low)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that names no policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a policy is 'fair', 'low', 'high' or 'fixed'")]
pub struct NoPolicy;

impl FromStr for Policy {
    type Err = NoPolicy;

    fn from_str(text: &str) -> Result<Self, NoPolicy> {
        Self::ALL.into_iter().find(|policy| policy.name() == text).ok_or(NoPolicy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_what_its_name_says() {
        for policy in Policy::ALL {
            assert_eq!(policy.name().parse(), Ok(policy));
        }
        assert!("rude".parse::<Policy>().unwrap_err().to_string().contains("'fair', 'low', 'high' or 'fixed'"));
        assert_eq!(Policy::ALL.map(Policy::is_fair), [true, true, false, false]);
    }
}
