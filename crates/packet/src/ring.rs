//! Frames of a device in a ring that the kernel fills, in which they can be kept.
//!
//! ```text
//! slot: tpacket2_hdr · sockaddr_ll · virtio_net_hdr · frame
//! ```
//!
//! A program that delays frames needs no other memory for them: slots may be given back in any
//! order. Frames that arrive while the next slot is still in use are counted ([`Ring::overflow`]).

use std::os::fd::{AsFd, BorrowedFd};

use icdc_units::{ByteCount, Time};

use crate::clock::FromDate;
use crate::mapped::{Filled, Layout, MappedRing};
use crate::offload::{self, Offload};
use crate::{PacketError, socket};

/// Bytes of a slot before the frame: `TPACKET_ALIGN(TPACKET2_HDRLEN) + sizeof(virtio_net_hdr) −
/// 14`, as `tpacket_rcv` lays them out for Ethernet, rounded up.
const BEFORE_FRAME: usize = 80;
/// Alignment of the headers in the ring (`TPACKET_ALIGNMENT`), in bytes.
const ALIGNMENT: usize = 16;
/// Sizes of blocks to choose from, in bytes.
const BLOCKS: [usize; 7] = [64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20];

/// Layout of a ring: the sizes of its slots and blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry(Layout);

impl Geometry {
    /// The ring of at most `memory` bytes, but at least one block, for frames of at most `longest`
    /// bytes (Ethernet header included).
    #[must_use]
    pub fn within(memory: ByteCount, longest: ByteCount) -> Self {
        let slot = (BEFORE_FRAME + longest.as_usize()).next_multiple_of(ALIGNMENT);
        // The block with the least waste at its end; of equals the smallest.
        let block = BLOCKS
            .into_iter()
            .filter(|&block| block >= slot)
            .min_by(|&a, &b| (waste(a, slot) * b).cmp(&(waste(b, slot) * a)))
            .unwrap_or_else(|| slot.next_multiple_of(4096));
        Self(Layout { slot, block, blocks: (memory.as_usize() / block).max(1) })
    }

    /// Memory that a ring of this layout takes.
    #[must_use]
    pub fn memory(self) -> ByteCount {
        ByteCount::new(self.0.length() as u64)
    }

    /// Length of the longest frame that fits into a slot, in bytes.
    #[must_use]
    pub fn longest(self) -> usize {
        self.0.slot - BEFORE_FRAME
    }
}

/// Bytes at the end of a block that no whole slot fits into.
fn waste(block: usize, slot: usize) -> usize {
    block % slot
}

/// Handle of a frame that a [`Ring`] holds, until the slot is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    index: u32,
    /// Offset in the slot of the header of the frame's offloads.
    start: u16,
}

/// A frame that has arrived in a [`Ring`], with its time, length and offloads.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Slot of the ring that holds the frame.
    pub slot: Slot,
    /// Time at which the frame was sent into the device.
    pub at: Time,
    /// Length of the frame in bytes, Ethernet header included.
    pub length: usize,
    /// Work that the frame's sender left to the device.
    pub offload: Offload,
    /// Whether the frame was longer than a slot, and the rest is lost.
    pub truncated: bool,
}

/// A ring of slots, shared with the kernel, in which a device's frames arrive.
pub struct Ring {
    slots: MappedRing,
}

impl Ring {
    /// Begins to receive frames that are sent into `device` of this thread's network namespace.
    ///
    /// # Errors
    /// See [`PacketError`].
    pub fn open(device: &str, geometry: Geometry) -> Result<Self, PacketError> {
        let fd = socket::open(device)?;
        socket::set(&fd, device, socket::VNET_HEADER, 1_i32)?;
        socket::ignore_outgoing(&fd, device)?;
        let slots = MappedRing::new(fd, device, geometry.0)?;
        socket::bind(slots.socket(), device, libc::ETH_P_ALL as u16)?;
        Ok(Self { slots })
    }

    /// Passes frames that have arrived to `take`, at most `limit`, oldest first, without waiting;
    /// returns their number.
    ///
    /// Every frame stays in the ring until [`Ring::give_back`].
    pub fn receive(&mut self, limit: usize, mut take: impl FnMut(&Self, Arrival)) -> usize {
        let mut from_date = None;
        for count in 0..limit {
            let Some(filled) = self.slots.take() else { return count };
            let arrival = self.arrival(&filled, *from_date.get_or_insert_with(FromDate::now));
            take(self, arrival);
        }
        limit
    }

    /// Layout of the ring.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        Geometry(self.slots.layout())
    }

    /// The bytes of the frame in a slot as it arrived, without the header of its offloads.
    #[must_use]
    pub fn frame(&self, slot: Slot, length: usize) -> &[u8] {
        &self.frame_with_offload(slot, length)[offload::LENGTH..]
    }

    /// The header of the frame's offloads and the frame, as an [`Outlet`](crate::Outlet) sends
    /// them.
    #[must_use]
    pub fn frame_with_offload(&self, slot: Slot, length: usize) -> &[u8] {
        self.slots.bytes(slot.index as usize, usize::from(slot.start), offload::LENGTH + length)
    }

    /// Lets the kernel fill the slot again.
    pub fn give_back(&mut self, slot: Slot) {
        self.slots.give_back(slot.index as usize);
    }

    /// Number of frames that found no free slot since the ring was opened.
    ///
    /// # Errors
    /// See [`PacketError`].
    pub fn overflow(&mut self) -> Result<u64, PacketError> {
        self.slots.overflow()
    }

    /// Describes the frame in a slot that the kernel has filled.
    fn arrival(&self, filled: &Filled, from_date: FromDate) -> Arrival {
        let Filled { index, header } = filled;
        let start = header.tp_mac - offload::LENGTH as u16;
        let offload = self.slots.bytes(*index, usize::from(start), offload::LENGTH);
        Arrival {
            slot: Slot { index: *index as u32, start },
            at: from_date.monotonic(header.tp_sec, header.tp_nsec),
            length: header.tp_snaplen as usize,
            offload: Offload::parse(offload).expect("the slice has its length"),
            truncated: header.tp_snaplen < header.tp_len,
        }
    }
}

impl AsFd for Ring {
    /// Descriptor for poll(2), readable when a frame is there.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.slots.socket().as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_wastes_little_and_stays_within_its_memory() {
        for longest in [1514, 9014, 65_549] {
            let geometry = Geometry::within(ByteCount::from_mib(26), ByteCount::new(longest));
            assert!(geometry.memory() <= ByteCount::from_mib(26));
            let used = geometry.0.slots() as f64 * longest as f64;
            assert!(used > 0.85 * 26e6 * 1.048, "{longest}: {used}");
            assert_eq!(geometry.0.block % 4096, 0);
        }
        assert!(Geometry::within(ByteCount::new(1), ByteCount::new(1514)).0.slots() > 0);
    }
}
