//! The contract between protocols and their carriers: the simulator, the socket engine, the tests.
//!
//! A protocol is a state machine, an [`Endpoint`]. It does no I/O, sees no clock and draws no randomness of its own:
//! time, seeds, datagrams and control messages are handed in; transmissions, events and the next deadline come out.
//! It handles byte *ranges*, not bytes: a transmission is a header and the range of the object that follows it; a
//! [`Place`] says where the body of a received datagram belongs. The endpoint's user moves the bytes.
//!
//! [`drain`] is the one loop that drives an endpoint. [`kit`] holds the parts that protocols share.
#![forbid(unsafe_code)]

mod batch;
mod command;
mod endpoint;
mod envelope;
mod event;
mod ids;
pub mod kit;
mod law;
mod path_spec;
mod policy;
mod protocol;
mod pump;
mod tcp_flows;

pub use batch::{Place, Route, RxMessage, Transmit, TxBatch, TxDatagram};
pub use command::{ClientRate, Command, CommandError, FlowLimits, JoinFlow, JoinSource, OfferFlow, Parameters};
pub use endpoint::{Endpoint, Expected, FlowStats, HeldBy, HostSample, Pause};
pub use envelope::{CONNECTION_FIELD, ENVELOPE_LEN, Envelope, TAG_LEN};
pub use event::{Event, FlowError, SourceOrder};
pub use ids::{ConnectionId, FlowId, ObjectId};
pub use law::{AckSample, Law, Limits, LossSample, Pace, RateSample};
pub use path_spec::{PathSpec, STREAM_AHEAD_MAX};
pub use policy::{NoPolicy, Policy};
pub use protocol::{Channels, Conditions, EndpointConfig, Offloads, Parameter, Protocol, Role, SetupError};
pub use pump::{Host, drain};
pub use tcp_flows::TcpFlows;
