//! Offloads of a device (`ethtool -k`).

use crate::{PacketError, ethtool};

/// Offload of a network device that can be switched on and off (`ethtool -K`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// The device cuts TCP packets of many segments (TSO).
    TcpSegmentation,
    /// The stack cuts them just before the device (GSO).
    GenericSegmentation,
    /// The stack joins segments that arrive (GRO).
    GenericReceive,
}

impl Feature {
    /// The ethtool command that reads the feature; the one that sets it is the next number.
    const fn command(self) -> u32 {
        // linux/ethtool.h: ETHTOOL_GTSO, ETHTOOL_GGSO, ETHTOOL_GGRO.
        match self {
            Self::TcpSegmentation => 0x1e,
            Self::GenericSegmentation => 0x23,
            Self::GenericReceive => 0x2b,
        }
    }
}

/// Switches an offload of `device` in this thread's network namespace on or off.
///
/// # Errors
/// See [`PacketError`].
pub fn set(device: &str, feature: Feature, on: bool) -> Result<(), PacketError> {
    ethtool::exchange(device, &mut [feature.command() + 1, u32::from(on)])
}

/// Whether `device` in this thread's network namespace has an offload switched on. Needs no
/// privilege.
///
/// # Errors
/// See [`PacketError`].
pub fn get(device: &str, feature: Feature) -> Result<bool, PacketError> {
    let mut words = [feature.command(), 0];
    ethtool::exchange(device, &mut words)?;
    Ok(words[1] != 0)
}
