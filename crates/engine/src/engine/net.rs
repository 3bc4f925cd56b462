//! Endpoints of the transports that users choose.

use std::net::SocketAddr;

use inhaul_base::{Bitrate, Span};
use inhaul_protocols::registry::Protocols;
use inhaul_transport::{
    Endpoint, EndpointConfig, FlowId, FlowLimits, JoinFlow, ObjectId, Parameters, Policy, Protocol, Role,
};
use inhaul_udp::Socket;

use crate::engine::{EndpointId, Engine};
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::NetOptions;
use inhaul_session::session::early_path::EarlyFlow;
use inhaul_session::system::{process, sockets};

/// An endpoint of the protocol `transport`.
pub(crate) fn endpoint(
    protocols: Protocols,
    transport: &str,
    config: &EndpointConfig,
) -> Result<Box<dyn Endpoint + Send>, MoveError> {
    let entry = protocols
        .find(transport)
        .ok_or_else(|| MoveError::Usage(format!("there is no transport '{transport}': see 'inhaul protocols'")))?;
    (entry.build)(config).map_err(|error| MoveError::Usage(error.to_string()))
}

/// Rates that a user gives an endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// What the host may take in or send.
    pub host: Option<Bitrate>,
    /// What each flow may take.
    pub flow: Option<Bitrate>,
}

/// Whether an endpoint of the protocol `transport` can be made, with these rates.
///
/// # Errors
/// `Usage` when not: it says why.
pub fn try_endpoint(
    protocols: Protocols,
    transport: &str,
    parameters: Vec<(String, String)>,
    role: Role,
    rates: Rates,
) -> Result<(), MoveError> {
    let Rates { host: host_rate, flow: flow_rate } = rates;
    let config = EndpointConfig { host_rate, flow_rate, parameters, ..EndpointConfig::new(role, 0) };
    endpoint(protocols, transport, &config).map(drop)
}

/// The transport of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transport {
    /// Its name in the registry.
    pub name: &'static str,
    /// What the user at the receiving end has set.
    pub parameters: Parameters,
}

impl Transport {
    /// What the user of this host has chosen.
    pub fn of(options: &NetOptions) -> Result<Self, MoveError> {
        let entry = options.protocols.find(&options.transport);
        let name = entry.ok_or_else(|| MoveError::Internal("a transport has gone".to_owned()))?.name;
        Ok(Self { name, parameters: options.parameters.clone().into() })
    }
}

/// Of parameters for whatever transport, those that this one has.
pub fn known_to(entry: &Protocol, parameters: &[(String, String)]) -> Vec<(String, String)> {
    let known = |name: &str| entry.parameters.iter().any(|parameter| parameter.name == name);
    parameters.iter().filter(|(name, _)| known(name)).cloned().collect()
}

/// The policy that was chosen; `None` if the transport has no policies.
pub fn policy(options: &NetOptions) -> Option<Policy> {
    let has = |entry: &Protocol| entry.parameters.iter().any(|parameter| parameter.name == Policy::PARAMETER);
    let value =
        |asked: &str| options.parameters.iter().rfind(|(name, _)| name == asked).map(|(_, value)| value.as_str());
    let has_policies = options.protocols.find(&options.transport).is_some_and(has) && value("control") != Some("paper");
    has_policies.then(|| value(Policy::PARAMETER).and_then(|value| value.parse().ok()).unwrap_or_default())
}

/// Chooses another policy, if the transport has policies and takes this one with these rates.
pub fn choose_policy(options: &mut NetOptions, policy: Policy, rates: Rates) {
    if self::policy(options).is_none() {
        return;
    }
    let mut parameters = options.parameters.clone();
    parameters.retain(|(name, _)| name != Policy::PARAMETER);
    parameters.push((Policy::PARAMETER.to_owned(), policy.name().to_owned()));
    if try_endpoint(options.protocols, &options.transport, parameters.clone(), Role::Receiver, rates).is_ok() {
        options.parameters = parameters;
    }
}

/// Whether a server may be told these parameters: some transport has each, and takes its value.
///
/// # Errors
/// `Usage` when not.
pub fn check_server(options: &NetOptions) -> Result<(), MoveError> {
    let all = options.protocols.0;
    for (name, _) in &options.parameters {
        if !all.iter().any(|entry| entry.parameters.iter().any(|parameter| parameter.name == name)) {
            return Err(MoveError::Usage(format!("no transport has a parameter '{name}': see 'inhaul protocols'")));
        }
    }
    for entry in all {
        try_endpoint(
            options.protocols,
            entry.name,
            known_to(entry, &options.parameters),
            Role::Sender,
            Rates::default(),
        )?;
    }
    Ok(())
}

/// Whether there is such a transport with such parameters, for a receiver that was given these rates.
///
/// # Errors
/// `Usage` when there is not.
pub fn check(options: &NetOptions, rates: Rates) -> Result<(), MoveError> {
    for (at, (name, value)) in options.parameters.iter().enumerate() {
        let another = options.parameters[..at].iter().find(|(before, other)| before == name && other != value);
        if let Some((_, other)) = another {
            return Err(MoveError::Usage(format!(
                "'{name}' has two values, '{other}' and '{value}': leave one of them out"
            )));
        }
    }
    try_endpoint(options.protocols, &options.transport, options.parameters.clone(), Role::Receiver, rates)
}

/// What a flow from `peer` begins with, whose socket may have been probed early. Object and limits are the caller's.
pub fn join_toward(
    options: &NetOptions,
    engine: &Engine,
    flow: FlowId,
    peer: SocketAddr,
    probed: Option<EarlyFlow>,
) -> Result<JoinFlow, MoveError> {
    let (path, connection, probed) = match probed.filter(|early| engine.is_free(early.connection)) {
        Some(early) => {
            let age = u64::try_from(early.age().as_nanos()).unwrap_or(u64::MAX);
            (early.path, early.connection, Some(Span::from_nanos(age)))
        }
        None => (sockets::path_toward(options, peer), engine.new_connection()?, None),
    };
    let (object, limits) = (ObjectId(0), FlowLimits::default());
    Ok(JoinFlow { flow, object, peer: Some(peer), path, connection, probed, limits })
}

/// Has the engine drive an endpoint of the transport that was chosen; `socket` is the first of its sockets.
pub fn add_endpoint(
    options: &NetOptions,
    engine: &mut Engine,
    role: Role,
    rates: Rates,
    socket: &Socket,
) -> Result<EndpointId, MoveError> {
    add_endpoint_with(options, engine, role, rates, socket.receive_buffer_bytes() as u64)
}

/// The same, by the size of the sockets' buffers.
pub fn add_endpoint_with(
    options: &NetOptions,
    engine: &mut Engine,
    role: Role,
    rates: Rates,
    socket_buffer_bytes: u64,
) -> Result<EndpointId, MoveError> {
    let config = EndpointConfig {
        host_rate: rates.host,
        flow_rate: rates.flow,
        socket_buffer_bytes,
        parameters: options.parameters.clone(),
        ..EndpointConfig::new(role, process::random_u64()?)
    };
    Ok(engine.add_endpoint(role, endpoint(options.protocols, &options.transport, &config)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_knows_what_only_a_given_rate_allows() {
        let parameters = vec![("control".to_owned(), "paper".to_owned())];
        let options = NetOptions { parameters, ..NetOptions::default() };
        let error = check(&options, Rates::default()).err().unwrap();
        assert!(matches!(&error, MoveError::Usage(text) if text.contains("receive rate must be given")), "{error}");
        assert!(check(&options, Rates { host: Some(Bitrate::from_gbps(1)), flow: None }).is_ok());
    }

    #[test]
    fn check_takes_the_rate_of_a_flow_where_a_protocol_needs_one() {
        let options = NetOptions { transport: "rbudp".to_owned(), ..NetOptions::default() };
        let error = check(&options, Rates::default()).err().unwrap();
        assert!(matches!(&error, MoveError::Usage(text) if text.contains("--rate 800M")), "{error}");
        assert!(check(&options, Rates { host: None, flow: Some(Bitrate::from_gbps(1)) }).is_ok());
    }

    #[test]
    fn endpoint_names_what_it_does_not_know() {
        let error =
            try_endpoint(Protocols::ALL, "carrier-pigeon", Vec::new(), Role::Sender, Rates::default()).unwrap_err();
        assert!(matches!(&error, MoveError::Usage(text) if text.contains("carrier-pigeon")), "{error}");
    }
}
