//! Places for watchers: a user has few of them on one host, however many programs receive.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Most watchers of one user on a host. They all see much the same, and each one costs.
const PLACES: usize = 4;

/// A watcher's place. It is free again when this is dropped, or when the process ends in any way.
#[derive(Debug)]
pub(super) struct Place {
    _name: UnixDatagram,
}

impl Place {
    /// Takes a place; `None` when all are taken.
    ///
    /// When the system gives no socket.
    pub(super) fn take() -> io::Result<Option<Self>> {
        Self::take_of(&format!("inhaul-watch-{}", rustix::process::geteuid().as_raw()))
    }

    /// Takes one of the places that begin with `name`: abstract names, which leave nothing behind.
    fn take_of(name: &str) -> io::Result<Option<Self>> {
        for place in 0..PLACES {
            let address = SocketAddr::from_abstract_name(format!("{name}-{place}"))?;
            match UnixDatagram::bind_addr(&address) {
                Ok(socket) => return Ok(Some(Self { _name: socket })),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_few_and_come_back() {
        let name = format!("inhaul-watch-test-{}", std::process::id());
        let mut taken: Vec<Place> = (0..PLACES).map(|_| Place::take_of(&name).unwrap().unwrap()).collect();
        assert!(Place::take_of(&name).unwrap().is_none());
        taken.remove(1);
        let again = Place::take_of(&name).unwrap();
        assert!(again.is_some() && Place::take_of(&name).unwrap().is_none());
    }
}
