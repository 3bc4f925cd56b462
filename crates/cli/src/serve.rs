//! `inhaul serve`.

use std::io::Write;

use inhaul_mover::{MoveError, ServeOptions};

use crate::args::{Serve, Transport};

pub(crate) fn run(args: &Serve) -> Result<(), MoveError> {
    let stop = crate::stop_on_signals()?;
    let options = ServeOptions {
        directories: args.directories.clone(),
        listen: args.listen,
        send_rate: args.send_rate,
        net: crate::net_options(&args.wire, &Transport::default()),
    };
    eprintln!("inhaul: transfers are not encrypted yet: serve only what may be seen on the way");
    inhaul_mover::serve(&options, &stop, |address| announce(&format!("listening on {address}")))
}

/// Prints a line on standard output at once, though it be a pipe; a reader that has gone away is no error of ours.
pub(crate) fn announce(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
