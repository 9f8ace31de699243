//! Errors of wire pacing.

use std::path::PathBuf;

use icdc_netlink::NetlinkError;
use icdc_packet::PacketError;
use icdc_scheduler::TreeError;
use thiserror::Error;

/// Reason why a device is not paced, or not any more.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WireError {
    /// The device cannot be used so.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// The rate of the line was not given, and the device does not report it.
    #[error("{device} does not say how fast its line is: give --line-rate, such as 1gbit")]
    LineRate {
        /// Name of the device.
        device: String,
    },
    /// Gap frames would pace nothing.
    #[error(
        "{device} ({driver}) is charged for nothing, so gap frames cannot keep frames apart there: use --mode timer, \
         which paces as exactly as the system's timer wakes icdc"
    )]
    NotCharged {
        /// Name of the device.
        device: String,
        /// Name of the device's driver.
        driver: String,
    },
    /// Another wire pacer runs on the device.
    #[error("{device} is paced already: one pacer at a time can have it")]
    Busy {
        /// Name of the device.
        device: String,
    },
    /// The kernel would drop what arrives.
    #[error(
        "{device}: what arrives there would be dropped, because it is not where answers leave (rp_filter is 1); as root: \
         sysctl net.ipv4.conf.{device}.rp_filter=2"
    )]
    ReversePath {
        /// Name of the device.
        device: String,
    },
    /// The file of classes cannot be used.
    #[error("{}: {reason}", .path.display())]
    Classes {
        /// Path of the file with the classes.
        path: PathBuf,
        /// Fault of the file.
        reason: String,
    },
    /// The classes of the file cannot be.
    #[error("{}: {cause}", .path.display())]
    Tree {
        /// Path of the file with the classes.
        path: PathBuf,
        /// Fault of the tree of classes.
        cause: TreeError,
    },
    /// There is no such device.
    #[error("{device}: there is no such network device; `ip link` lists those of this host")]
    NoDevice {
        /// Name of the missing device.
        device: String,
    },
    /// The device has no hardware address of Ethernet.
    #[error("{device} is no Ethernet device: only those can be paced")]
    NotEthernet {
        /// Name of the device.
        device: String,
    },
    /// The kernel does not return or change devices and routes.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

impl WireError {
    /// Whether the command requested something impossible, so that the usage is wrong.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::LineRate { .. } | Self::NotCharged { .. } | Self::Classes { .. } | Self::Tree { .. })
    }

    /// Whether it failed for lack of privileges: another user, such as root, could do it.
    #[must_use]
    pub fn lacks_privilege(&self) -> bool {
        match self {
            Self::Packet(error) => error.cause.kind() == std::io::ErrorKind::PermissionDenied,
            Self::Netlink(error) => error.lacks_privilege(),
            _ => false,
        }
    }
}
