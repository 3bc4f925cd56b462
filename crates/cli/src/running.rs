//! Where the server of this host's state is reached, noted for those who write addresses of it.

use std::path::Path;

use inhaul_mover::Server;
use rustix::process::{Pid, test_kill_process};

/// Longest note: a host's name, a port and a process.
const BYTES_MAX: u64 = 512;

/// Notes in the file `path` that this process is a server, reached as `server`. Who cannot write it goes without.
pub(crate) fn note(path: &Path, server: &Server) {
    if let Err(error) = std::fs::write(path, format!("{server} {}\n", std::process::id())) {
        log::debug!("'inhaul token make' will not know the port: {}: {error}", path.display());
    }
}

/// How the server is reached that was noted last, if its process is there.
pub(crate) fn find(path: &Path) -> Option<Server> {
    let is_short = std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= BYTES_MAX);
    let text = is_short.then(|| std::fs::read_to_string(path).ok())??;
    let (server, process) = text.trim_end().rsplit_once(' ')?;
    let process = Pid::from_raw(process.parse().ok().filter(|&process: &i32| process > 0)?)?;
    // Another user's process may not be asked, and is there.
    let is_gone = test_kill_process(process) == Err(rustix::io::Errno::SRCH);
    if is_gone { None } else { server.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_good_while_its_process_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("running");
        assert_eq!(find(&path), None);
        for server in [Server::new("data.example.org", 5001), Server::new("fe80::1%eth0", 4321)] {
            note(&path, &server);
            assert_eq!(find(&path), Some(server));
        }
        let gone = std::process::Command::new("true").spawn().and_then(|mut child| child.wait().map(|_| child.id()));
        for text in [format!("a:1 {}", gone.unwrap()), "a:1 0".into(), "a:1".into(), "a:0 1".into(), "x".repeat(9999)] {
            std::fs::write(&path, &text).unwrap();
            assert_eq!(find(&path), None, "{text:.20}");
        }
    }
}
