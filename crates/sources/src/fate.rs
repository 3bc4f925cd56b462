//! What the end of a flow means for its source: whether another try may come to something else.

use inhaul_transport::FlowError;

use inhaul_engine::engine::EndCause;
use inhaul_session::session::control_stream::StreamError;
use inhaul_session::session::frame::{Frame, RefusalCode};

/// Why a source is lost, and whether it may return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fate {
    /// Why, for people.
    pub why: String,
    /// Another try may come to something else.
    pub may_return: bool,
}

impl Fate {
    /// By the end of its flow. `has_opened`: data could come from it once.
    pub fn of_flow(error: &FlowError, has_opened: bool) -> Self {
        let may_return = match error {
            // A firewall does not go away; a path that was open once may be open again.
            FlowError::NoPath { .. } => has_opened,
            FlowError::Protocol(_) | FlowError::Version { .. } => false,
            FlowError::Silent { .. } | FlowError::Disconnected => true,
        };
        Self { why: error.to_string(), may_return }
    }

    /// By the end of its control stream, or of its sending.
    pub fn of_end(cause: &EndCause) -> Self {
        let may_return = match cause {
            // Another try would come to the same.
            EndCause::Stream(error) => {
                !matches!(error, StreamError::Frame(_) | StreamError::TooLong(_) | StreamError::TooMuchOptional)
            }
            EndCause::Send(_) => true,
            EndCause::Refused(_) => false,
        };
        Self { why: cause.to_string(), may_return }
    }

    /// By a frame that ends a session, or that has no place in it.
    pub fn of_frame(frame: Frame) -> Self {
        match frame {
            // Whether a right has ended for good is what it says to the next try.
            Frame::Refused { code: RefusalCode::Busy | RefusalCode::NoRight, text } => {
                Self { why: text, may_return: true }
            }
            Frame::Refused { text, .. } => Self { why: text, may_return: false },
            Frame::Bye => Self { why: "it ended the session".to_owned(), may_return: true },
            _ => Self { why: "it sent a frame that has no place here".to_owned(), may_return: false },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_was_never_open_is_not_tried_again() {
        let blocked = FlowError::NoPath { seconds: 20 };
        assert!(!Fate::of_flow(&blocked, false).may_return);
        assert!(Fate::of_flow(&blocked, true).may_return);
        assert!(Fate::of_flow(&FlowError::Silent { seconds: 30 }, false).may_return);
        assert!(!Fate::of_flow(&FlowError::Protocol("x"), true).may_return);
    }

    #[test]
    fn a_server_that_is_busy_may_take_the_next_try() {
        let refused = |code| Frame::Refused { code, text: "no".to_owned() };
        assert!(Fate::of_frame(refused(RefusalCode::Busy)).may_return);
        assert!(Fate::of_frame(refused(RefusalCode::NoRight)).may_return);
        assert!(Fate::of_frame(Frame::Bye).may_return);
        assert!(!Fate::of_frame(Frame::Finish).may_return);
    }
}
