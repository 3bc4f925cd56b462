//! `inhaul udt`: files to and from programs that use libudt.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread::Builder;
use std::time::Instant;

use clap::{Args, Subcommand};
use inhaul_base::{Span, Throughput, format_bytes};
use inhaul_mover::{ErrorKind, Stop, printable};
use inhaul_udt4::files::{self, FileError};
use inhaul_udt4::{ConnectError, Endpoint, Options, Socket, UdtError};
use serde::Serialize;

use crate::exit::{Failure, code};
use crate::options::{OUTPUT, SERVER, addresses_of, listen_address};
use crate::output::{announce, say, to_json, warn};
use crate::signals::stop_on_signals;
use crate::terminal;

pub(crate) const SEND_EXAMPLES: &str = "\
Examples:
  Offer a directory to clients of libudt:
    inhaul udt send /data --listen 0.0.0.0:9000
  Send one file to one client, and end:
    inhaul udt send /data/run7.h5 --listen 0.0.0.0:9000 --once
  What a client then runs, one of:
    recvfile THIS_HOST 9000 run7.h5 run7.h5
    inhaul udt receive THIS_HOST:9000 run7.h5 run7.h5";

pub(crate) const RECEIVE_EXAMPLES: &str = "\
Examples:
  From libudt's sendfile, or from 'inhaul udt send':
    inhaul udt receive dtn1:9000 run7.h5 /scratch/run7.h5
  For a script:
    inhaul udt receive dtn1:9000 run7.h5 /scratch/run7.h5 --json";

/// How often the display changes, in seconds.
const DRAW_SECONDS: f64 = 0.2;

/// While the command waits for clients, it looks so often whether it is to stop.
const LOOK: Span = Span::from_millis(200);

/// Clients that may wait to be accepted.
const BACKLOG: usize = 16;

/// Most clients at once, those included that have not asked for anything yet.
const CLIENTS_MAX: usize = 256;
/// Most of them from one address.
const CLIENTS_PER_HOST: usize = 32;
/// A client's request is 4 bytes and a name: these packets are more than it needs.
const REQUEST_PACKETS: usize = 16;
/// How long a client may take to say it.
const REQUEST_TIMEOUT: Span = Span::from_secs(10);
/// What waits for all clients together, in bytes.
const MEMORY_MAX: usize = 128 << 20;
/// How long a client that has ended may take to hear of it.
const LINGER: Span = Span::from_secs(5);
/// The stack of a client's thread, in bytes: it reads a file and writes it to a socket.
const STACK_BYTES: usize = 256 << 10;

/// The command line of `inhaul udt`.
#[derive(Debug, Subcommand)]
pub(crate) enum Udt {
    /// Offer a file or a directory as libudt's sendfile does; clients say which file they want
    #[command(after_help = SEND_EXAMPLES)]
    Send(Send),
    /// Fetch a file as libudt's recvfile does
    #[command(after_help = RECEIVE_EXAMPLES)]
    Receive(Receive),
}

/// The command line of `inhaul udt send`.
#[derive(Debug, Args)]
pub(crate) struct Send {
    /// The offered file, or the directory whose files are all offered. Clients get only these
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// UDP address and port to listen on. There is no encryption: anyone who reaches it can read the offered files
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:9000", value_parser = listen_address)]
    #[arg(help_heading = SERVER)]
    listen: SocketAddr,
    /// End after the first client
    #[arg(long, help_heading = SERVER)]
    once: bool,
    #[command(flatten)]
    packets: Packets,
    /// Print one JSON object for each client (docs/json.md)
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
}

/// The command line of `inhaul udt receive`.
#[derive(Debug, Args)]
pub(crate) struct Receive {
    /// The server: sendfile, or 'inhaul udt send'
    #[arg(value_name = "HOST:PORT")]
    server: String,
    /// Name of the file at the server
    #[arg(value_name = "NAME")]
    name: String,
    /// The new file here. Until all has come, it has '.partial' behind its name
    #[arg(value_name = "DEST")]
    destination: PathBuf,
    /// Replace DEST if it exists
    #[arg(long, help_heading = "File options")]
    overwrite: bool,
    #[command(flatten)]
    packets: Packets,
    /// Print one JSON object at the end (docs/json.md)
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
    /// Show no progress and no summary
    #[arg(long, short, help_heading = OUTPUT)]
    quiet: bool,
}

/// How packets are.
#[derive(Debug, Args)]
struct Packets {
    /// Largest packet, in bytes with IP and UDP headers (92 to 65535); the smaller one of both ends counts
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u16).range(92..))]
    #[arg(help_heading = "Transport options")]
    mss: u16,
}

impl Packets {
    fn options(&self) -> Options {
        Options { mss: self.mss, ..Options::default() }
    }

    /// Those of a server, which anybody may reach.
    fn of_server(&self) -> Options {
        Options {
            connections_max: CLIENTS_MAX,
            connections_per_host: CLIENTS_PER_HOST,
            receive_buffer: REQUEST_PACKETS,
            request_timeout: Some(REQUEST_TIMEOUT),
            memory_max: MEMORY_MAX,
            linger: LINGER,
            ..self.options()
        }
    }
}

/// What `--json` prints of a file.
#[derive(Debug, Serialize)]
struct Report {
    status: &'static str,
    peer: String,
    path: String,
    bytes: u64,
    seconds: f64,
    goodput_bps: f64,
    packets_sent: u64,
    packets_sent_again: u64,
    packets_received: u64,
}

impl Report {
    fn new(socket: &Socket, path: &Path, bytes: u64, began: Instant) -> Self {
        let all = Throughput::of(bytes, began.elapsed().into());
        let counts = socket.statistics().unwrap_or_default();
        Self {
            status: "complete",
            peer: socket.peer_address().to_string(),
            path: path.display().to_string(),
            bytes,
            seconds: all.seconds(),
            goodput_bps: all.bps(),
            packets_sent: counts.packets_sent,
            packets_sent_again: counts.packets_sent_again,
            packets_received: counts.packets_received,
        }
    }

    fn line(&self) -> String {
        let path = printable(self.path.as_bytes());
        format!("{path}: {}", Throughput::of(self.bytes, Span::from_secs_f64(self.seconds)))
    }

    fn tell(&self, json: bool, quiet: bool) {
        match (json, quiet) {
            (true, _) => announce(&to_json(self)),
            (false, false) => say(&self.line()),
            (false, true) => {}
        }
    }
}

pub(crate) fn run(command: &Udt) -> Result<(), Failure> {
    match command {
        Udt::Send(args) => send(args),
        Udt::Receive(args) => receive(args),
    }
}

fn send(args: &Send) -> Result<(), Failure> {
    let stop = stop_on_signals()?;
    std::fs::metadata(&args.path).map_err(|error| {
        Failure::new(code(ErrorKind::PathNotFound), format!("'{}' cannot be read: {error}", args.path.display()))
    })?;
    let endpoint = Endpoint::bind(args.listen, args.packets.of_server())?;
    let incoming = endpoint.listen(BACKLOG)?;
    if !args.json {
        say(&format!("Listening on UDP {}. Nothing is encrypted. Ctrl-C ends it.", endpoint.local_address()));
    }
    std::thread::scope(|scope| {
        while !stop.is_set() {
            let socket = match incoming.accept_within(LOOK) {
                Ok(socket) => socket,
                Err(UdtError::TimedOut) => continue,
                Err(error) => return Err(error.into()),
            };
            let stop = &stop;
            if args.once {
                return serve(&socket, args, stop);
            }
            let peer = socket.peer_address();
            let client = Builder::new().name("udt-client".to_owned()).stack_size(STACK_BYTES);
            // If no thread starts, the socket is dropped: this client's connection ends, and the others continue.
            if let Err(error) = client.spawn_scoped(scope, move || serve(&socket, args, stop)) {
                warn(&format!("{peer} is not served: cannot start a thread: {error}"));
            }
        }
        Ok(())
    })
}

/// Answers one client. Without `--once`, its failure is printed, and the command continues.
fn serve(socket: &Socket, args: &Send, stop: &Stop) -> Result<(), Failure> {
    let began = Instant::now();
    match files::answer(socket, &args.path, &mut |_, _| !stop.is_set()) {
        Ok((path, bytes)) => {
            Report::new(socket, &path, bytes, began).tell(args.json, false);
            Ok(())
        }
        Err(error) if args.once => Err(file_failure(error)),
        Err(error) => {
            let text = error.to_string();
            warn(&format!("{}: {text}", socket.peer_address()));
            Ok(())
        }
    }
}

fn receive(args: &Receive) -> Result<(), Failure> {
    let stop = stop_on_signals()?;
    let unusable = |what: &Path, error: &io::Error| {
        let kind = if error.kind() == io::ErrorKind::StorageFull { ErrorKind::NoSpace } else { ErrorKind::Destination };
        Failure::new(code(kind), format!("'{}' cannot be written: {error}", what.display()))
    };
    if !args.overwrite && args.destination.symlink_metadata().is_ok() {
        let message = format!("'{}' exists; --overwrite replaces it", args.destination.display());
        return Err(Failure::new(code(ErrorKind::Destination), message));
    }
    let server = resolve(&args.server)?;
    let any = if server.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let endpoint = Endpoint::bind(any, args.packets.options())?;
    let socket = endpoint.connect(server)?;
    let (began, partial) = (Instant::now(), partial(&args.destination));
    let mut display = Display::new(began, !args.json && !args.quiet && terminal::is_there());
    let begin = |_| OpenOptions::new().write(true).create(true).truncate(true).open(&partial).map(BufWriter::new);
    let fetched = files::fetch(&socket, &args.name, begin, &mut |done, all| {
        display.show(done, all);
        !stop.is_set()
    });
    display.end();
    let bytes = match fetched {
        Ok(bytes) => bytes,
        Err(error) => {
            // It cannot be continued: the protocol has no way to ask for the rest.
            let _ = std::fs::remove_file(&partial);
            return Err(match error {
                FileError::File(error) => unusable(&args.destination, &error),
                error => file_failure(error),
            });
        }
    };
    std::fs::rename(&partial, &args.destination).map_err(|error| unusable(&args.destination, &error))?;
    Report::new(&socket, &args.destination, bytes, began).tell(args.json, args.quiet);
    Ok(())
}

fn partial(destination: &Path) -> PathBuf {
    let mut name = destination.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

fn resolve(server: &str) -> Result<SocketAddr, Failure> {
    let usage = || Failure::usage(format!("'{server}' names no port: write '{server}:9000'"));
    let addresses = addresses_of(server).ok_or_else(usage)?;
    let unknown = |why: String| Failure::new(code(ErrorKind::HostUnknown), format!("'{server}': {why}"));
    let addresses = addresses.map_err(|error| unknown(error.to_string()))?;
    addresses.first().copied().ok_or_else(|| unknown("the name has no address".to_owned()))
}

/// The progress on a terminal.
struct Display {
    began: Instant,
    drawn: Option<f64>,
    wanted: bool,
}

impl Display {
    const fn new(began: Instant, wanted: bool) -> Self {
        Self { began, drawn: None, wanted }
    }

    fn show(&mut self, done: u64, all: u64) {
        let seconds = self.began.elapsed().as_secs_f64();
        if !self.wanted || self.drawn.is_some_and(|drawn| seconds < drawn + DRAW_SECONDS) {
            return;
        }
        self.drawn = Some(seconds);
        let percent = if all == 0 { 0 } else { u128::from(done) * 100 / u128::from(all) };
        let so_far = Throughput::of(done, Span::from_secs_f64(seconds));
        terminal::draw(|_| vec![format!("{percent:>3} %  of {}: {so_far}", format_bytes(all))]);
    }

    fn end(&self) {
        if self.drawn.is_some() {
            terminal::clear();
        }
        let _ = io::stderr().flush();
    }
}

fn file_failure(error: FileError) -> Failure {
    let kind = match error {
        FileError::Udt(error) => return error.into(),
        FileError::NotFound(_) | FileError::NotOffered(_) => ErrorKind::PathNotFound,
        FileError::Name(_) => ErrorKind::Usage,
        FileError::Protocol => ErrorKind::Refused,
        FileError::Shortened => ErrorKind::Integrity,
        FileError::File(_) => ErrorKind::PathNotFound,
        FileError::Stopped => ErrorKind::Interrupted,
    };
    let text = error.to_string();
    Failure::new(code(kind), printable(text.as_bytes()).to_string())
}

impl From<UdtError> for Failure {
    fn from(error: UdtError) -> Self {
        let kind = match &error {
            UdtError::Bind(_) => ErrorKind::Unreachable,
            UdtError::Connect(ConnectError::TimedOut) | UdtError::TimedOut => ErrorKind::TimedOut,
            UdtError::Connect(_) | UdtError::Peer => ErrorKind::Refused,
            UdtError::Ended(_) => ErrorKind::Unreachable,
            _ => ErrorKind::Internal,
        };
        Self::new(code(kind), error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_has_the_documented_fields() {
        let report = Report {
            status: "complete",
            peer: "192.0.2.1:9000".to_owned(),
            path: "x".to_owned(),
            bytes: 1_000_000,
            seconds: 2.0,
            goodput_bps: 4e6,
            packets_sent: 0,
            packets_sent_again: 0,
            packets_received: 687,
        };
        crate::documented::assert_documented("The files of udt", &report);
        assert_eq!(report.line(), "x: 1.0 MB in 2.00 s: 4.0 Mbit/s");
    }

    #[test]
    fn resolve_says_what_is_missing() {
        assert_eq!(resolve("127.0.0.1:9000").unwrap(), ([127, 0, 0, 1], 9000).into());
        assert!(resolve("127.0.0.1").is_err() && resolve("127.0.0.1:x").is_err());
    }
}
