//! Whole data sets, to and from files.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use inhaul_base::Span;
use inhaul_mover::{
    Destination, Existing, Filter, GetOptions, Known, MoveError, Part, Policy, PolicyDial, Progress, PutOptions,
    ReadOptions, Report, Request, Rule, Stop, Update,
};

/// A transfer to or from files, on a thread of its own. Dropping it ends it; verified data stays, and the same call
/// continues from there.
#[derive(Debug)]
pub struct Transfer {
    stop: Stop,
    policy: PolicyDial,
    updates: Receiver<Update>,
    thread: Option<JoinHandle<(Report, Result<(), MoveError>)>>,
}

impl Transfer {
    fn start(
        policy: PolicyDial,
        run: impl FnOnce(&Stop, &mut dyn FnMut(Update)) -> (Report, Result<(), MoveError>) + Send + 'static,
    ) -> Result<Self, MoveError> {
        let stop = Stop::new();
        let (sender, updates) = channel();
        let flag = stop.clone();
        let work = move || run(&flag, &mut |update| drop(sender.send(update)));
        let failed = |source| MoveError::System { what: "cannot start a thread", source };
        let thread = std::thread::Builder::new().name("inhaul-transfer".to_owned()).spawn(work).map_err(failed)?;
        Ok(Self { stop, policy, updates, thread: Some(thread) })
    }

    /// Waits for the next word of it, several times a second; `None` when it has ended. Warnings go to the `log` crate.
    pub fn progress(&self) -> Option<Progress> {
        loop {
            match self.updates.recv().ok()? {
                Update::Progress(progress) => return Some(progress),
                Update::Warning(text) => log::warn!("{text}"),
            }
        }
    }

    /// Ends it now. [`Transfer::join`] returns the result.
    pub fn cancel(&self) {
        self.stop.stop();
    }

    /// What ends it when it is set, from any thread, as [`Transfer::cancel`] does.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Changes how much it takes beside others' traffic while it runs. Where that cannot be, it goes on as before and
    /// warns: another transport than `gtp`, [`Policy::Fixed`] without a receive rate, and a put, whose rate is the
    /// server's.
    pub fn set_policy(&self, policy: Policy) {
        self.policy.set(policy);
    }

    /// The dial behind [`Transfer::set_policy`], for another thread.
    pub fn policy(&self) -> PolicyDial {
        self.policy.clone()
    }

    /// Waits for its end: the report, and the result.
    pub fn join(mut self) -> (Report, Result<(), MoveError>) {
        let died = || (Report::default(), Err(MoveError::Internal("the thread of a transfer has died".to_owned())));
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_else(died)
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.stop.stop();
            let _ = thread.join();
        }
    }
}

/// Options of a get to start. The defaults are those of the command line.
#[derive(Clone, Debug)]
#[must_use = "nothing happens before it is started"]
pub struct GetBuilder {
    options: GetOptions,
    rules: Vec<Rule>,
}

impl GetBuilder {
    pub(crate) fn new(of: &ReadOptions, requests: Vec<Request>, destination: PathBuf) -> Self {
        let options = GetOptions {
            receive_rate: of.receive_rate,
            rate: of.rate,
            retry_for: of.retry_for,
            net: of.net.clone(),
            ..GetOptions::new(requests, destination)
        };
        Self { options, rules: Vec::new() }
    }

    /// Only files that match this pattern, or another that is included.
    pub fn include(mut self, pattern: &str) -> Self {
        self.rules.push(Rule::Include(pattern.to_owned()));
        self
    }

    /// Only these files of each data set, by their paths in it. It is an error if one of them is not there.
    pub fn only<P: Into<Vec<u8>>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        let files: BTreeMap<_, _> = paths.into_iter().map(|path| (path.into(), Known::default())).collect();
        self.options.requests.iter_mut().for_each(|request| request.part = Part::Listed(files.clone()));
        self
    }

    /// No files that match this pattern.
    pub fn exclude(mut self, pattern: &str) -> Self {
        self.rules.push(Rule::Exclude(pattern.to_owned()));
        self
    }

    /// What happens to files that exist and differ.
    pub fn existing(mut self, existing: Existing) -> Self {
        self.options.existing = existing;
        self
    }

    /// Existing files are compared by their bytes, and not by size and time.
    pub fn checksum(mut self) -> Self {
        self.options.checksum = true;
        self
    }

    /// Nothing is fetched: the report says what would be fetched.
    pub fn dry_run(mut self) -> Self {
        self.options.dry_run = true;
        self
    }

    /// How long is waited for servers that are not there just now.
    pub fn retry_for(mut self, patience: Duration) -> Self {
        self.options.retry_for = span(patience);
        self
    }

    /// A dial that changes its policy while it runs, in the place of [`Transfer::policy`].
    pub fn policy_dial(mut self, dial: PolicyDial) -> Self {
        self.options.policy_dial = Some(dial);
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// If a pattern is malformed, or the system has no thread.
    pub fn start(mut self) -> Result<Transfer, MoveError> {
        self.options.filter = Filter::new(&self.rules).map_err(|error| MoveError::Usage(error.to_string()))?;
        let policy = self.options.policy_dial.get_or_insert_default().clone();
        Transfer::start(policy, move |stop, hear| inhaul_mover::get(&self.options, stop, hear))
    }
}

/// Options of a put to start.
#[derive(Clone, Debug)]
#[must_use = "nothing happens before it is started"]
pub struct PutBuilder {
    options: PutOptions,
}

impl PutBuilder {
    pub(crate) fn new(of: &ReadOptions, paths: Vec<PathBuf>, destination: Destination) -> Self {
        let options = PutOptions {
            paths,
            destination,
            rules: Vec::new(),
            existing: Existing::default(),
            attributes: false,
            dry_run: false,
            fresh: false,
            rate: of.rate,
            retry_for: of.retry_for,
            cache: None,
            net: of.net.clone(),
        };
        Self { options }
    }

    /// What happens to files that exist there and differ.
    pub fn existing(mut self, existing: Existing) -> Self {
        self.options.existing = existing;
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// When the system has no thread.
    pub fn start(self) -> Result<Transfer, MoveError> {
        Transfer::start(PolicyDial::default(), move |stop, hear| inhaul_mover::put(&self.options, stop, hear))
    }
}

fn span(duration: Duration) -> Span {
    Span::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
