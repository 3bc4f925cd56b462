//! Notes the addresses of the running servers of this state directory, for commands that print addresses.

use std::path::Path;

use inhaul_mover::Source;
use rustix::process::{Pid, test_kill_process};

/// Longest note of all servers together.
const BYTES_MAX: u64 = 64 * 1024;
/// Most servers that are noted; earlier ones are forgotten.
const SERVERS_MAX: usize = 64;

/// Notes in the file `path` that this process is a server, reached as the one server of `of`. The path of `of` is the
/// name of the offered directory if addresses may omit it, and empty otherwise. If the file cannot be written, the
/// server runs without the note.
pub(crate) fn note(path: &Path, of: &Source) {
    let own = format!("{of} {}", std::process::id());
    // Servers that listen elsewhere are kept: one of them may be the last to run.
    let lines = alive(path).into_iter().filter(|(line, _)| line.as_str() != own).map(|(line, _)| line);
    let mut lines: Vec<String> = lines.chain([own.clone()]).filter(|line| !line.contains(char::is_control)).collect();
    lines.drain(..lines.len().saturating_sub(SERVERS_MAX));
    let text = lines.join("\n") + "\n";
    if let Err(error) = inhaul_identity::replace_file(path, &text) {
        log::debug!("'inhaul token make' will not know the port: {error}");
    }
}

/// The address of the last noted server whose process still runs.
pub(crate) fn find(path: &Path) -> Option<Source> {
    alive(path).pop().map(|(_, source)| source)
}

/// The lines of the servers whose processes are there, as they were noted.
fn alive(path: &Path) -> Vec<(String, Source)> {
    let is_short = std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= BYTES_MAX);
    let text = if is_short { std::fs::read_to_string(path).unwrap_or_default() } else { String::new() };
    let read = |line: &str| {
        let (source, process) = line.rsplit_once(' ')?;
        let process = Pid::from_raw(process.parse().ok().filter(|&process: &i32| process > 0)?)?;
        // Another user's process may not be asked, and is there.
        let is_gone = test_kill_process(process) == Err(rustix::io::Errno::SRCH);
        if is_gone { None } else { Some((line.to_owned(), source.parse().ok()?)) }
    };
    text.lines().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_mover::Server;
    use std::process::{Child, Command, Stdio};

    fn source(host: &str, port: u16, path: &str) -> Source {
        Source { mirrors: vec![Server::new(host, port)], path: path.to_owned() }
    }

    #[test]
    fn a_note_is_good_while_its_process_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("running");
        assert_eq!(find(&path), None);
        for server in [source("data.example.org", 5001, ""), source("fe80::1%eth0", 4321, "a b\u{10ffff}%")] {
            note(&path, &server);
            assert_eq!(find(&path), Some(server));
        }
        let gone = Command::new("true").spawn().and_then(|mut child| child.wait().map(|_| child.id())).unwrap();
        for text in
            [format!("inhaul://a:1/ {gone}"), "inhaul://a:1/ 0".into(), "inhaul://a:1/".into(), "x".repeat(99999)]
        {
            std::fs::write(&path, &text).unwrap();
            assert_eq!(find(&path), None, "{text:.20}");
        }
    }

    #[test]
    fn of_two_servers_the_later_may_end_first() {
        /// Ends when it is dropped.
        struct Other(Child);
        impl Drop for Other {
            fn drop(&mut self) {
                let _ = self.0.kill();
                let _ = self.0.wait();
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("running");
        let (own, others) = (source("a", 5586, "data"), source("b", 5587, ""));
        note(&path, &own);
        let later = Other(Command::new("cat").stdin(Stdio::piped()).spawn().unwrap());
        let line = format!("{others} {}\n", later.0.id());
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + &line).unwrap();
        assert_eq!(find(&path), Some(others));
        drop(later);
        assert_eq!(find(&path), Some(own.clone()));
        // A starting server removes dead ones.
        note(&path, &own);
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1);
    }

    #[test]
    fn a_note_that_somebody_else_has_left_is_replaced() {
        use std::os::unix::fs::{MetadataExt, chown};
        let dir = tempfile::tempdir().unwrap();
        if dir.path().metadata().unwrap().uid() != 0 {
            return;
        }
        chown(dir.path(), Some(4242), Some(4243)).unwrap();
        let path = dir.path().join("running");
        std::fs::write(&path, "by root").unwrap();
        note(&path, &source("a", 1, ""));
        assert_eq!(path.metadata().unwrap().uid(), 4242, "root's file would keep the service from writing it");
    }
}
