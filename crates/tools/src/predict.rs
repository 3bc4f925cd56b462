//! `plan`: predicts how long a transfer would take, and what would limit it. No file lands.
//!
//! The data sets are looked up as by `get`. A short trial fetches their own bytes and throws them away. It shows what
//! the servers, the path and this processor achieve together. Further tests write a file to the disk, make and remove
//! names, and hash memory. A transfer does all of these at once, so the slowest one determines its time.

mod disk;
mod trial;
mod wanted;

use std::time::{Duration, Instant};

use inhaul_base::{Bitrate, Span};
use inhaul_store::digest::{GROUP_BYTES, group_digest};
use inhaul_store::{Plan, printable};
use inhaul_transport::{Conditions, EndpointConfig, Role};
use serde::Serialize;

use self::trial::Trial;
use self::wanted::Wanted;
use inhaul_engine::engine::net;
use inhaul_haul::haul::get::{self, Failures, Found};
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::{GetOptions, NetOptions, Stop};
use inhaul_session::api::report::ErrorReport;
use inhaul_sources::opener::Opener;

/// How long memory is hashed.
const HASHING: Duration = Duration::from_millis(100);
/// How sure a prediction is at the least: transfers that are the same differ by so much from one another.
const SPREAD_MIN: f64 = 0.03;
/// A limit under which the transfer would take so much less time is far from being one.
const FAR: f64 = 100.0;

/// What a transfer would come to. Serialised, it is the object that `docs/json.md` documents. What is not known,
/// because an error came first, is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Prediction {
    /// How long it would take, from the start of the program to its end, in seconds.
    pub seconds: Option<f64>,
    /// The least that it may well take.
    pub seconds_low: Option<f64>,
    /// The most that it may well take.
    pub seconds_high: Option<f64>,
    /// What holds it back: the first of `limits`, by its name. `None` also where there is nothing to fetch.
    pub limit: Option<&'static str>,
    /// Bytes that would come.
    pub bytes: Option<u64>,
    /// Files that would land.
    pub files: Option<usize>,
    /// Files that stay as they are.
    pub files_kept: Option<usize>,
    /// From the start to the first byte, in seconds.
    pub setup_seconds: Option<f64>,
    /// How long the transport's own model says that it would take, if it has one, from the same start on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// What may hold it back, the slowest first.
    pub limits: Vec<Limit>,
    /// What else should be known.
    pub warnings: Vec<String>,
    /// Why nothing can be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorReport>,
}

/// What a transport's model says, for what the trial has met.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Model {
    /// How long the transfer would take, from the start of the program to its end, in seconds.
    pub seconds: f64,
    /// The round-trip time that was measured, in seconds.
    pub rtt_seconds: f64,
    /// The part of the data packets that was lost in the trial.
    pub loss_ratio: f64,
}

/// One of the things that may hold a transfer back.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Limit {
    /// `path`, `processor`, `processors`, `disk`, `hashing` or `files`.
    pub name: &'static str,
    /// How long the transfer would take if there were no other limit, without its set-up, in seconds.
    pub seconds: f64,
    /// The rate that this would allow, in bits per second; `None` where it is far from being a limit.
    pub allows_bps: Option<f64>,
}

/// Predicts what `options` would come to. Nothing lands; at the destination a file without a name and a directory of
/// small ones are written for a moment.
///
/// # Errors
/// What a transfer would fail with at its start.
pub fn predict(options: &GetOptions, stop: &Stop) -> (Prediction, Result<(), MoveError>) {
    let mut prediction = Prediction::default();
    let result = work_out(options, stop, &mut prediction);
    prediction.error = result.as_ref().err().map(Into::into);
    (prediction, result)
}

fn work_out(options: &GetOptions, stop: &Stop, prediction: &mut Prediction) -> Result<(), MoveError> {
    net::check(&options.net, get::rates(options))?;
    let began = Instant::now();
    let mut failures = Failures::default();
    let opener = Opener::new(options, 0);
    let found = failures.keep(get::find_all(options, &opener, stop, &mut |_| {})?)?;
    // A prediction is made of who is there now.
    drop(opener);
    prediction.warnings.extend(found.iter().flat_map(Found::warnings));
    prediction.warnings.extend(get::unmatched(options, &found));
    let _created = get::CreatedDirectories::prepare(options, &found)?;
    let planned = found.into_iter().map(|data_set| (data_set.request.source(), get::plan(options, data_set, stop)));
    let planned = failures.keep(planned.collect())?;
    for (_, plan) in &planned {
        failures.note_unreadable(plan);
    }
    let rehearsed = get::rehearse(options, planned).into_iter().map(|(_, outcome)| outcome);
    let planned = rehearsed.collect::<Result<Vec<_>, _>>()?;
    prediction.warnings.extend(failures.into_texts());
    let looked = began.elapsed();
    let plans = || planned.iter().map(|(_, plan)| plan);
    let wanted = Wanted::of(plans());
    prediction.bytes = Some(wanted.bytes);
    (prediction.files, prediction.files_kept) = (Some(wanted.files), Some(wanted.files_kept));

    let place = plans().next().map(Plan::target).unwrap_or_default();
    let disk = disk::measure(&place, &wanted).map_err(|error| MoveError::Destination {
        detail: format!("'{}' cannot be tried: {error}; choose another destination", printable_path(&place)),
    })?;
    let hashed = hashing();
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let trial = if wanted.bytes > 0 { trial::run(options, planned, stop)? } else { Trial::default() };
    prediction.limits = limits(&wanted, &trial, &disk, hashed, processors);
    let setup_seconds = looked.as_secs_f64() + trial.opening.as_secs_f64();
    prediction.settle(setup_seconds, wanted.bytes, &trial);
    prediction.model = trial
        .conditions
        .and_then(|met| model(&options.net, get::rates(options), &Conditions { bytes: wanted.bytes, ..met }));
    if let Some(model) = &mut prediction.model {
        // The trial's first byte came a round trip after it was asked for, which the model counts, too.
        model.seconds += (setup_seconds - model.rtt_seconds).max(0.0);
    }
    Ok(())
}

/// What the transport's model says of such a transfer, without set-up.
fn model(options: &NetOptions, rates: net::Rates, met: &Conditions) -> Option<Model> {
    let predict = options.protocols.find(&options.transport)?.predict?;
    let config = EndpointConfig {
        host_rate: rates.host,
        flow_rate: rates.flow,
        parameters: options.parameters.clone(),
        ..EndpointConfig::new(Role::Receiver, 0)
    };
    let seconds = predict(&config, met)?.as_secs_f64();
    Some(Model { seconds, rtt_seconds: met.rtt.as_secs_f64(), loss_ratio: met.loss.get() })
}

fn printable_path(path: &std::path::Path) -> String {
    printable(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()))
}

/// Bytes that one processor hashes in a second, a group at a time as transfers do.
fn hashing() -> f64 {
    let group = vec![0x5A; GROUP_BYTES as usize];
    let began = Instant::now();
    let mut groups = 0;
    while began.elapsed() < HASHING {
        std::hint::black_box(group_digest(GROUP_BYTES * 2, 0, &group));
        groups += 1;
    }
    (groups * GROUP_BYTES) as f64 / began.elapsed().as_secs_f64()
}

/// How long each of the limits alone would have the transfer take, the longest first.
fn limits(wanted: &Wanted, trial: &Trial, disk: &disk::Measured, hashed: f64, processors: usize) -> Vec<Limit> {
    let (bytes, files) = (wanted.bytes as f64, wanted.files as f64);
    let hashing = bytes / hashed;
    let receiving = trial.cpu_seconds_per_byte * bytes;
    let writing = disk.cpu_seconds_per_byte * bytes + disk.cpu_seconds_per_file * files;
    let named = [
        ("path", trial.seconds_for(wanted.bytes)),
        ("processor", receiving),
        ("processors", (receiving + hashing + writing) / processors as f64),
        ("disk", bytes / disk.bytes_per_second),
        ("hashing", hashing),
        ("files", disk.seconds_per_file * files),
    ];
    let mut limits: Vec<Limit> =
        named.into_iter().map(|(name, seconds)| Limit { name, seconds, allows_bps: None }).collect();
    limits.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    limits
}

impl Prediction {
    /// The time, from the limits.
    fn settle(&mut self, setup_seconds: f64, bytes: u64, trial: &Trial) {
        let slowest = self.limits.first().map_or(0.0, |limit| limit.seconds);
        // The second limit comes on top where the two cannot go on side by side.
        let second = self.limits.get(1).map_or(0.0, |limit| limit.seconds);
        // Only what the trial has seen of the path's ups and downs is known; the others were measured once.
        let spread = trial.spread.max(SPREAD_MIN);
        self.limit = self.limits.first().filter(|_| slowest > 0.0).map(|limit| limit.name);
        self.setup_seconds = Some(setup_seconds);
        self.seconds = Some(setup_seconds + slowest);
        self.seconds_low = Some(setup_seconds + slowest * (1.0 - spread).max(0.0));
        self.seconds_high = Some(setup_seconds + (slowest * (1.0 + spread)).max(slowest + second * 0.25));
        for limit in &mut self.limits {
            let is_near = bytes > 0 && limit.seconds * FAR >= slowest;
            limit.allows_bps = is_near.then(|| Bitrate::of(bytes, Span::from_secs_f64(limit.seconds)).as_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_the_slowest_says_how_long_it_takes() {
        let wanted = Wanted { bytes: 1_000_000_000, files: 100, files_kept: 0 };
        let disk = disk::Measured {
            bytes_per_second: 5e8,
            seconds_per_file: 1e-3,
            cpu_seconds_per_byte: 1e-9,
            cpu_seconds_per_file: 5e-3,
        };
        let trial = Trial {
            opening: Duration::from_millis(500),
            bytes: 50_000_000,
            seconds: 1.0,
            steady_bytes_per_second: 1e8,
            cpu_seconds_per_byte: 1e-9,
            spread: 0.1,
            conditions: None,
        };
        let mut prediction = Prediction { limits: limits(&wanted, &trial, &disk, 1e9, 2), ..Prediction::default() };
        prediction.settle(0.5, wanted.bytes, &trial);
        // A second for the first 50 MB, and 9.5 for the rest.
        assert_eq!((prediction.limit, prediction.seconds), (Some("path"), Some(11.0)));
        assert!((prediction.seconds_low.unwrap() - 9.95).abs() < 1e-9, "{prediction:?}");
        assert!((prediction.seconds_high.unwrap() - 12.05).abs() < 1e-9, "{prediction:?}");
        let names: Vec<_> = prediction.limits.iter().map(|limit| limit.name).collect();
        assert_eq!(names, ["path", "disk", "processors", "processor", "hashing", "files"]);
        assert!((prediction.limits[1].allows_bps.unwrap() - 4e9).abs() < 1.0, "{prediction:?}");
        // A second each to receive, to verify and to write, and half a one for the files, by two processors.
        assert!((prediction.limits[2].seconds - 1.75).abs() < 1e-9, "{prediction:?}");
    }

    #[test]
    fn model_is_that_of_the_transport_and_most_have_none() {
        let mut options = NetOptions::default();
        let rates = net::Rates { host: None, flow: Some(Bitrate::from_gbps(1)) };
        let path = inhaul_transport::PathSpec::clear(1500, std::net::Ipv4Addr::LOCALHOST.into());
        let (rtt, loss) = (Span::from_millis(100), inhaul_base::Probability::ZERO);
        let met = Conditions { bytes: 1_000_000_000, flows: 1, rtt, loss, path };
        assert_eq!(model(&options, rates, &met), None);
        options.transport = "rbudp".to_owned();
        let said = model(&options, rates, &met).unwrap();
        // 1 GB in packets of which 1448 of 1500 bytes are data, and a round trip.
        assert!((said.seconds - 8.387).abs() < 0.001, "{said:?}");
        assert_eq!((said.rtt_seconds, said.loss_ratio), (0.1, 0.0));
    }

    #[test]
    fn what_is_not_known_is_null_and_so_is_a_limit_that_is_far() {
        let limit = |name, seconds| Limit { name, seconds, allows_bps: None };
        let mut prediction = Prediction {
            limits: vec![limit("path", 10.0), limit("disk", 0.11), limit("files", 0.0)],
            ..Prediction::default()
        };
        let json = |prediction: &Prediction| serde_json::to_value(prediction).unwrap();
        for field in
            ["seconds", "seconds_low", "seconds_high", "limit", "bytes", "files", "files_kept", "setup_seconds"]
        {
            assert!(json(&prediction)[field].is_null(), "{field}");
        }
        prediction.settle(0.5, 1_000_000, &Trial::default());
        let known = json(&prediction);
        assert_eq!(known["limits"][0]["allows_bps"], 8e5);
        assert!(known["limits"][1]["allows_bps"].is_f64() && known["limits"][2]["allows_bps"].is_null(), "{known}");
        // Nothing is to be fetched.
        let mut nothing = Prediction { limits: vec![limit("path", 0.0)], ..Prediction::default() };
        nothing.settle(0.5, 0, &Trial::default());
        assert_eq!((nothing.limit, nothing.seconds, nothing.limits[0].allows_bps), (None, Some(0.5), None));
    }
}
