//! Errors of a grid as a whole.

use std::io;

use crate::grid::GridError;

/// Why a grid could not be started, or something in it not be done.
#[derive(Debug, thiserror::Error)]
pub enum EmuError {
    /// The grid is not valid.
    #[error(transparent)]
    Grid(#[from] GridError),
    /// This user may not have namespaces here.
    #[error(
        "namespaces are forbidden here ({message}): run as root, or allow them to users: \
         `sysctl user.max_user_namespaces` is above 0, and if they exist `kernel.unprivileged_userns_clone` is 1 and \
         `kernel.apparmor_restrict_unprivileged_userns` is 0; a container must be privileged"
    )]
    NamespacesForbidden {
        /// The kernel's error.
        message: String,
    },
    /// This user may not have TUN devices here.
    #[error(
        "TUN devices cannot be made ({message}): /dev/net/tun must exist (`modprobe tun`) and be readable and writable \
         for this user (`chmod 666 /dev/net/tun`, as most distributions have it), or run as root"
    )]
    TunForbidden {
        /// The kernel's error.
        message: String,
    },
    /// A namespace could not be set up.
    #[error("cannot set up the grid: {what}: {message}")]
    SetUp {
        /// The failed action.
        what: String,
        /// The kernel's error.
        message: String,
    },
    /// There is no such host.
    #[error("there is no host '{name}'; there are: {known}")]
    UnknownHost {
        /// The name.
        name: String,
        /// The existing names.
        known: String,
    },
    /// A command could not be started in a host.
    #[error("cannot start '{program}' in '{host}': {message}")]
    Spawn {
        /// The host.
        host: String,
        /// The program.
        program: String,
        /// Why.
        message: String,
    },
    /// The namespaces are gone: their keeper was killed.
    #[error("the grid is gone: the process that kept its namespaces was killed")]
    Gone,
    /// The operating system failed us.
    #[error("{what}: {source}")]
    System {
        /// The failed action.
        what: &'static str,
        /// Its message.
        source: io::Error,
    },
}

impl EmuError {
    /// For `map_err`: the operating system failed while `what` was being done.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
