//! Why congestion controls cannot be loaded.

use std::io;

use thiserror::Error;

use super::control::FAIR_FACTOR_MAX;

/// Why a congestion control could not be loaded, unloaded or asked for.
#[derive(Debug, Error)]
pub enum KernelCcError {
    /// FHSTCP's c is out of range.
    #[error("c is {0}; it is from 1 to {FAIR_FACTOR_MAX} per second (fhstcp-2005 has 10)")]
    FairFactor(u32),
    /// There is no bpftool.
    #[error("there is no bpftool here; on Debian: apt-get install bpftool")]
    NoBpftool,
    /// There is no clang.
    #[error("there is no clang here, which compiles for the kernel; on Debian: apt-get install clang-16 libbpf-dev")]
    NoClang,
    /// libbpf's header files are missing.
    #[error("libbpf's header files are not here; on Debian: apt-get install libbpf-dev")]
    NoHeaders,
    /// The kernel does not tell its types.
    #[error("this kernel does not tell its types (no {0}); one built with CONFIG_DEBUG_INFO_BTF=y does, as Debian's")]
    NoTypes(&'static str),
    /// The kernel has no struct_ops for TCP.
    #[error(
        "this kernel takes no congestion control by eBPF; Linux 5.13 or newer with CONFIG_BPF_SYSCALL=y and CONFIG_BPF_JIT=y does"
    )]
    NoStructOps,
    /// The process may not.
    #[error(
        "the kernel does not permit it ({0}); it needs root of the host itself: sudo, and not in a container or a user namespace"
    )]
    NotPermitted(String),
    /// One of the tools failed.
    #[error("{what} failed: {said}")]
    Tool {
        /// Its task.
        what: String,
        /// The last lines of its output.
        said: String,
    },
    /// bpftool printed something else than its documentation says.
    #[error("bpftool's answer to '{what}' makes no sense: {source}")]
    Answer {
        /// The question.
        what: &'static str,
        /// The fault of the answer.
        source: serde_json::Error,
    },
    /// A congestion control did not go, though bpftool reported no error.
    #[error("the kernel still has them after they were unregistered; is another 'inhaul lab kernel-cc' running?")]
    StillThere,
    /// The operating system failed us.
    #[error("{what}: {source}")]
    System {
        /// The failed action.
        what: &'static str,
        /// Its error.
        source: io::Error,
    },
}

impl KernelCcError {
    /// Whether this host or this user cannot have it, as opposed to something that went wrong.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::NoBpftool
            | Self::NoClang
            | Self::NoHeaders
            | Self::NoTypes(_)
            | Self::NoStructOps
            | Self::NotPermitted(_) => true,
            Self::FairFactor(_) | Self::Tool { .. } | Self::Answer { .. } | Self::StillThere | Self::System { .. } => {
                false
            }
        }
    }
}
