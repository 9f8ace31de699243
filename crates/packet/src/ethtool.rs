//! Questions and orders to the driver of a device (`ethtool`): by ioctl, so that no program is
//! needed.
//!
//! Anybody may ask. What a driver does not have is `None`.

use std::mem::size_of;
use std::os::fd::AsRawFd;

use icdc_units::Rate;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::PacketError;

/// Flow control of the link (`ethtool -a`): a side whose buffers fill asks the other one to pause
/// (IEEE 802.3x).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Whether both sides agree on flow control by autonegotiation.
    pub negotiated: bool,
    /// Whether this side obeys PAUSE frames that it receives.
    pub receive: bool,
    /// Whether this side sends PAUSE frames.
    pub transmit: bool,
}

/// Sizes of the receive and transmit rings between the device and the kernel, in packets
/// (`ethtool -g`), with their maxima.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    /// Size of the ring for packets that arrive, in packets.
    pub receive: u32,
    /// Largest size of the ring for packets that arrive.
    pub receive_most: u32,
    /// Size of the ring for packets that leave, in packets.
    pub transmit: u32,
    /// Largest size of the ring for packets that leave.
    pub transmit_most: u32,
}

/// Name of the system call in errors.
const CALL: &str = "ioctl(SIOCETHTOOL)";
/// Number of the ioctl for commands to a driver.
const SIOCETHTOOL: libc::Ioctl = 0x8946;
// linux/ethtool.h
/// Command `ETHTOOL_GSET`, which reads the link's settings.
const GET_SETTINGS: u32 = 0x01;
/// Command `ETHTOOL_GDRVINFO`, which reads the driver's name.
const GET_DRIVER: u32 = 0x03;
/// Command `ETHTOOL_GRINGPARAM`, which reads the rings' sizes.
const GET_RINGS: u32 = 0x10;
/// Command `ETHTOOL_GPAUSEPARAM`, which reads the flow control.
const GET_PAUSE: u32 = 0x12;

/// Flow control of `device` in this thread's network namespace; `None` if its driver has none.
pub fn pause(device: &str) -> Result<Option<Pause>, PacketError> {
    // struct ethtool_pauseparam: command, autoneg, rx_pause, tx_pause.
    let mut words = [GET_PAUSE, 0, 0, 0];
    let answered = ask(device, &mut words)?;
    let [_, negotiated, receive, transmit] = words.map(|word| word != 0);
    Ok(answered.then_some(Pause { negotiated, receive, transmit }))
}

/// Ring sizes of `device` in this thread's network namespace; `None` if its driver has no rings.
pub fn rings(device: &str) -> Result<Option<Rings>, PacketError> {
    // struct ethtool_ringparam: command, most of rx, rx_mini, rx_jumbo, tx, then the present sizes
    // of the same.
    let mut words = [GET_RINGS, 0, 0, 0, 0, 0, 0, 0, 0];
    let answered = ask(device, &mut words)?;
    let [_, receive_most, _, _, transmit_most, receive, _, _, transmit] = words;
    Ok(answered.then_some(Rings { receive, receive_most, transmit, transmit_most }))
}

/// Name of the driver of `device` in this thread's network namespace, such as `e1000e` or `veth`;
/// `None` if it tells none.
pub fn driver(device: &str) -> Result<Option<String>, PacketError> {
    // struct ethtool_drvinfo: command, driver and four more names of 32 bytes, 12 bytes reserved,
    // five lengths.
    let mut words = [0; 49];
    words[0] = GET_DRIVER;
    if !ask(device, &mut words)? {
        return Ok(None);
    }
    let name: Vec<u8> = words[1..9].iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
    Ok(Some(String::from_utf8_lossy(&name).into_owned()))
}

/// Rate of the link of `device` in this thread's network namespace; `None` if its driver tells
/// none, or nothing is plugged in.
pub fn speed(device: &str) -> Result<Option<Rate>, PacketError> {
    // struct ethtool_cmd: the lower half of the speed begins the fourth word, the upper half the
    // eighth.
    let mut words = [0; 11];
    words[0] = GET_SETTINGS;
    let answered = ask(device, &mut words)?;
    let half = |word: u32| {
        let [a, b, ..] = word.to_ne_bytes();
        u64::from(u16::from_ne_bytes([a, b]))
    };
    let megabits = half(words[7]) << 16 | half(words[3]);
    let known = answered && megabits != 0 && megabits != 0xffff && megabits != 0xffff_ffff;
    Ok(known.then(|| Rate::from_bits_per_second(megabits * 1_000_000)))
}

/// Like [`exchange`], but a command that the driver does not support is no error: returns false.
fn ask<const WORDS: usize>(device: &str, words: &mut [u32; WORDS]) -> Result<bool, PacketError> {
    match exchange(device, words) {
        Ok(()) => Ok(true),
        Err(error) if error.cause.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Passes a command, which is the first of `words`, with its parameters to the driver, which
/// replaces them by its answer. There must be as many words as the command's structure has.
///
/// # Errors
/// See [`PacketError`].
pub(crate) fn exchange<const WORDS: usize>(device: &str, words: &mut [u32; WORDS]) -> Result<(), PacketError> {
    if device.len() >= libc::IFNAMSIZ {
        return Err(PacketError::new(CALL, device, std::io::Error::from_raw_os_error(libc::ENODEV)));
    }
    let fd = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .map_err(|errno| PacketError::new("socket", device, errno))?;
    // SAFETY: all zeros is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    const { assert!(size_of::<[u32; WORDS]>() >= 8) };
    // SAFETY: the request names a device and points to words of the size that the command takes,
    // alive and not otherwise used through the call.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    // More than zero: the driver has changed other features as well.
    if result >= 0 { Ok(()) } else { Err(PacketError::last(CALL, device)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offloads::{self, Feature};

    #[test]
    fn the_loopback_device_has_offloads_and_no_hardware() {
        assert_eq!(pause("lo").unwrap(), None);
        assert_eq!(rings("lo").unwrap(), None);
        assert_eq!(speed("lo").unwrap(), None);
        assert_eq!(driver("lo").unwrap(), None);
        assert!(offloads::get("lo", Feature::GenericSegmentation).is_ok());
    }

    #[test]
    fn a_device_that_is_not_there_is_told() {
        for name in ["no-such-device", "far-too-long-for-a-device"] {
            assert_eq!(pause(name).unwrap_err().cause.raw_os_error(), Some(libc::ENODEV), "{name}");
        }
    }
}
