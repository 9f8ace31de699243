//! The frames that host a sends, one by one: a file beside the page to which the wire appends as it
//! goes.
//!
//! ```text
//! record: 8 bytes   monotonic time in nanoseconds at which the line has brought all of it to the path
//!         4 bytes   its length on the wire
//!         4 bytes   where it goes: the IPv4 address, the last four bytes of an IPv6 address, or zero
//! ```
//!
//! Numbers are little endian. Gap frames, and what exceeds the line, are not listed.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use icdc_units::{ByteCount, Time};

/// Length of a record in bytes.
const RECORD: usize = 16;
/// EtherType of IPv4, as in a frame.
const IPV4: [u8; 2] = [0x08, 0x00];
/// EtherType of IPv6, as in a frame.
const IPV6: [u8; 2] = [0x86, 0xdd];

/// A frame in the wire's list of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Time at which the path had received the frame.
    pub at: Time,
    /// Length of the frame on the wire.
    pub length: ByteCount,
    /// Destination: the IPv4 address, the last four bytes of an IPv6 address, or zero.
    pub to: u32,
}

/// Writer of the list of frames.
pub(super) struct Listing {
    file: File,
    /// Records that are not yet written to the file.
    noted: Vec<u8>,
    /// Number of frames that may still be listed.
    room: u64,
}

impl Listing {
    /// An empty list that holds the first `limit` frames.
    pub(super) fn create(path: &Path, limit: u64) -> io::Result<Self> {
        Ok(Self { file: File::create_new(path)?, noted: Vec::new(), room: limit })
    }

    /// Adds a frame to the list, unless the list has reached its limit; [`Self::publish`] writes it
    /// to the file.
    pub(super) fn note(&mut self, listed: Listed) {
        if self.room == 0 {
            return;
        }
        self.room -= 1;
        self.noted.extend(listed.at.as_nanos().to_le_bytes());
        self.noted.extend((listed.length.as_u64() as u32).to_le_bytes());
        self.noted.extend(listed.to.to_le_bytes());
    }

    /// Writes the records so far to the file. A record that cannot be written ends the list: it has
    /// no holes.
    pub(super) fn publish(&mut self) {
        if let Err(error) = self.file.write_all(&self.noted) {
            tracing::warn!("the list of frames ends: {error}");
            self.room = 0;
        }
        self.noted.clear();
    }
}

/// Reads the frames in the list's file at `path`, as far as the wire has written them.
///
/// # Errors
/// The kernel refuses a system call.
pub fn read(path: &Path) -> io::Result<Vec<Listed>> {
    let text = fs::read(path)?;
    let listed = |record: &[u8; RECORD]| {
        let [a, b, c, d, e, f, g, h, length @ .., i, j, k, l] = *record;
        Listed {
            at: Time::from_nanos(u64::from_le_bytes([a, b, c, d, e, f, g, h])),
            length: ByteCount::new(u32::from_le_bytes(length).into()),
            to: u32::from_le_bytes([i, j, k, l]),
        }
    };
    Ok(text.as_chunks().0.iter().map(listed).collect())
}

/// Destination of an Ethernet frame, see the module's description; 0 if it is no IP packet or too
/// short.
pub(super) fn destination(frame: &[u8]) -> u32 {
    let at = match frame.get(12..14) {
        Some(kind) if kind == IPV4 => 30,
        Some(kind) if kind == IPV6 => 50,
        _ => return 0,
    };
    frame.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_read_up_to_the_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("frames");
        let mut listing = Listing::create(&path, 3).unwrap();
        let listed = |number: u64| Listed {
            at: Time::from_nanos(number << 40),
            length: ByteCount::new(1538 + number),
            to: 0x0a1b_0001 + number as u32,
        };
        listing.note(listed(0));
        listing.publish();
        assert_eq!(read(&path).unwrap(), [listed(0)]);
        for number in 1..5 {
            listing.note(listed(number));
        }
        listing.publish();
        assert_eq!(read(&path).unwrap(), [listed(0), listed(1), listed(2)]);
    }

    #[test]
    fn destinations_are_read_where_there_are_any() {
        let mut frame = [0; 60];
        frame[12..14].copy_from_slice(&IPV4);
        frame[30..34].copy_from_slice(&[10, 27, 0, 1]);
        assert_eq!(destination(&frame), u32::from(std::net::Ipv4Addr::new(10, 27, 0, 1)));
        frame[12..14].copy_from_slice(&IPV6);
        frame[50..54].copy_from_slice(&[0, 0, 0, 2]);
        assert_eq!((destination(&frame), destination(&frame[..40]), destination(&[0; 60])), (2, 0, 0));
    }
}
