//! Answers options of other programs (rsync, rclone, aria2, curl, wget, scp, iperf3) with the name of ours.

/// Options of other programs, and their replacements in our commands.
struct Answer {
    commands: &'static [&'static str],
    options: &'static [&'static str],
    text: &'static str,
    /// Possible corrections of the line; the first that parses counts.
    fixes: &'static [Fix],
}

/// A change to a command line that has an option of another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fix {
    /// Without the option, and without a number behind it.
    Drop,
    /// Without the option, if no number stands behind it.
    DropFlag,
    /// Without the option and the number behind it; there must be one.
    DropNumber,
    /// Without the option and its value.
    DropValue,
    /// This word in the option's place.
    Flag(&'static str),
    /// This option with the same value.
    Rename(&'static str),
    /// This option, and the value as a rate in bits per second; it is in bytes.
    Rate(&'static str),
    /// The value as the last argument.
    Last,
    /// The value as the last argument, as a directory.
    LastDirectory,
    /// The value as the port of the servers.
    Port,
    /// The value, if the line has no other place for data to land.
    OnlyDirectory,
    /// Without the option and its value, if this is a header of HTTP or the name of a browser.
    Header,
    /// Without the option and its value, if this is a user and a password.
    Credentials,
    /// The value, if it is one, as the proxy.
    Proxy,
    /// A listing, of a line that has no destination.
    Look,
    /// The value is put.
    Upload,
    /// The value as a token, behind the `#` of the addresses; or as the file that has it.
    Token,
    /// The value as the address of a server.
    Listen,
    /// The option's `--accept-new`, unless a ticket says what server it is.
    Trust,
}

use Fix::{
    Credentials, Drop, DropFlag, DropNumber, DropValue, Flag, Header, Last, LastDirectory, Listen, Look, OnlyDirectory,
    Port, Proxy, Rate, Rename, Token, Trust, Upload,
};

const TRANSFERS: &[&str] = &["get", "plan", "put", "copy"];
const FETCHES: &[&str] = &["get", "plan", "copy"];
const RECEIVES: &[&str] = &["get", "plan"];
const REPORTS: &[&str] = &["get", "put", "copy"];

/// What limits a rate elsewhere.
const LIMITS: &[&str] = &[
    "--bwlimit",
    "--limit-rate",
    "--max-overall-download-limit",
    "--max-download-limit",
    "--max-overall-upload-limit",
    "--max-upload-limit",
    "--bandwidth",
    "--bitrate",
    "--rate",
    "-b",
];

/// Options of HTTP, with a value.
const HEADERS: &[&str] = &[
    "--header",
    "--user",
    "--password",
    "--user-agent",
    "--referer",
    "--cookie",
    "--cookie-jar",
    "--load-cookies",
    "--http-user",
    "--http-passwd",
    "--http-password",
    "--proxy-user",
    "--request",
    "--data",
    "--post-data",
];

/// Advice for flags that continue a transfer.
const CONTINUES: &str = "an interrupted transfer goes on when the same command is given again; no option is needed";
/// What to do with files that exist.
const EXISTING: &str =
    "'--existing update' replaces older files, '--existing keep' replaces none, '--existing replace' all that differ";

/// The first that fits counts.
const ANSWERS: &[Answer] = &[
    // Rates.
    Answer {
        commands: RECEIVES,
        options: LIMITS,
        text: "--receive-rate 850M limits what this host takes in, --rate 850M limits each sender",
        fixes: &[Rate("--receive-rate")],
    },
    Answer {
        commands: &["put"],
        options: LIMITS,
        text: "--send-rate 850M limits what this host sends",
        fixes: &[Rate("--send-rate")],
    },
    Answer {
        commands: &["put"],
        options: &["--receive-rate"],
        text: "--send-rate 850M limits what this host sends; the server receives",
        fixes: &[Rename("--send-rate")],
    },
    Answer { commands: &["copy"], options: LIMITS, text: "--rate 850M limits each sender", fixes: &[Rate("--rate")] },
    Answer {
        commands: &["serve"],
        options: LIMITS,
        text: "--send-rate 850M limits what this host sends to all receivers together",
        fixes: &[Rate("--send-rate")],
    },
    Answer {
        commands: &["bench"],
        options: LIMITS,
        text: "--bitrate 850M (-b) limits each flow",
        fixes: &[Rename("--bitrate")],
    },
    Answer {
        commands: &["doctor"],
        options: LIMITS,
        text: "--target-rate 10G names the rate that transfers should reach",
        fixes: &[Rename("--target-rate")],
    },
    // Flags about carried metadata.
    Answer {
        commands: TRANSFERS,
        options: &["-r", "-R", "--recursive"],
        text: "a directory comes with all its content; no option is needed",
        fixes: &[Drop],
    },
    Answer {
        commands: RECEIVES,
        options: &["-a", "--archive"],
        text: "links, times and permissions are always kept; --owner and --xattrs keep more",
        fixes: &[Drop],
    },
    Answer {
        commands: TRANSFERS,
        options: &["-a", "--archive"],
        text: "links, times and permissions are always kept; --xattrs keeps extended attributes too",
        fixes: &[Drop],
    },
    Answer {
        commands: TRANSFERS,
        options: &["-l", "--links", "-t", "--times", "--perms", "--preserve", "--hard-links", "-S", "--sparse"],
        text: "links, times, permissions and holes are always kept",
        fixes: &[Drop],
    },
    // Of rsync it is about hard links; of curl, a header.
    Answer {
        commands: TRANSFERS,
        options: &["-H"],
        text: "hard links are always kept. Headers of HTTP mean nothing here: a ticket gives rights",
        fixes: &[Header, DropFlag],
    },
    Answer {
        commands: &["get", "plan", "put", "copy", "ls"],
        options: HEADERS,
        text: "headers, users and cookies of HTTP mean nothing here: a ticket behind the address gives rights",
        fixes: &[DropValue],
    },
    Answer {
        commands: TRANSFERS,
        options: &["-p"],
        text: "links, times, permissions and holes are always kept. For a port, write inhaul://HOST:5001/PATH",
        fixes: &[Port, DropFlag],
    },
    Answer {
        commands: &["ls", "doctor"],
        options: &["-p", "-P", "--port"],
        text: "write the port behind its host: inhaul://HOST:5001/PATH",
        fixes: &[Port],
    },
    Answer {
        commands: &["get", "plan", "put", "copy", "ls", "doctor", "bench"],
        options: &["--token", "--ticket", "--bearer", "--oauth2-bearer"],
        text: "a token stands behind the '#' of an address, as in inhaul://HOST/PATH#.TOKEN, or in --token-file FILE",
        fixes: &[Token],
    },
    Answer {
        commands: RECEIVES,
        options: &["-T", "--upload-file", "--upload"],
        text: "'inhaul put PATH DEST' sends files to a server",
        fixes: &[Upload],
    },
    Answer {
        commands: RECEIVES,
        options: &["--head", "--spider"],
        text: "'inhaul ls' lists the files, and fetches nothing",
        fixes: &[Look, Drop],
    },
    Answer {
        commands: RECEIVES,
        options: &["-g", "--group", "--chown"],
        text: "--owner keeps owner and group, by number",
        fixes: &[Flag("--owner")],
    },
    Answer {
        commands: &["put", "copy"],
        options: &["-g", "--group", "--chown", "-o", "--owner"],
        text: "files of a put belong to the server's user",
        fixes: &[DropFlag],
    },
    Answer {
        commands: TRANSFERS,
        options: &["-A", "--acls", "-U", "--atimes"],
        text: "ACLs and access times are not carried",
        fixes: &[Header, Drop],
    },
    Answer {
        commands: TRANSFERS,
        options: &["-L", "--copy-links"],
        text: "symbolic links are carried as links",
        fixes: &[Drop],
    },
    Answer {
        commands: TRANSFERS,
        options: &["-z", "--compress", "--compress-level", "--compressed"],
        text: "data is sent as it is, without compression",
        fixes: &[Drop],
    },
    // Flags about existing files.
    Answer {
        commands: TRANSFERS,
        options: &["-u", "--update", "-N", "--timestamping"],
        text: EXISTING,
        fixes: &[Credentials, Flag("--existing=update")],
    },
    Answer {
        commands: TRANSFERS,
        options: &["--ignore-existing", "--no-clobber", "-nc", "--no-overwrite", "--skip-existing"],
        text: EXISTING,
        fixes: &[Flag("--existing=keep")],
    },
    // rsync's flag fetches equal files again; curl's fetches nothing. Neither asks to overwrite.
    Answer {
        commands: TRANSFERS,
        options: &["-I"],
        text: "'--existing replace' replaces all files that differ; equal files are not fetched again",
        fixes: &[Look, Drop],
    },
    Answer {
        commands: TRANSFERS,
        options: &["-f", "--fail"],
        text: "a failure ends with another exit code than 0; '--existing replace' replaces files that differ",
        fixes: &[Drop],
    },
    Answer {
        commands: TRANSFERS,
        options: &["--ignore-times", "--force", "--allow-overwrite"],
        text: EXISTING,
        fixes: &[Flag("--overwrite")],
    },
    Answer {
        commands: TRANSFERS,
        options: &["--delete", "--del", "--delete-before", "--delete-during", "--delete-after", "--delete-excluded"],
        text: "files at the destination are never deleted",
        fixes: &[Drop],
    },
    Answer {
        commands: TRANSFERS,
        options: &["-c", "--continue", "--partial", "--append", "--append-verify", "--inplace", "--resume"],
        text: CONTINUES,
        fixes: &[Drop],
    },
    Answer {
        commands: TRANSFERS,
        options: &["-C", "--continue-at", "--partial-dir"],
        text: CONTINUES,
        fixes: &[DropValue],
    },
    Answer {
        commands: &["put"],
        options: &["--checksum"],
        text: "put compares existing files by size and time; --overwrite replaces files that differ",
        fixes: &[Drop],
    },
    Answer {
        commands: TRANSFERS,
        options: &["-V", "--check-integrity", "--verify"],
        text: "every byte is verified with BLAKE3; no option is needed",
        fixes: &[Drop],
    },
    Answer {
        commands: REPORTS,
        options: &[
            "--retry",
            "--retries",
            "--max-tries",
            "-t",
            "--tries",
            "--timeout",
            "--contimeout",
            "--connect-timeout",
        ],
        text: "--retry-for 10m says how long to keep trying, --retry-for 0 not to",
        fixes: &[Drop],
    },
    // How it goes.
    Answer {
        commands: TRANSFERS,
        options: &["-P"],
        text: "progress is shown on a terminal and partial files are kept. For a port, write inhaul://HOST:5001/PATH",
        fixes: &[Port, OnlyDirectory, DropFlag],
    },
    Answer {
        commands: REPORTS,
        options: &["--progress", "--info", "--stats", "-#", "--progress-bar", "--show-progress", "--human-readable"],
        text: "progress is shown on a terminal; --json-stream prints it for programs",
        fixes: &[Drop],
    },
    Answer {
        commands: REPORTS,
        options: &["-s", "--silent", "--no-verbose"],
        text: "--quiet (-q) shows errors only. No number of connections is needed",
        fixes: &[DropNumber, Flag("--quiet")],
    },
    Answer {
        commands: TRANSFERS,
        options: &["-x"],
        text: "--proxy URL names a proxy. No number of connections is needed: one flow fills the path",
        fixes: &[Proxy, Drop],
    },
    Answer {
        commands: FETCHES,
        options: &[
            "--max-connection-per-server",
            "-s",
            "--split",
            "--min-split-size",
            "-j",
            "--max-concurrent-downloads",
            "--transfers",
            "--checkers",
            "--multi-thread-streams",
            "--streams",
            "--parallel",
        ],
        text: "one flow fills the path, so no number of connections is needed. Name mirrors with commas: inhaul://HOST1,HOST2/PATH",
        fixes: &[Drop],
    },
    Answer {
        commands: FETCHES,
        options: &["-k"],
        text: "a ticket says which server to trust, and --accept-new trusts a new one. No number of connections is needed",
        fixes: &[Trust],
    },
    Answer {
        commands: &["get", "plan", "put", "copy", "ls", "doctor", "bench"],
        options: &["--insecure", "--no-check-certificate", "--check-certificate", "--no-check-dest"],
        text: "a ticket behind the address says which server to trust, and --accept-new trusts a new one",
        fixes: &[Trust],
    },
    Answer {
        commands: &["put"],
        options: &["-j", "--transfers", "--checkers", "--streams", "--parallel"],
        text: "one flow fills the path, so no number of connections is needed",
        fixes: &[Drop],
    },
    Answer {
        commands: TRANSFERS,
        options: &["-e", "--rsh", "--ssh"],
        text: "inhaul does not use ssh: 'inhaul serve' must run on the other host",
        fixes: &[DropValue],
    },
    Answer {
        commands: RECEIVES,
        options: &["-i"],
        text: "--input-file FILE reads a list; a key of ssh is of no use: inhaul does not use ssh",
        fixes: &[Rename("--input-file"), DropValue],
    },
    Answer {
        commands: TRANSFERS,
        options: &["-i"],
        text: "inhaul does not use ssh: 'inhaul serve' must run on the other host",
        fixes: &[DropValue],
    },
    Answer {
        commands: TRANSFERS,
        options: &["--port"],
        text: "write the port behind its host: inhaul://HOST:5001/PATH",
        fixes: &[Port],
    },
    Answer {
        commands: TRANSFERS,
        options: &["-4", "-6", "--ipv4", "--ipv6"],
        text: "write the address itself: inhaul://10.0.0.1/PATH or inhaul://[::1]/PATH",
        fixes: &[Drop],
    },
    // From where and to where.
    Answer {
        commands: RECEIVES,
        options: &["-O", "--output", "--output-document", "--out", "--remote-name"],
        text: "the destination is the last argument: inhaul get SOURCE DEST",
        fixes: &[Last, Drop],
    },
    // Of curl, aria2 and ssh it is a file or an option; of rsync, the owner.
    Answer {
        commands: &["get", "plan"],
        options: &["-o"],
        text: "the destination is the last argument: inhaul get SOURCE DEST. --owner keeps owner and group",
        fixes: &[Last, Flag("--owner")],
    },
    Answer {
        commands: RECEIVES,
        options: &["-d", "--dir", "--directory-prefix", "--output-dir"],
        text: "the destination is the last argument: inhaul get SOURCE DIR/",
        fixes: &[LastDirectory, Drop],
    },
    Answer {
        commands: TRANSFERS,
        options: &["--filter", "--include-from", "--files-from"],
        text: "--exclude-from FILE reads patterns to exclude, and patterns to include after '!'",
        fixes: &[],
    },
    // Servers.
    Answer {
        commands: &["serve"],
        options: &["-p", "-P", "--port", "-b", "--bind", "--addr", "--address", "-H", "--host", "-l"],
        text: "--listen '[::]:5001' names the address and the port",
        fixes: &[Rename("--listen")],
    },
    Answer {
        commands: &["serve"],
        options: &["-d", "--dir", "--directory", "--root", "--path"],
        text: "name the directories without an option: inhaul serve /data",
        fixes: &[Last],
    },
    Answer {
        commands: &["serve"],
        options: &["-r", "--read-only"],
        text: "nothing can be written, unless --accept-puts DIR says where",
        fixes: &[Drop],
    },
    Answer {
        commands: &["serve"],
        options: &["-w", "--write", "--upload"],
        text: "nothing can be written, unless --accept-puts DIR says where",
        fixes: &[],
    },
    Answer {
        commands: &["serve"],
        options: &["--max-connections", "--max-clients", "--connections"],
        text: "--max-sessions N limits the clients at once",
        fixes: &[Rename("--max-sessions")],
    },
    Answer {
        commands: &["serve", "bench"],
        options: &["-D", "--daemon", "-1", "--one-off"],
        text: "it runs in the foreground until it gets a signal",
        fixes: &[Drop],
    },
    // iperf3.
    Answer {
        commands: &["bench"],
        options: &["-c", "--client"],
        text: "name the servers without an option: inhaul bench HOST",
        fixes: &[Last],
    },
    Answer { commands: &["bench"], options: &["-s"], text: "--server waits for clients", fixes: &[Flag("--server")] },
    Answer {
        commands: &["bench"],
        options: &["-p", "--port"],
        text: "a client names HOST:PORT, a server --listen '[::]:5001'",
        fixes: &[Listen, Port],
    },
    Answer {
        commands: &["bench"],
        options: &["-B", "--bind"],
        text: "a server has --listen '[::]:5001'; the system chooses the address of a client",
        fixes: &[Listen, DropValue],
    },
    Answer {
        commands: &["bench"],
        options: &["-i", "--interval"],
        text: "a line is printed each second",
        fixes: &[Drop],
    },
    Answer { commands: &["bench"], options: &["-u", "--udp"], text: "data always goes over UDP", fixes: &[Drop] },
    Answer {
        commands: &["bench"],
        options: &["-w", "--window", "-l", "--length", "-Z", "--zerocopy"],
        text: "the sizes of buffers are set automatically",
        fixes: &[Drop],
    },
    Answer {
        commands: &["bench"],
        options: &["-C", "--congestion"],
        text: "--transport NAME chooses the protocol; 'inhaul protocols' lists them",
        fixes: &[Rename("--transport")],
    },
    Answer {
        commands: &["bench"],
        options: &["-M", "--set-mss"],
        text: "--mtu BYTES sets the largest packet",
        fixes: &[Rename("--mtu")],
    },
    Answer {
        commands: &["bench"],
        options: &["-A", "--affinity"],
        text: "--cpu N pins the data thread",
        fixes: &[Rename("--cpu")],
    },
    Answer {
        commands: &["bench"],
        options: &["-d", "--bidir", "--dualtest"],
        text: "it measures one direction at a time; --reverse (-R) is the other one",
        fixes: &[Drop],
    },
    // What looks.
    Answer {
        commands: &["ls"],
        options: &["-l", "--long", "-a", "--all", "-1"],
        text: "size, time and name are always shown, of all files",
        fixes: &[Drop],
    },
    Answer {
        commands: &["ls"],
        options: &["-R"],
        text: "--recursive (-r) lists the content of directories",
        fixes: &[Flag("--recursive")],
    },
    Answer {
        commands: &["verify"],
        options: &["-c", "--check"],
        text: "name the list after the directory: inhaul verify DIR LIST",
        fixes: &[Drop],
    },
];

/// Our name of another program's option, or why it is not needed, in the command of this name.
pub(crate) fn answer(command: &str, option: &str) -> Option<&'static str> {
    found(command, option).map(|answer| answer.text)
}

/// Possible corrections of a line with this option.
pub(crate) fn fixes(command: &str, option: &str) -> &'static [Fix] {
    found(command, option).map_or(&[], |answer| answer.fixes)
}

fn found(command: &str, option: &str) -> Option<&'static Answer> {
    ANSWERS.iter().find(|answer| answer.commands.contains(&command) && answer.options.contains(&option))
}

/// Commands of others that bring files either way.
pub(crate) const BOTH_WAYS: [&str; 9] =
    ["sync", "rsync", "cp", "scp", "mv", "copyto", "move", "globus-url-copy", "bbcp"];

/// Our command for another program's command of this name.
pub(crate) fn command(name: &str) -> Option<&'static str> {
    const NAMES: &[(&str, &[&str])] = &[
        ("get", &BOTH_WAYS),
        (
            "get",
            &[
                "fetch", "download", "pull", "receive", "recv", "clone", "haul", "wget", "wget2", "curl", "aria2c",
                "aria2", "cat",
            ],
        ),
        ("put", &["push", "upload", "send", "store"]),
        ("copy", &["transfer", "relay"]),
        ("serve", &["server", "daemon", "share", "offer", "host", "listen"]),
        ("ls", &["list", "dir", "lsf", "lsl", "lsd", "tree"]),
        ("verify", &["check", "cmp", "validate"]),
        ("manifest", &["checksum", "checksums", "hash", "sum", "sha256sum", "b3sum"]),
        ("bench", &["iperf", "iperf3", "speedtest", "perf", "measure", "benchmark", "test"]),
        ("plan", &["predict", "estimate"]),
        ("doctor", &["diagnose", "diag", "tune", "ping"]),
        ("lab sim", &["sim", "simulate"]),
        ("link run", &["emulate", "netem"]),
        ("protocols", &["transports"]),
    ];
    NAMES.iter().find(|(_, others)| others.contains(&name)).map(|(ours, _)| *ours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::CommandFactory;

    /// Whether the command has an option that is written so.
    fn has(command: &clap::Command, option: &str) -> bool {
        command.get_arguments().any(|arg| {
            arg.get_long().is_some_and(|long| option == format!("--{long}"))
                || arg.get_short().is_some_and(|short| option == format!("-{short}"))
        })
    }

    #[test]
    fn answers_name_options_and_commands_that_exist() {
        let top = Cli::command();
        for Answer { commands, text, .. } in ANSWERS {
            for name in *commands {
                let command = top.find_subcommand(name).unwrap_or_else(|| panic!("no command {name}"));
                let words = text.split(|c: char| c.is_whitespace() || "'(),;:".contains(c));
                for option in words.filter(|word| word.starts_with('-')) {
                    assert!(has(command, option), "{name} has no {option}: {text}");
                }
            }
            for (_, after) in text.match_indices("'inhaul ").map(|(at, _)| text.split_at(at + "'inhaul ".len())) {
                let name = after.split(['\'', ' ']).next().unwrap();
                assert!(top.find_subcommand(name).is_some(), "{text}");
            }
        }
    }

    #[test]
    fn answers_are_for_options_that_a_command_lacks() {
        let top = Cli::command();
        for option in ANSWERS.iter().flat_map(|answer| answer.options) {
            let of_option = ANSWERS.iter().filter(|answer| answer.options.contains(option));
            let mut commands =
                of_option.flat_map(|answer| answer.commands).map(|name| top.find_subcommand(name).unwrap());
            assert!(commands.any(|command| !has(command, option)), "{option} is never asked for");
        }
    }

    #[test]
    fn answer_depends_on_the_command() {
        assert!(answer("get", "--bwlimit").unwrap().contains("--receive-rate"));
        assert!(answer("put", "--bwlimit").unwrap().contains("--send-rate"));
        assert!(answer("get", "-r").unwrap().contains("no option is needed"));
        assert!(answer("bench", "-c").unwrap().contains("inhaul bench HOST"));
        assert_eq!((answer("get", "--nonsense"), answer("protocols", "-r")), (None, None));
    }

    #[test]
    fn commands_of_others_are_none_of_ours() {
        let top = Cli::command();
        for (theirs, ours) in [("fetch", "get"), ("upload", "put"), ("iperf3", "bench"), ("sim", "lab sim")] {
            assert_eq!(command(theirs), Some(ours));
            assert!(top.find_subcommand(theirs).is_none());
        }
        assert_eq!(command("get"), None);
    }
}
