//! The directory with a user's keys and with the known keys of others.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The default state directory, for services without a home.
const OF_THE_SYSTEM: &str = "/var/lib/inhaul";

/// The directory, and the names of the files in it. It is made, for its user alone, when the first of them is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    directory: PathBuf,
}

impl State {
    /// At this directory.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// Where it is by these variables of the environment: `STATE_DIRECTORY`, which systemd sets for a service with
    /// `StateDirectory=`; else `inhaul` in `XDG_STATE_HOME` or `~/.local/state`; else `/var/lib/inhaul`.
    pub fn find(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let of_service = variable("STATE_DIRECTORY").and_then(|list| {
            let first = list.to_str()?.split(':').next()?;
            Some(PathBuf::from(first)).filter(|path| path.is_absolute())
        });
        let of_user = || {
            let home = || absolute("HOME").map(|home| home.join(".local/state"));
            absolute("XDG_STATE_HOME").or_else(home).map(|base| base.join("inhaul"))
        };
        Self::at(of_service.or_else(of_user).unwrap_or_else(|| OF_THE_SYSTEM.into()))
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The key that this host shows as a client.
    pub fn client_key(&self) -> PathBuf {
        self.directory.join("client.key")
    }

    /// The key that it shows as a server.
    pub fn server_key(&self) -> PathBuf {
        self.directory.join("server.key")
    }

    /// The servers that it has met: [`crate::KnownHosts`].
    pub fn known_hosts(&self) -> PathBuf {
        self.directory.join("known_hosts")
    }

    /// The clients that its server lets in: [`crate::AuthorizedKeys`].
    pub fn authorized_keys(&self) -> PathBuf {
        self.directory.join("authorized_keys")
    }

    /// The tokens that were made: [`crate::Book`].
    pub fn tokens(&self) -> PathBuf {
        self.directory.join("tokens")
    }

    /// The tokens that clients have asked for: [`crate::DelegatedList`].
    pub fn delegated(&self) -> PathBuf {
        self.directory.join("delegated")
    }

    /// Where the server is reached that runs with this state.
    pub fn running(&self) -> PathBuf {
        self.directory.join("running")
    }

    /// The log of grants and refusals: [`crate::audit`].
    pub fn audit_log(&self) -> PathBuf {
        self.directory.join("audit.log")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_takes_the_first_place_that_is_set() {
        let find = |set: &[(&str, &str)]| {
            let set: Vec<_> = set.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value))).collect();
            State::find(move |name| set.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone())).directory
        };
        let home = ("HOME", "/home/ann");
        assert_eq!(find(&[("STATE_DIRECTORY", "/var/lib/a:/var/lib/b"), home]), Path::new("/var/lib/a"));
        assert_eq!(find(&[("XDG_STATE_HOME", "/state"), home]), Path::new("/state/inhaul"));
        assert_eq!(find(&[("XDG_STATE_HOME", "state"), home]), Path::new("/home/ann/.local/state/inhaul"));
        assert_eq!(find(&[]), Path::new(OF_THE_SYSTEM));
    }
}
