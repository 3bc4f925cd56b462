//! `ls`: what there is at a server.

use inhaul_store::Listed;

use crate::connect::Session;
use crate::error::MoveError;
use crate::frame::SessionRole;
use crate::source::Source;

/// Shows `each` what there is at `source`: a file itself; of a directory what lies in it or, `recursive`, all beneath it,
/// in the order of names and while it is read. Ends early when `each` says no. The first mirror that answers is asked.
///
/// # Errors
/// When no mirror answers, or the one that does has no such thing; then of the last that was tried.
pub fn list(source: &Source, recursive: bool, each: &mut dyn FnMut(Listed) -> bool) -> Result<(), MoveError> {
    let mut failure = MoveError::Usage("a source has at least one server".to_owned());
    for server in &source.mirrors {
        // No data will flow, so any transport would do.
        match Session::connect(server, SessionRole::Fetch, "gtp") {
            Ok(mut session) => return session.list(&source.path, recursive, each),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NetOptions, ServeOptions, Stop};
    use std::sync::mpsc::channel;

    #[test]
    fn list_asks_the_first_mirror_that_answers() {
        let dir = tempfile::tempdir().unwrap();
        for k in 0..3 {
            std::fs::write(dir.path().join(format!("f{k}")), vec![0; k]).unwrap();
        }
        let (stop, (ready, address)) = (Stop::new(), channel());
        let options = ServeOptions {
            directories: vec![dir.path().to_path_buf()],
            listen: "127.0.0.1:0".parse().unwrap(),
            send_rate: None,
            cache: None,
            net: NetOptions { mtu: None, offload: true, cpu: None, transport: "gtp".to_owned(), parameters: vec![] },
        };
        let server = {
            let stop = stop.clone();
            std::thread::spawn(move || crate::serve(&options, &stop, |address| ready.send(address).unwrap()))
        };
        let port = address.recv().unwrap().port();
        let source: Source = format!("inhaul://127.0.0.1:1,127.0.0.1:{port}/").parse().unwrap();
        let mut sizes = Vec::new();
        let listed = list(&source, false, &mut |item| {
            sizes.push((item.path, item.size));
            true
        });
        stop.stop();
        server.join().unwrap().unwrap();
        listed.unwrap();
        assert_eq!(sizes, [(b"f0".to_vec(), 0), (b"f1".to_vec(), 1), (b"f2".to_vec(), 2)]);
    }
}
