//! Errors of building, finding and using labs.

use std::io;

use icdc_packet::PacketError;
use icdc_path::SettingsError;
use icdc_units::ByteCount;
use thiserror::Error;

/// Error of an operation on a lab.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LabError {
    /// The settings of the path are invalid.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// More packets in transit than there is memory for.
    #[error(
        "the path needs {needed} of memory for its packets, and {available} are free: lower --rate, --rtt or --queue"
    )]
    Memory {
        /// Memory that the lab needs.
        needed: ByteCount,
        /// Memory that is available.
        available: ByteCount,
    },
    /// A name that cannot be part of a namespace's name.
    #[error("\"{0}\" cannot name a lab: use 1 to 32 letters, digits and hyphens")]
    Name(String),
    /// A lab of this name exists already.
    #[error(
        "a lab named {0} stands already: `icdc lab down --name {0}` takes it down, --name gives this one another name"
    )]
    Exists(String),
    /// There is no lab of this name.
    #[error("there is no lab named {name}{}", existing_labs_hint(.others))]
    NoLab {
        /// The name for which no lab exists.
        name: String,
        /// Names of the existing labs.
        others: Vec<String>,
    },
    /// The wire process has died.
    #[error(
        "the wire of the lab {0} has died: `icdc lab down --name {0}` clears what is left; the last line of its log: {1}"
    )]
    Dead(String, String),
    /// A namespace of that name exists and belongs to no lab.
    #[error(
        "the network namespace {0} exists and is no lab's: remove it (`ip netns delete {0}`) or choose another --name"
    )]
    Foreign(String),
    /// A program that the lab needs is missing.
    #[error("{program} is not installed: install the package {package} (`apt install {package}`)")]
    Missing {
        /// Name of the missing program.
        program: &'static str,
        /// Debian's package that contains the program.
        package: &'static str,
    },
    /// A program that the lab ran has failed.
    #[error("{program} failed: {output}")]
    Program {
        /// The program and its arguments.
        program: String,
        /// The program's output on standard error.
        output: String,
    },
    /// Neither root nor allowed to make a user namespace.
    #[error(
        "a lab needs root (CAP_NET_ADMIN) or unprivileged user namespaces, which this system refuses ({0}); run it with sudo, or allow them (kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0)"
    )]
    NotAllowed(io::Error),
    /// An operation on raw frames has failed.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// The wire process could not build the lab; the text is its error.
    #[error("{0}")]
    Wire(String),
    /// An operation on a file has failed.
    #[error("cannot {what}: {cause}")]
    Io {
        /// The operation that failed.
        what: String,
        /// The error of the kernel.
        cause: io::Error,
    },
    /// There is no directory for the labs' state.
    #[error("there is no place for the state of a lab: set XDG_RUNTIME_DIR or HOME")]
    NoPlace,
}

/// End of the message that there is no lab of a name: the names of the existing labs, or the
/// command that makes one.
fn existing_labs_hint(names: &[String]) -> String {
    if names.is_empty() { "; `icdc lab up` makes one".to_owned() } else { format!("; there are: {}", names.join(", ")) }
}

impl LabError {
    /// An operation that the kernel refused: `what` completes "cannot …".
    pub fn io(what: impl Into<String>, cause: io::Error) -> Self {
        Self::Io { what: what.into(), cause }
    }
}
