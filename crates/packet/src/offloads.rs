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

/// Name of the feature by which a device cuts runs of datagrams (`UDP_SEGMENT`), since Linux 4.18.
const DATAGRAMS: &str = "tx-udp-segmentation";
// linux/ethtool.h
/// Command `ETHTOOL_GSSET_INFO`, which reads how many names a set has.
const GET_SET_SIZE: u32 = 0x37;
/// Command `ETHTOOL_GSTRINGS`, which reads names, and the set of names that are features (`ETH_SS_FEATURES`).
const GET_STRINGS: u32 = 0x1b;
const FEATURES: u32 = 4;
/// Command `ETHTOOL_SFEATURES`, which sets features.
const SET_FEATURES: u32 = 0x3b;
/// Number of features at most: the kernel has one bit of 64 for each. A name has 32 bytes.
const MOST_FEATURES: usize = 64;
const NAME_WORDS: usize = 8;

/// Switches off that `device` in this thread's network namespace segments UDP, so that the stack cuts runs of datagrams before
/// them. Does nothing where the kernel does not know of such runs, or has more features than are known here.
///
/// # Errors
/// See [`PacketError`].
pub fn disable_udp_segmentation(device: &str) -> Result<(), PacketError> {
    // struct ethtool_sset_info: command, reserved, mask of sets in 64 bits, a size for each set of the mask.
    let mut sizes = [GET_SET_SIZE, 0, 1 << FEATURES, 0, 0];
    ethtool::exchange(device, &mut sizes)?;
    let count = sizes[4] as usize;
    if count > MOST_FEATURES {
        return Ok(());
    }
    let mut names = [0; 3 + MOST_FEATURES * NAME_WORDS];
    (names[0], names[1]) = (GET_STRINGS, FEATURES);
    ethtool::exchange(device, &mut names)?;
    let is_it = |name: &[u32]| {
        let bytes = name.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0);
        bytes.eq(DATAGRAMS.bytes())
    };
    let Some(index) = names[3..].chunks(NAME_WORDS).take(count).position(is_it) else { return Ok(()) };
    // struct ethtool_sfeatures: command, number of blocks of 32 features; for each which are set, and how.
    let blocks = count.div_ceil(32) as u32;
    let mut words = [SET_FEATURES, blocks, 0, 0, 0, 0];
    words[2 + index / 32 * 2] = 1 << (index % 32);
    ethtool::exchange(device, &mut words)
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
