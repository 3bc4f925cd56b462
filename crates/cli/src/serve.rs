//! `inhaul serve`.

use std::io::Write;
use std::path::PathBuf;

use inhaul_mover::{MoveError, ServeOptions};

use crate::args::{Serve, Transport};

pub(crate) fn run(args: &Serve) -> Result<(), MoveError> {
    let stop = crate::stop_on_signals()?;
    let options = ServeOptions {
        directories: args.directories.clone(),
        listen: args.listen,
        send_rate: args.send_rate,
        cache: if args.no_cache { None } else { cache_directory() },
        net: crate::net_options(&args.wire, &Transport::default()),
    };
    eprintln!("inhaul: transfers are not encrypted yet: serve only what may be seen on the way");
    inhaul_mover::serve(&options, &stop, |address| announce(&format!("listening on {address}")))
}

/// Where digests are remembered, by the XDG base directory specification; `None` when this user has no place for it.
fn cache_directory() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(base.join("inhaul/digests"))
}

/// Prints a line on standard output at once, though it be a pipe; a reader that has gone away is no error of ours.
pub(crate) fn announce(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
