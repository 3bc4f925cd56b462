//! `get`: fetches data sets from their mirrors to one destination.
//!
//! It finds each data set at its mirrors, and plans the landing. `Haul` then carries the transfer out.

mod busy;
mod compare;
mod directories;
mod failures;
mod find;
#[cfg(test)]
mod http_tests;
mod manifest_file;
#[cfg(test)]
mod source_tests;

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

use inhaul_base::Span;
use inhaul_store::checksums::Algorithm;
use inhaul_store::journal::{Change, Damage};
use inhaul_store::{Entry, Existing, Fate, Landing, LandingOptions, Plan, Rule, digest, printable};
use inhaul_transport::Role;
use inhaul_udp::Socket;

pub use self::directories::CreatedDirectories;
pub use self::failures::{Failures, Outcome};
use self::find::find_attached;
pub use self::find::{Found, find_all};
use crate::haul::transfer::{Haul, Joining, Object, Sought};
use crate::haul::verify::describe_weak;
use inhaul_engine::engine::net;
use inhaul_engine::engine::port::Port;
use inhaul_engine::engine::{EndpointId, Engine, PortId};
use inhaul_engine::paths::Callers;
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::{GetOptions, Stop, Update};
use inhaul_session::api::report::{
    FileReport, Report, SourceReport, SourceStatus, Status, known_ms, loss_ratio, path_url,
};
use inhaul_session::api::request::KnownSums;
use inhaul_session::api::source::Source;
use inhaul_session::session::connect::Session;
use inhaul_session::session::early;
use inhaul_session::system::process;
use inhaul_session::system::threads;
use inhaul_sources::opener::Opener;

/// What an endpoint without a socket takes for the size of one's buffer.
const NO_SOCKET_BYTES: u64 = 1 << 20;
/// Most changes of a data set that are named one by one.
const CHANGES_NAMED_MAX: usize = 3;

/// Fetches `options.requests` to `options.destination`, verified, until `stop` is set. Calls `hear` with updates, on
/// the calling thread. The report is of use even when the transfer failed.
///
/// # Errors
/// What ended the transfer. It then leaves files that are complete and verified. If more was verified, it
/// also leaves partial files and a journal, from which the same call continues.
pub fn get(options: &GetOptions, stop: &Stop, hear: &mut dyn FnMut(Update)) -> (Report, Result<(), MoveError>) {
    let dialled = dialled(options);
    let options = dialled.as_ref().unwrap_or(options);
    reported(|report, began| {
        net::check(&options.net, rates(options))?;
        process::files_allowed(options.net.raise_limits);
        if let Some(path) = &options.manifest {
            manifest_file::check(path, options.existing == Existing::Replace)?;
        }
        let opener = Opener::new(options, early::wanted(options));
        let found = find_all(options, &opener, stop, hear)?;
        haul(options, found, (Paths::Dialled(opener), began), stop, hear, report)
    })
}

/// The options with the policy that the dial was set to already, if it was: servers are asked with it.
fn dialled(options: &GetOptions) -> Option<GetOptions> {
    let policy = options.policy_dial.as_ref()?.get()?;
    let mut dialled = options.clone();
    net::choose_policy(&mut dialled.net, policy, rates(options));
    Some(dialled)
}

/// The same of data sets whose senders have opened the sessions, and whose datagrams all come over the socket; or over
/// streams that the senders bring.
pub fn get_attached(
    options: &GetOptions,
    sessions: Vec<Session>,
    (socket, callers): (Socket, Callers),
    stop: &Stop,
    hear: &mut dyn FnMut(Update),
) -> (Report, Result<(), MoveError>) {
    reported(|report, began| {
        let found = find_attached(options, sessions, stop)?;
        haul(options, found, (Paths::Shared(socket, callers), began), stop, hear, report)
    })
}

/// How datagrams of the mirrors come here.
pub(crate) enum Paths {
    /// Each over a socket of its own, from where its server said. Mirrors that are lost are opened again.
    Dialled(Opener),
    /// All over this one, or over streams that their senders bring.
    Shared(Socket, Callers),
}

/// Runs a transfer and completes its report.
fn reported(transfer: impl FnOnce(&mut Report, Instant) -> Result<(), MoveError>) -> (Report, Result<(), MoveError>) {
    let began = Instant::now();
    let mut report = Report::default();
    let result = transfer(&mut report, began);
    report.take_time(Span::from(began.elapsed()));
    if let Err(error) = &result {
        let is_partial = matches!(error, MoveError::Partial { .. });
        report.status = if is_partial { Status::Partial } else { Status::Failed };
        report.error = Some(error.into());
    }
    (report, result)
}

fn haul(
    options: &GetOptions,
    found: Vec<Outcome<Found>>,
    (paths, began): (Paths, Instant),
    stop: &Stop,
    hear: &mut dyn FnMut(Update),
    report: &mut Report,
) -> Result<(), MoveError> {
    let mut failures = Failures::default();
    let found = failures.keep(found)?;
    for warning in found.iter().flat_map(Found::warnings).chain(unmatched(options, &found)) {
        hear(Update::Warning(warning.clone()));
        report.warnings.push(warning);
    }
    report.sources = found.iter().flat_map(|data_set| data_set.absent.clone()).collect();
    let _created = CreatedDirectories::prepare(options, &found)?;
    let planned = found.into_iter().map(|data_set| (data_set.request.source(), plan(options, data_set, stop)));
    let planned = failures.keep(planned.collect())?;
    for (_, plan) in &planned {
        failures.note_unreadable(plan);
    }
    if options.dry_run {
        let plans = || planned.iter().map(|(_, plan)| plan);
        report.status = Status::Planned;
        report.bytes = plans().map(Plan::bytes).fold(0, u64::saturating_add);
        report.files = plans().flat_map(|plan| files_of(plan, &BTreeMap::new(), (&KnownSums::new(), false))).collect();
        failures.keep(rehearse(options, planned))?;
        return failures.result();
    }

    let (objects, joinings) = land_all(options, planned, stop, &mut failures)?;
    for object in &objects {
        let resumed = object.landing.resumed();
        let damage = resumed.damage.map(|damage| describe_damage(&object.landing, damage));
        let changes = describe_changes(&object.source, &resumed.changes);
        for warning in changes.into_iter().chain(damage).chain(describe_weak(&object.source, &object.sums)) {
            hear(Update::Warning(warning.clone()));
            report.warnings.push(warning);
        }
    }
    let (updates, incoming) = channel();
    let (options, stop) = (options.clone(), stop.clone());
    let run = move || run_haul(&options, objects, joinings, (paths, began), updates, stop);
    let thread = threads::spawn_helper("inhaul-data", run)?;
    for update in incoming {
        hear(update);
    }
    let (part, result) = thread.join().map_err(|_| MoveError::Internal("the data thread has died".to_owned()))?;
    take(report, part);
    failures.texts.extend(result?);
    failures.result()
}

/// That patterns match nothing of any data set, for people.
pub fn unmatched(options: &GetOptions, found: &[Found]) -> Vec<String> {
    let of_each = found.iter().map(|data_set| options.filter.unmatched(&data_set.manifest));
    let of_all = of_each.reduce(|all, of_one| all.intersection(&of_one).cloned().collect()).unwrap_or_default();
    let words = |rule| match rule {
        Rule::Include(pattern) => format!("--include '{pattern}' matches nothing: check its spelling"),
        Rule::Exclude(pattern) | Rule::Line(pattern) => {
            format!("--exclude '{pattern}' matches nothing: check its spelling")
        }
    };
    of_all.into_iter().map(words).collect()
}

/// Plans how a data set lands; with `--checksum` by the bytes of what is there.
pub fn plan(options: &GetOptions, data_set: Found, stop: &Stop) -> Result<(Found, Plan), MoveError> {
    let manifest = Arc::clone(&data_set.manifest);
    let filter = data_set.request.filter(&options.filter);
    let site = data_set.request.site(&options.destination);
    let make = || match &options.inbox {
        Some(inbox) => Plan::in_inbox(inbox, &site, Arc::clone(&manifest), &filter, options.existing),
        None => Plan::new(&site, Arc::clone(&manifest), &filter, options.existing),
    };
    let mut plan = make()?;
    if busy::wait_while(&|| plan.is_busy(), stop) {
        plan = make()?;
    }
    if options.checksum {
        compare::by_bytes(&mut plan, &data_set, options, stop)?;
    }
    Ok((data_set, plan))
}

/// Checks all that is checked before the first byte is fetched, of each data set.
pub fn rehearse(options: &GetOptions, planned: Vec<(Found, Plan)>) -> Vec<Outcome<(Found, Plan)>> {
    let total_bytes = total_bytes(&planned);
    let rehearse = |(data_set, mut plan): (Found, Plan)| {
        let landing_options = landing_options(options, total_bytes, &plan);
        let rehearsed = Landing::rehearse(&mut plan, landing_options);
        (data_set.request.source(), rehearsed.map(|()| (data_set, plan)).map_err(MoveError::from))
    };
    planned.into_iter().map(rehearse).collect()
}

fn total_bytes(planned: &[(Found, Plan)]) -> u64 {
    planned.iter().map(|(_, plan)| plan.bytes()).fold(0, u64::saturating_add)
}

/// How a data set is to land, of several that have `total_bytes` together.
fn landing_options(options: &GetOptions, total_bytes: u64, plan: &Plan) -> LandingOptions {
    LandingOptions {
        existing: options.existing,
        owner: options.owner,
        attributes: options.attributes,
        fresh: options.fresh,
        other_bytes: total_bytes.saturating_sub(plan.bytes()),
    }
}

/// Whether the data of an earlier transfer is of another version. Without digests its good parts cannot be told from the
/// others.
fn is_other_version(data_set: &Found, landing: &Landing) -> bool {
    let has_digests = data_set.request.mirrors.iter().any(|mirror| mirror.server.url.is_none());
    !has_digests && !landing.resumed().changes.is_empty()
}

/// Drops the data of an earlier transfer, and begins again.
fn land_anew(
    options: &GetOptions,
    data_set: Found,
    landing: &Landing,
    stop: &Stop,
) -> Result<(Found, Landing), MoveError> {
    log::warn!("{}: it has changed since its transfer began, which begins again", data_set.request.source());
    landing.abort();
    let options = GetOptions { fresh: true, ..options.clone() };
    let (data_set, plan) = plan(&options, data_set, stop)?;
    let landing_options = landing_options(&options, plan.bytes(), &plan);
    let landing = Landing::carry_out_unless(&|| stop.is_set(), plan, landing_options)?;
    Ok((data_set, landing))
}

/// Prepares the destination for all data sets.
fn land_all(
    options: &GetOptions,
    planned: Vec<(Found, Plan)>,
    stop: &Stop,
    failures: &mut Failures,
) -> Result<(Vec<Object>, Vec<Joining>), MoveError> {
    let total_bytes = total_bytes(&planned);
    let land = |(data_set, plan): (Found, Plan)| {
        let landing_options = landing_options(options, total_bytes, &plan);
        let source = data_set.request.source();
        let landed = Landing::carry_out_unless(&|| stop.is_set(), plan, landing_options).map_err(MoveError::from);
        let landed = landed.and_then(|landing| match is_other_version(&data_set, &landing) {
            false => Ok((data_set, landing)),
            true => land_anew(options, data_set, &landing, stop),
        });
        (source, landed)
    };
    let landed = failures.keep(planned.into_iter().map(land).collect())?;
    let mut objects = Vec::new();
    let mut joinings = Vec::new();
    for (index, (data_set, landing)) in landed.into_iter().enumerate() {
        let sums = data_set.request.sums(&data_set.manifest);
        let sought = Sought {
            request: data_set.index,
            identity: data_set.identity,
            late: data_set.late,
            unheard: data_set.unheard,
            ranges: data_set.ranges,
        };
        objects.push(Object::new(data_set.request.source(), sought, landing, sums, options.manifest.is_some()));
        joinings.extend(data_set.sessions.into_iter().map(|session| Joining {
            object: index,
            session,
            probed: None,
            former: None,
        }));
    }
    Ok((objects, joinings))
}

/// The data thread: the transfer from the first request to the close of the last session. Tells what has failed of
/// several data sets.
fn run_haul(
    options: &GetOptions,
    objects: Vec<Object>,
    joinings: Vec<Joining>,
    (paths, began): (Paths, Instant),
    updates: Sender<Update>,
    stop: Stop,
) -> (Report, Result<Vec<String>, MoveError>) {
    let failed = |error| (Report::default(), Err(error));
    let mut engine = match Engine::new() {
        Ok(engine) => engine,
        Err(error) => return failed(error),
    };
    let (opener, shared, callers) = match paths {
        Paths::Dialled(opener) => (Some(opener), None, None),
        Paths::Shared(socket, callers) => (None, Some(socket), Some(callers)),
    };
    let (endpoint, joinings) = match open_ports(options, &mut engine, joinings, shared) {
        Ok(opened) => opened,
        Err(error) => return failed(error),
    };
    let begun = (endpoint, Span::from(began.elapsed()));
    let mut haul = match Haul::new(&mut engine, begun, objects, opener, options, updates, stop) {
        Ok(haul) => haul,
        Err(error) => return failed(error),
    };
    haul.policy_dial.clone_from(&options.policy_dial);
    haul.may_hold = options.receive_rate.is_some();
    haul.policy = net::policy(&options.net);
    callers.into_iter().for_each(|callers| haul.paths.expect_callers(callers));
    let result = haul
        .stream_to(options.stream.clone())
        .and_then(|()| join_all(options, &mut engine, &mut haul, joinings))
        .and_then(|()| engine.run(&mut haul))
        .and_then(|()| haul.finish_stream())
        .and_then(|()| options.manifest.as_ref().map_or(Ok(()), |path| manifest_file::write(path, &mut haul)));
    engine.hang_up();
    haul.measure(&engine);
    let mut report = report_of(&haul, &engine);
    report.first_byte_seconds = haul.first_byte.map(|at| at.duration_since(began).as_secs_f64());
    let result = result.map(|()| haul.failures());
    for object in &haul.objects {
        match object.failure.as_ref().or(result.as_ref().err()) {
            None => object.landing.conclude(),
            // None of its bytes are of the version that was wanted.
            Some(MoveError::OtherVersion { .. }) => object.landing.abort(),
            Some(_) => report.kept_bytes += object.landing.suspend(),
        }
    }
    (report, result)
}

/// What has changed in a data set since its transfer began, for people.
fn describe_changes(source: &Source, changes: &[Change]) -> Option<String> {
    let named: Vec<String> = changes.iter().take(CHANGES_NAMED_MAX).map(ToString::to_string).collect();
    let more = match changes.len().saturating_sub(CHANGES_NAMED_MAX) {
        0 => String::new(),
        more => format!(", and {more} changes more"),
    };
    let changed = "has changed since its transfer began, what is still good of it is kept:";
    (!named.is_empty()).then(|| format!("{source} {changed} {}{more}", named.join(", ")))
}

fn describe_damage(landing: &Landing, Damage { bytes, sound_bytes }: Damage) -> String {
    let target = printable(landing.target().as_os_str().as_bytes());
    format!(
        "the journal of '{target}' is damaged: {sound_bytes} of its {bytes} bytes could be read, and what it does not say is fetched again"
    )
}

/// Gives each flow its socket, or all the one that is `shared`, and makes the endpoint for all of them.
pub fn open_ports(
    options: &GetOptions,
    engine: &mut Engine,
    joinings: Vec<Joining>,
    shared: Option<Socket>,
) -> Result<(EndpointId, Vec<(Joining, PortId)>), MoveError> {
    let add_endpoint = |engine: &mut Engine, socket: &Socket| {
        net::add_endpoint(&options.net, engine, Role::Receiver, rates(options), socket)
    };
    if let Some(socket) = shared {
        let endpoint = add_endpoint(engine, &socket)?;
        let port = engine.add_port(Port::new(socket, false))?;
        return Ok((endpoint, joinings.into_iter().map(|joining| (joining, port)).collect()));
    }
    let mut endpoint = None;
    let mut ports = Vec::new();
    for mut joining in joinings {
        let (socket, probed) = joining.session.take_socket(&options.net)?;
        joining.probed = probed;
        if endpoint.is_none() {
            endpoint = Some(add_endpoint(engine, &socket)?);
        }
        ports.push((joining, engine.add_port(Port::new(socket, true))?));
    }
    let endpoint = match endpoint {
        Some(endpoint) => endpoint,
        // No mirror sends datagrams.
        None => net::add_endpoint_with(&options.net, engine, Role::Receiver, rates(options), NO_SOCKET_BYTES)?,
    };
    Ok((endpoint, ports))
}

/// What the receiver may take.
pub fn rates(options: &GetOptions) -> net::Rates {
    net::Rates { host: options.receive_rate, flow: options.rate }
}

/// Gives the endpoint its work.
fn join_all(
    options: &GetOptions,
    engine: &mut Engine,
    haul: &mut Haul,
    joinings: Vec<(Joining, PortId)>,
) -> Result<(), MoveError> {
    threads::become_data_thread(&options.net)?;
    engine.watch_thread(&options.net, true);
    haul.expect_early(joinings.iter().map(|(joining, _)| joining));
    haul.fetch_all(engine);
    for (joining, port) in joinings {
        haul.join(engine, joining, port)?;
    }
    for object in 0..haul.objects.len() {
        for mirror in std::mem::take(&mut haul.objects[object].sought.ranges) {
            haul.join_ranges(engine, object, mirror)?;
        }
    }
    Ok(())
}

fn report_of(haul: &Haul, engine: &Engine) -> Report {
    let now = engine.now();
    let sources: Vec<SourceReport> = haul
        .mirrors
        .iter()
        .map(|(&flow, mirror)| {
            SourceReport {
                address: mirror.server.to_string(),
                bytes: mirror.placed_bytes,
                active_seconds: mirror.active_seconds(now),
                loss_ratio: mirror.loss_ratio(),
                rtt_ms: known_ms(mirror.stats.rtt),
                retransmitted_bytes: mirror.stats.retransmitted_bytes,
                duplicate_bytes: mirror.stats.duplicate_bytes,
                duplicate_packets: mirror.stats.duplicate_packets,
                plaintext: mirror.plaintext,
                held_by: mirror.held_mostly().map(|held| held.name().to_owned()),
                // Its receiver has gone, so it is not needed any more.
                status: match mirror.status {
                    SourceStatus::Waiting => SourceStatus::Lost,
                    SourceStatus::Complete if mirror.different_groups > 0 => SourceStatus::Different,
                    status => status,
                },
                uncompared_bytes: haul.uncompared_bytes(flow),
                path: haul.path_of(flow, mirror, now),
                // Its rate is known when the time of the whole is.
                ..SourceReport::default()
            }
        })
        .collect();
    let of_object =
        |object: &Object| files_of(object.landing.plan(), &object.finished, (&object.sums, object.is_trusted));
    let total = |of: fn(&inhaul_transport::FlowStats) -> u64| haul.mirrors.values().map(|m| of(&m.stats)).sum();
    Report {
        bytes: haul.verified_bytes(),
        resumed_bytes: haul.resumed_bytes(),
        fetched_bytes: haul.fetched_bytes(),
        loss_ratio: loss_ratio(total(|s| s.lost_packets), total(|s| s.received_packets)),
        jain_index: haul.jain_index(),
        policy: haul.policy.map(|policy| policy.name().to_owned()),
        files: haul.objects.iter().flat_map(of_object).collect(),
        sources,
        warnings: haul.warnings.clone(),
        ..Report::default()
    }
}

/// `is_trusted`: no source had digests, so that only `sums` verify a file.
fn files_of(
    plan: &Plan,
    finished: &BTreeMap<usize, Option<digest::Hash>>,
    (sums, is_trusted): (&KnownSums, bool),
) -> Vec<FileReport> {
    let report = |(index, (entry, &fate)): (usize, (&Entry, &Fate))| {
        let hash = finished.get(&index);
        let kinds = || hash.and_then(|_| sums.get(&index)).into_iter().flatten().map(|(algorithm, _)| *algorithm);
        FileReport {
            path: plan.place(index).display().to_string(),
            path_url: path_url(plan.place(index).as_os_str().as_bytes()),
            action: fate.into(),
            bytes: entry.size,
            blake3: hash.copied().flatten().map(|hash| hash.to_hex().to_string()),
            verified: hash.is_some() && (!is_trusted || sums.contains_key(&index)),
            checksums: kinds().map(|kind| kind.name().to_owned()).collect(),
            strength: kinds().map(Algorithm::strength).max().map(|strength| strength.name().to_owned()),
        }
    };
    plan.manifest().entries().iter().zip(plan.files()).enumerate().map(report).collect()
}

/// Adds what came of the transfer itself to what was known before it.
fn take(report: &mut Report, part: Report) {
    let Report { mut sources, mut warnings, .. } = std::mem::replace(report, part);
    // One that was absent at first may have joined.
    sources.retain(|absent| report.sources.iter().all(|source| source.address != absent.address));
    report.sources.append(&mut sources);
    warnings.append(&mut report.warnings);
    report.warnings = warnings;
}
