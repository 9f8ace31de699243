//! A network device whose other end is this process (tun.txt, `IFF_TAP`): packets that the host
//! sends into it are read here.
//!
//! The device is removed when the descriptor is closed, however this process ends, and with it all
//! routes that lead into it. The host leaves segmentation and checksums to it, as to a network
//! card. What is read may be a [`Superpacket`](crate::Superpacket), and begins with its
//! [`Offload`].

use std::fs::File;
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::{Offload, PacketError};

/// File that is opened to make a tap device.
const CLONE: &str = "/dev/net/tun";
// linux/if_tun.h
/// Number of the ioctl that makes the device (linux/if_tun.h).
const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
/// Flag: frames with their Ethernet headers.
const IFF_TAP: libc::c_short = 0x0002;
/// Flag: no header of the driver's own before each frame.
const IFF_NO_PI: libc::c_short = 0x1000;
/// Flag: the header of the offloads before each frame.
const IFF_VNET_HDR: libc::c_short = 0x4000;
/// Flag: fail if there is a device of this name.
const IFF_TUN_EXCL: u16 = 0x8000;
/// Number of the ioctl that sets the offloads of the device.
const TUNSETOFFLOAD: libc::Ioctl = 0x4004_54d0;
/// Checksum and TCP offloads of a tap device: `TUN_F_CSUM`, `TUN_F_TSO4`, `TUN_F_TSO6`,
/// `TUN_F_TSO_ECN`.
const OFFLOADS: libc::c_ulong = 0x01 | 0x02 | 0x04 | 0x08;
/// UDP offloads of a tap device, since Linux 6.2: `TUN_F_USO4`, `TUN_F_USO6`.
const DATAGRAMS: libc::c_ulong = 0x20 | 0x40;

/// A tap device: a network device whose other end is this process.
#[derive(Debug)]
pub struct Tap {
    name: String,
    file: File,
}

impl Tap {
    /// Maximum length of a packet that is read, in bytes: the [`Offload`] header, the Ethernet
    /// header (14), a VLAN tag (4), and an IP packet of the maximum length (65,535).
    pub const MOST: usize = Offload::LENGTH + 14 + 4 + 65_535;

    /// Makes the device `name` in this thread's network namespace. There must be none of that name.
    ///
    /// # Errors
    /// See [`PacketError`].
    pub fn create(name: &str) -> Result<Self, PacketError> {
        let failed = |call, error| PacketError::new(call, name, error);
        let mut options = File::options();
        let file = options.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(CLONE);
        let file = file.map_err(|error| failed("open(/dev/net/tun)", error))?;
        if name.len() >= libc::IFNAMSIZ {
            return Err(failed("ioctl(TUNSETIFF)", std::io::Error::from_raw_os_error(libc::EINVAL)));
        }
        // SAFETY: all zeros is a valid ifreq.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | IFF_TUN_EXCL as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes the ifreq, which is alive and not otherwise used
        // through the call.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &raw mut request) };
        if result != 0 {
            return Err(PacketError::last("ioctl(TUNSETIFF)", name));
        }
        // Without these features the kernel does the work before the packet is read.
        let _ = [OFFLOADS | DATAGRAMS, OFFLOADS].into_iter().any(|offloads| {
            // SAFETY: TUNSETOFFLOAD takes a number.
            unsafe { libc::ioctl(file.as_raw_fd(), TUNSETOFFLOAD, offloads) == 0 }
        });
        Ok(Self { name: name.to_owned(), file })
    }

    /// Name of the device.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the next packet that the host has sent into the device, without waiting. The
    /// buffers are filled one after the other, by the [`Offload`] and then the packet.
    /// Returns the number of bytes read, both included; `None` if there is no packet, or the
    /// device is not up yet. If the buffers are shorter than [`Tap::MOST`] in all, a longer
    /// packet is cut off unnoticed.
    ///
    /// # Errors
    /// The read fails: the device was removed, or the buffers have no room for the
    /// [`Offload`].
    pub fn read(&self, buffers: &mut [IoSliceMut<'_>]) -> Result<Option<usize>, PacketError> {
        loop {
            match (&self.file).read_vectored(buffers) {
                Ok(length) => return Ok(Some(length)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Before the device is up.
                Err(error) if error.raw_os_error() == Some(libc::EIO) => return Ok(None),
                Err(error) => return Err(PacketError::new("read", &self.name, error)),
            }
        }
    }

    /// Passes a frame to the host, as if it arrived at the device. One for which it has no room at
    /// the moment, or that comes while the device is down, is lost, as on any device.
    ///
    /// # Errors
    /// See [`PacketError`].
    pub fn write(&self, frame: &[u8]) -> Result<(), PacketError> {
        // With nothing left to be done.
        let header = [0; Offload::LENGTH];
        match (&self.file).write_vectored(&[IoSlice::new(&header), IoSlice::new(frame)]) {
            Err(error) if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EIO | libc::ENOBUFS)) => {
                Err(PacketError::new("write", &self.name, error))
            }
            _ => Ok(()),
        }
    }
}

impl AsFd for Tap {
    /// Descriptor for poll(2), readable when a frame is there.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_there_once_and_goes_with_its_holder() {
        let name = format!("tap{}", std::process::id());
        let tap = match Tap::create(&name) {
            Ok(tap) => tap,
            Err(error) => return eprintln!("SKIPPED: {error}"),
        };
        assert_eq!(tap.read(&mut [IoSliceMut::new(&mut [0; 100])]).unwrap(), None);
        assert_eq!(Tap::create(&name).unwrap_err().cause.raw_os_error(), Some(libc::EBUSY));
        drop(tap);
        assert_eq!(Tap::create(&name).unwrap().name(), name);
        assert!(Tap::create("a-name-that-is-too-long").is_err());
    }
}
