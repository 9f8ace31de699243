//! What a device leaves to others (`ethtool -k`): by ioctl, so that no program is needed.

use std::mem::size_of;
use std::os::fd::AsRawFd;

use crate::{PacketError, socket};

/// Features of a device that can be switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// The device cuts TCP packets of many segments (TSO).
    TcpSegmentation,
    /// The stack cuts them just before the device (GSO).
    GenericSegmentation,
    /// What arrives is put together again (GRO).
    GenericReceive,
}

impl Feature {
    const fn command(self) -> u32 {
        // linux/ethtool.h: ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO.
        match self {
            Self::TcpSegmentation => 0x1f,
            Self::GenericSegmentation => 0x24,
            Self::GenericReceive => 0x2c,
        }
    }
}

const SIOCETHTOOL: libc::Ioctl = 0x8946;

#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// Switches a feature of `device` in this thread's network namespace.
pub fn set(device: &str, feature: Feature, on: bool) -> Result<(), PacketError> {
    const CALL: &str = "ioctl(SIOCETHTOOL)";
    if device.len() >= libc::IFNAMSIZ {
        return Err(PacketError::new(CALL, device, std::io::Error::from_raw_os_error(libc::ENODEV)));
    }
    let fd = socket::open(device)?;
    let mut value = EthtoolValue { command: feature.command(), data: u32::from(on) };
    // SAFETY: all zeros is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    const { assert!(size_of::<EthtoolValue>() == 8) };
    // SAFETY: the request names a device and points to a value of the size that the command takes, alive
    // through the call.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if result == 0 { Ok(()) } else { Err(PacketError::last(CALL, device)) }
}
