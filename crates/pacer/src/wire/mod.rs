//! The wire pacer: what a host sends through a device, in classes, by byte clocks.
//!
//! ```text
//! applications ─► TCP/IP ─► routes ─► tap ─► filters ─► byte clocks ─► AF_PACKET ─► device ═► wire
//!                              ▲       (ours)                 │ gap mode: PAUSE frames fill the gaps
//!                              └── copies of the device's own, preferred while the tap is there
//! device ═► TCP/IP             what arrives takes the usual way; only answers of neighbours go to the tap as well
//! ```
//!
//! The tap has the device's hardware address and MTU, and copies of its routes and permanent neighbours. Nothing of the device is changed.
//! The tap is held by a descriptor: however this process ends, it goes, its routes go, and the host sends as before.
//!
//! | mode | what keeps frames apart | precision |
//! |---|---|---|
//! | timer | the system's timer wakes the process when a frame is due | what the process is late, it sends in one bunch |
//! | gap | gap frames that fill the line, where something is charged for them | that of the line, as long as the process is not later than [`LEAD`] |
//!
//! | part | file |
//! |---|---|
//! | what line a device has, and whether gap frames are charged there | `line` |
//! | classes as a file describes them | `classes` |
//! | tap, routes, neighbours | `detour` |
//! | frames and gap frames in memory | `frames` |
//! | positions on the line and times | `line_clock` |
//! | the loop | `pump` |
//! | how bursty each class leaves | `bursts` |
//! | what others may see and ask of it | `control` |

mod bursts;
mod classes;
mod control;
mod detour;
mod frames;
mod line;
mod line_clock;
mod pump;

use std::path::PathBuf;

use icdc_control::byte_clock::{Tree, TreeError};
use icdc_packet::PacketError;
use thiserror::Error;

pub use classes::Classes;
pub use control::{ClassStatus, Control, Status};
pub use line::{LEAD, Line, Mode};

use crate::ip::IpError;
use detour::Detour;
use pump::Pump;

/// A device whose traffic is paced, until dropped.
pub struct WirePacer {
    pump: Pump,
    _detour: Detour,
}

impl WirePacer {
    /// Takes over what the host sends through the device of `line`, in this thread's network namespace.
    ///
    /// # Errors
    /// See [`WireError`]; the host sends as before.
    pub fn open(line: &Line, tree: Tree) -> Result<Self, WireError> {
        let (detour, tap) = Detour::prepare(&line.device)?;
        let pump = Pump::new(line, tree, tap, &detour)?;
        // Nothing is lost on the way before there is somebody to take it.
        detour.divert()?;
        Ok(Self { pump, _detour: detour })
    }

    /// Paces until `control` says stop.
    ///
    /// # Errors
    /// The device is gone, or the kernel refuses to go on.
    pub fn run(&mut self, control: &Control) -> Result<(), WireError> {
        self.pump.run(control)
    }
}

/// What can go wrong with wire pacing.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WireError {
    /// The device cannot be used so.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// Nobody said how fast the line is, and the device does not know.
    #[error("{device} does not say how fast its line is: give --line-rate, such as 1gbit")]
    LineRate {
        /// The device.
        device: String,
    },
    /// Gap frames would pace nothing.
    #[error(
        "{device} ({driver}) is charged for nothing, so gap frames cannot keep frames apart there: use --mode timer, \
         which paces as exactly as the system's timer wakes icdc"
    )]
    NotCharged {
        /// The device.
        device: String,
        /// Its driver.
        driver: String,
    },
    /// Another one is there.
    #[error("{device} is paced already: one pacer at a time can have it")]
    Busy {
        /// The device.
        device: String,
    },
    /// The kernel would drop what arrives.
    #[error(
        "{device}: what arrives there would be dropped, because it is not where answers leave (rp_filter is 1); as root: \
         sysctl net.ipv4.conf.{device}.rp_filter=2"
    )]
    ReversePath {
        /// The device.
        device: String,
    },
    /// The file of classes cannot be used.
    #[error("{}: {reason}", .path.display())]
    Classes {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The classes of the file cannot be.
    #[error("{}: {cause}", .path.display())]
    Tree {
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: TreeError,
    },
    /// A program of the system failed.
    #[error(transparent)]
    Ip(#[from] IpError),
}

impl WireError {
    /// Whether the command asked for something that cannot be.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::LineRate { .. } | Self::NotCharged { .. } | Self::Classes { .. } | Self::Tree { .. })
    }

    /// Whether another user, such as root, could do it.
    #[must_use]
    pub fn lacks_privilege(&self) -> bool {
        matches!(self, Self::Packet(error) if error.cause.kind() == std::io::ErrorKind::PermissionDenied)
    }
}
