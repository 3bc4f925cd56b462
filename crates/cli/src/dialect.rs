//! Options of other programs, read by the program whose name stands in the line. The same letter means a directory to
//! wget, a port to scp and a progress bar to rsync; and the value of an unknown option would look like a source. Each
//! option becomes one unambiguous word: one of ours, or one of [`crate::foreign`].

use crate::options;

/// What becomes of an option, and of its value if it has one.
#[derive(Clone, Copy)]
enum Means {
    /// Nothing: it has no counterpart, or is always so.
    Nothing,
    /// This long option, with the same value.
    Long(&'static str),
    /// The value is a place.
    Place,
    /// The value is the data to send to the address.
    Upload,
    /// Nothing is fetched; it only looks.
    Look,
    /// The value is a rate in kbit/s.
    Kilobits,
    /// The value is a command of ssh, which may have a port in it.
    Ssh,
}

use Means::{Kilobits, Long, Look, Nothing, Place, Ssh, Upload};

/// Spellings of options, whether they have a value, and their meaning.
type Entry = (&'static [&'static str], bool, Means);

/// A program, by its names.
pub(crate) struct Dialect {
    programs: &'static [&'static str],
    entries: &'static [Entry],
    /// All places are sources, and the destination is an option, or this directory.
    fetches: bool,
}

/// A line in our words.
pub(crate) struct Translated {
    /// The command, if the options say which one it is.
    pub(crate) command: Option<&'static str>,
    pub(crate) words: Vec<String>,
}

#[rustfmt::skip]
const CURL: &[Entry] = &[
    (&["-o", "--output"], true, Long("--output")),
    (&["--output-dir"], true, Long("--output-dir")),
    (&["-x", "--proxy", "--socks5", "--socks5-hostname"], true, Long("--proxy")),
    (&["--limit-rate"], true, Long("--limit-rate")),
    (&["--url"], true, Place),
    (&["-T", "--upload-file"], true, Upload),
    (&["-I", "--head"], false, Look),
    (&["-k", "--insecure"], false, Long("--insecure")),
    (&["-s", "--silent"], false, Long("--silent")),
    (&["-r", "--range"], true, Long("--range")),
    (&[
        "-A", "--user-agent", "-b", "--cookie", "-c", "--cookie-jar", "-C", "--continue-at", "-d", "--data",
        "--data-raw", "--data-binary", "--data-urlencode", "--json", "-D", "--dump-header", "-e", "--referer", "-E",
        "--cert", "-F", "--form", "-H", "--header", "-K", "--config", "-m", "--max-time", "-P", "--ftp-port", "-Q",
        "--quote", "-t", "--telnet-option", "-u", "--user", "-U", "--proxy-user", "-w", "--write-out", "-X",
        "--request", "-y", "--speed-time", "-Y", "--speed-limit", "--retry", "--retry-delay", "--retry-max-time",
        "--connect-timeout", "--cacert", "--capath", "--key", "--cert-type", "--pass", "--resolve", "--connect-to",
        "--interface", "--noproxy", "--oauth2-bearer", "--stderr", "--trace", "--trace-ascii", "--max-redirs",
        "--ciphers", "--tls-max", "--dns-servers", "--keepalive-time", "--max-filesize", "--parallel-max",
        "-h", "-z", "--time-cond",
    ], true, Nothing),
    (&[
        "-f", "--fail", "--fail-with-body", "-S", "--show-error", "-L", "--location", "-O", "--remote-name",
        "--remote-name-all", "-J", "--remote-header-name", "-R", "--remote-time", "-#", "--progress-bar", "-g",
        "--globoff", "-N", "--no-buffer", "-n", "--netrc", "-4", "--ipv4", "-6", "--ipv6", "-i", "--include", "-G",
        "--get", "-l", "-j", "-p", "-q", "-Z", "--parallel", "-a", "--append", "-B", "-0", "-1", "-2", "-3",
        "--compressed", "--create-dirs", "--http1.0", "--http1.1", "--http2", "--http3", "--tlsv1.2", "--tlsv1.3",
        "--ssl", "--ssl-reqd", "--tcp-nodelay", "--no-keepalive", "--no-progress-meter",
        "--retry-all-errors", "--retry-connrefused", "--location-trusted", "--anyauth", "--basic", "--digest",
        "--negotiate",
    ], false, Nothing),
];

#[rustfmt::skip]
const WGET: &[Entry] = &[
    (&["-O", "--output-document"], true, Long("--output-document")),
    (&["-P", "--directory-prefix"], true, Long("--directory-prefix")),
    (&["-i", "--input-file"], true, Long("--input-file")),
    (&["-A", "--accept"], true, Long("--accept")),
    (&["-R", "--reject"], true, Long("--reject")),
    (&["--limit-rate"], true, Long("--limit-rate")),
    (&["-nc", "--no-clobber"], false, Long("--no-clobber")),
    (&["-N", "--timestamping"], false, Long("--timestamping")),
    (&["-nv", "--no-verbose"], false, Long("--no-verbose")),
    (&["--spider"], false, Look),
    (&[
        "-o", "--output-file", "-a", "--append-output", "-B", "--base", "-D", "--domains", "-e", "--execute", "-I",
        "--include-directories", "-l", "--level", "-Q", "--quota", "-t", "--tries", "-T", "--timeout", "-U",
        "--user-agent", "-w", "--wait", "-X", "--exclude-directories", "--header", "--user", "--password",
        "--http-user", "--http-password", "--proxy-user", "--proxy-password", "--post-data", "--post-file",
        "--referer", "--ca-certificate", "--ca-directory", "--certificate", "--private-key", "--cut-dirs",
        "--bind-address", "--dns-timeout", "--connect-timeout", "--read-timeout", "--waitretry", "--load-cookies",
        "--save-cookies", "--progress", "--config", "--secure-protocol", "--restrict-file-names", "--max-redirect",
    ], true, Nothing),
    (&[
        "-nd", "-nH", "-np", "-r", "-m", "-k", "-K", "-p", "-c", "-x", "-S", "-E", "-L", "-H", "-b", "-d", "-F", "-4",
        "-6", "--recursive", "--mirror", "--continue", "--no-parent", "--no-directories", "--no-host-directories",
        "--force-directories", "--convert-links", "--page-requisites", "--server-response", "--background",
        "--show-progress", "--content-disposition", "--trust-server-names", "--no-proxy", "--no-cache",
        "--no-cookies", "--no-hsts", "--no-dns-cache", "--inet4-only", "--inet6-only", "--auth-no-challenge",
    ], false, Nothing),
];

#[rustfmt::skip]
const ARIA2: &[Entry] = &[
    (&["-d", "--dir"], true, Long("--dir")),
    (&["-o", "--out"], true, Long("--out")),
    (&["-i", "--input-file"], true, Long("--input-file")),
    (&["-M", "--metalink-file"], true, Long("--metalink")),
    (&["--all-proxy", "--http-proxy", "--https-proxy"], true, Long("--proxy")),
    (&["--max-download-limit"], true, Long("--max-download-limit")),
    (&["--max-overall-download-limit"], true, Long("--max-overall-download-limit")),
    (&[
        "-x", "--max-connection-per-server", "-s", "--split", "-j", "--max-concurrent-downloads", "-k",
        "--min-split-size", "-m", "--max-tries", "-t", "--timeout", "-l", "--log", "-U", "--user-agent", "-T",
        "--torrent-file", "-u", "--max-upload-limit", "--header", "--referer", "--http-user", "--http-passwd",
        "--ftp-user", "--ftp-passwd", "--load-cookies", "--save-cookies", "--file-allocation", "--summary-interval",
        "--log-level", "--console-log-level", "--connect-timeout", "--retry-wait", "--conf-path", "--piece-length",
        "--lowest-speed-limit", "--ca-certificate", "--interface", "--disk-cache", "--stream-piece-selector",
    ], true, Nothing),
    (&["-c", "-V", "-Z", "-n", "-P", "-R", "-D", "-a"], false, Nothing),
];

#[rustfmt::skip]
const RSYNC: &[Entry] = &[
    (&["-e", "--rsh"], true, Ssh),
    (&["-f", "--filter"], true, Long("--filter")),
    (&["--files-from"], true, Long("--files-from")),
    (&["--include-from"], true, Long("--include-from")),
    (&["--link-dest"], true, Long("--link-dest")),
    (&["--compare-dest"], true, Long("--compare-dest")),
    (&["--copy-dest"], true, Long("--copy-dest")),
    (&["--backup-dir"], true, Long("--backup-dir")),
    (&["--max-size"], true, Long("--max-size")),
    (&["--min-size"], true, Long("--min-size")),
    (&["--bwlimit"], true, Long("--bwlimit")),
    (&["--port"], true, Long("--port")),
    (&["-u", "--update"], false, Long("--update")),
    (&["-o", "-g", "--group", "--owner"], false, Long("--group")),
    (&["-I", "--ignore-times"], false, Long("--ignore-times")),
    (&["-c", "--checksum"], false, Long("--checksum")),
    (&[
        "-B", "--block-size", "-M", "--remote-option", "-T", "--temp-dir", "--timeout", "--contimeout",
        "--compress-level", "--compress-choice", "--zc", "--checksum-choice", "--cc", "--checksum-seed", "--info",
        "--debug", "--log-file", "--log-file-format", "--out-format", "--partial-dir", "--suffix", "--chmod",
        "--password-file", "--rsync-path", "--skip-compress", "--iconv", "--protocol", "--sockopts", "--address",
        "--stop-after", "--stop-at", "--outbuf", "--modify-window", "-@", "--usermap", "--groupmap", "--chown",
        "--max-alloc", "--max-delete", "--early-input",
    ], true, Nothing),
    (&[
        "-a", "-r", "-l", "-p", "-t", "-D", "-S", "-H", "-A", "-U", "-z", "-P", "-h", "-W", "-i", "-F", "-m", "-b",
        "-y", "-C", "-d", "-k", "-K", "-L", "-O", "-J", "-R", "-s", "-E", "-N", "-x", "-4", "-6", "-0", "-8",
        "--force", "--progress", "--whole-file", "--one-file-system", "--itemize-changes", "--relative", "--no-motd",
    ], false, Nothing),
];

#[rustfmt::skip]
const SCP: &[Entry] = &[
    (&["-P"], true, Long("--port")),
    (&["-l"], true, Kilobits),
    (&["-i", "-F", "-o", "-c", "-J", "-S", "-D", "-X"], true, Nothing),
    (&["-r", "-p", "-C", "-1", "-2", "-3", "-4", "-6", "-A", "-B", "-O", "-R", "-s", "-T", "-N"], false, Nothing),
];

#[rustfmt::skip]
const RCLONE: &[Entry] = &[
    (&["--bwlimit"], true, Long("--bwlimit")),
    (&["-u", "--update"], false, Long("--update")),
    (&["-I", "--ignore-times"], false, Long("--ignore-times")),
    (&[
        "--transfers", "--checkers", "--multi-thread-streams", "--multi-thread-cutoff", "--multi-thread-chunk-size",
        "--buffer-size", "--retries", "--retries-sleep", "--low-level-retries", "--timeout", "--contimeout",
        "--stats", "--log-level", "--log-file", "--user-agent", "--config", "--tpslimit", "--modify-window",
        "--header", "--bind", "--max-duration",
    ], true, Nothing),
    (&["-P", "--progress", "-L", "-l", "-M", "--fast-list", "--stats-one-line", "--metadata"], false, Nothing),
];

// Here, a number behind -p is that of streams, and one behind -P is that of seconds.
#[rustfmt::skip]
const GRIDFTP: &[Entry] = &[
    (&[
        "-p", "-P", "-tcp-bs", "-tcp-buffer-size", "-bs", "-block-size", "-cc", "-concurrency", "-w", "-S", "-T", "-Z",
    ], true, Nothing),
    (&["-vb", "-fast", "-cd", "-create-dest", "-r", "-rst", "-sync", "-dcpriv", "-nodcau", "-a", "-f", "-k"], false,
        Nothing),
    (&["-s"], true, Nothing),
];

#[rustfmt::skip]
const IPERF: &[Entry] = &[
    (&["-p", "--port"], true, Long("--port")),
    (&["-C", "--congestion"], true, Long("--congestion")),
    (&[
        "-f", "--format", "-i", "--interval", "-T", "--title", "--logfile", "-O", "--omit", "-w", "--window", "-l",
        "--length", "-L", "--flowlabel", "-S", "--tos", "--dscp", "-k", "--blockcount", "--cport", "-F", "--file",
        "-I", "--pidfile", "--connect-timeout", "--rcv-timeout", "-B", "--bind",
    ], true, Nothing),
    (&["-u", "--udp", "-Z", "--zerocopy", "-N", "--no-delay", "-V", "--verbose", "-4", "-6", "--forceflush",
       "--get-server-output"], false, Nothing),
];

const DIALECTS: &[Dialect] = &[
    Dialect { programs: &["curl"], entries: CURL, fetches: true },
    Dialect { programs: &["wget", "wget2"], entries: WGET, fetches: true },
    Dialect { programs: &["aria2c", "aria2"], entries: ARIA2, fetches: true },
    Dialect { programs: &["rsync"], entries: RSYNC, fetches: false },
    Dialect { programs: &["scp", "sftp"], entries: SCP, fetches: false },
    Dialect { programs: &["rclone", "sync", "copyto", "move"], entries: RCLONE, fetches: false },
    Dialect { programs: &["bbcp", "globus-url-copy"], entries: GRIDFTP, fetches: false },
    Dialect { programs: &["iperf", "iperf3"], entries: IPERF, fetches: false },
];

/// The options of the program of this name.
pub(crate) fn of(program: &str) -> Option<&'static Dialect> {
    DIALECTS.iter().find(|dialect| dialect.programs.contains(&program))
}

impl Dialect {
    fn entry(&self, option: &str) -> Option<&'static Entry> {
        self.entries.iter().find(|(names, ..)| names.contains(&option))
    }

    /// The words behind the program's name, translated to ours. Unknown words stay as they are.
    pub(crate) fn translate(&self, words: &[String]) -> Translated {
        let mut line = Line::default();
        let mut rest = words.iter().cloned();
        while let Some(word) = rest.next() {
            if word == "--" {
                line.words.extend(rest.by_ref());
            } else if !word.starts_with('-') || word == "-" {
                line.place(word);
            } else if let Some(&(_, has_value, means)) = self.entry(&word) {
                line.option(means, if has_value { rest.next() } else { None });
            } else if word.starts_with("--") {
                self.long(&word, &mut line);
            } else {
                self.letters(&word, &mut rest, &mut line);
            }
        }
        line.finish(self.fetches)
    }

    /// `--option=value`.
    fn long(&self, word: &str, line: &mut Line) {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value.to_owned())));
        match self.entry(name) {
            Some(&(_, _, means)) => line.option(means, value),
            None => line.words.push(word.to_owned()),
        }
    }

    /// `-abc`, `-avalue`: letters; the last one may have a value.
    fn letters(&self, word: &str, rest: &mut impl Iterator<Item = String>, line: &mut Line) {
        let mut left = String::new();
        for (at, letter) in word.char_indices().skip(1) {
            match self.entry(&format!("-{letter}")) {
                Some(&(_, true, means)) => {
                    let behind = &word[at + letter.len_utf8()..];
                    let value = if behind.is_empty() { rest.next() } else { Some(behind.to_owned()) };
                    line.option(means, value);
                    break;
                }
                Some(&(_, false, means)) => line.option(means, None),
                None if letter.is_ascii_digit() || letter == '=' => {
                    // The value of a letter that is not known.
                    left.push_str(&word[at..]);
                    break;
                }
                None => left.push(letter),
            }
        }
        if !left.is_empty() {
            line.words.push(format!("-{left}"));
        }
    }
}

/// The result of translating a line.
#[derive(Default)]
struct Line {
    words: Vec<String>,
    /// The places in `words` of words that are no part of an option.
    places: Vec<usize>,
    uploads: Vec<String>,
    looks: bool,
    /// An option names the destination.
    has_destination: bool,
}

impl Line {
    fn place(&mut self, word: String) {
        self.places.push(self.words.len());
        self.words.push(word);
    }

    fn option(&mut self, means: Means, value: Option<String>) {
        match (means, value) {
            (Long(name), None) => self.words.push(name.to_owned()),
            (Long(name), Some(value)) => {
                self.has_destination |= ["--output", "--output-document", "--out"].contains(&name)
                    || ["--output-dir", "--directory-prefix", "--dir"].contains(&name);
                self.words.push(format!("{name}={value}"));
            }
            (Place, Some(value)) => self.place(value),
            (Upload, Some(value)) => self.uploads.push(value),
            (Look, _) => self.looks = true,
            // 1000 bit/s are 125 B/s, the unit of limits in other programs.
            (Kilobits, Some(value)) => {
                let bytes = value.parse::<u64>().ok().and_then(|kilobits| kilobits.checked_mul(125));
                self.words.extend(bytes.map(|bytes| format!("--limit-rate={bytes}")));
            }
            (Ssh, Some(value)) => {
                let mut words = value.split_whitespace().skip_while(|word| !word.starts_with("-p"));
                let port = words.next().and_then(|word| match &word[2..] {
                    "" => words.next(),
                    port => Some(port),
                });
                self.words.extend(port.filter(|port| *port != "22").map(|port| format!("--port={port}")));
            }
            (Nothing | Place | Upload | Kilobits | Ssh, _) => {}
        }
    }

    fn finish(mut self, fetches: bool) -> Translated {
        if self.looks {
            // Nothing lands, so nothing says where.
            let stays = |word: &String| !word.starts_with('-') || LOOKING.iter().any(|option| word.starts_with(option));
            self.words.retain(stays);
            return Translated { command: Some("ls"), words: self.words };
        }
        if !self.uploads.is_empty() {
            let at = self.places.first().copied().unwrap_or(self.words.len());
            self.words.splice(at..at, self.uploads);
            return Translated { command: Some("put"), words: self.words };
        }
        let last = self.places.last().map(|at| self.words[*at].as_str());
        let is_here = |word: &str| word.starts_with(['.', '/', '~']) && !word.starts_with("//");
        if fetches && !self.has_destination && !last.is_some_and(is_here) {
            self.words.push(".".to_owned());
        }
        Translated { command: None, words: self.words }
    }
}

/// Options that a command that only looks has, too.
const LOOKING: [&str; 5] = ["--insecure", "--proxy", "--no-check-certificate", "--token-file", "--ca="];

/// Whether a word is sure to be an address, not a name here.
pub(crate) fn is_address(word: &str) -> bool {
    options::is_remote(word) || word.contains('#') || word.contains("://")
}
