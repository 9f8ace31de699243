//! A receive ring that the kernel fills (`PACKET_RX_RING`, `TPACKET_V2`) and whose frames may stay in it.
//!
//! ```text
//! block 0                     block 1
//! ┌──────┬──────┬──────┬┐     ┌──────┬──────┬──────┬┐        slot:
//! │slot 0│slot 1│slot 2││     │slot 3│ …    │      ││        tpacket2_hdr · sockaddr_ll · virtio_net_hdr · frame
//! └──────┴──────┴──────┴┘     └──────┴──────┴──────┴┘
//!     ▲ oldest not given back      ▲ next to be filled
//! ```
//!
//! The kernel fills slots in turn as long as the next one is its own; one that is not makes it drop what
//! arrives, which [`Ring::overflow`] counts. Slots may be given back in any order. A frame is copied once, in
//! the sender's context, with the time at which it was sent.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use icdc_units::{ByteCount, Time};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::clock::FromDate;
use crate::offload::{self, Offload};
use crate::{PacketError, socket};

/// Bytes of a slot before the frame: `TPACKET_ALIGN(TPACKET2_HDRLEN) + sizeof(virtio_net_hdr) − 14`, as
/// `tpacket_rcv` lays them out for Ethernet, rounded up.
const BEFORE_FRAME: usize = 80;
/// `TPACKET_ALIGNMENT`.
const ALIGNMENT: usize = 16;
/// Status of a slot that has been handed out: neither the kernel's nor new. The kernel has no use for the bit.
const TAKEN: u32 = 1 << 20;
/// Sizes of blocks to choose from.
const BLOCKS: [usize; 7] = [64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20];

/// How a ring is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    slot: usize,
    block: usize,
    blocks: usize,
}

impl Geometry {
    /// The ring of at most `memory` bytes, but at least one block, for frames of at most `longest` bytes
    /// (Ethernet header included).
    #[must_use]
    pub fn within(memory: ByteCount, longest: ByteCount) -> Self {
        let slot = (BEFORE_FRAME + longest.as_usize()).next_multiple_of(ALIGNMENT);
        // The block with the least waste at its end; of equals the smallest.
        let block = BLOCKS
            .into_iter()
            .filter(|&block| block >= slot)
            .min_by(|&a, &b| (waste(a, slot) * b).cmp(&(waste(b, slot) * a)))
            .unwrap_or_else(|| slot.next_multiple_of(4096));
        Self { slot, block, blocks: (memory.as_usize() / block).max(1) }
    }

    /// Frames that fit in.
    #[must_use]
    pub fn slots(self) -> usize {
        self.per_block() * self.blocks
    }

    /// Memory that it takes.
    #[must_use]
    pub fn memory(self) -> ByteCount {
        ByteCount::new((self.block * self.blocks) as u64)
    }

    /// The longest frame that fits into a slot.
    #[must_use]
    pub fn longest(self) -> usize {
        self.slot - BEFORE_FRAME
    }

    fn per_block(self) -> usize {
        self.block / self.slot
    }

    fn offset(self, slot: usize) -> usize {
        slot / self.per_block() * self.block + slot % self.per_block() * self.slot
    }
}

fn waste(block: usize, slot: usize) -> usize {
    block % slot
}

/// A frame in a ring, until it is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    index: u32,
    /// Where the header of the frame's offloads begins, in the slot.
    start: u16,
}

/// A frame that has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Where it is.
    pub slot: Slot,
    /// When it was sent into the device.
    pub at: Time,
    /// Its length, Ethernet header included.
    pub length: usize,
    /// What its sender left to be done.
    pub offload: Offload,
    /// It was longer than a slot and the rest is lost.
    pub truncated: bool,
}

/// See the module's description.
pub struct Ring {
    device: String,
    fd: OwnedFd,
    geometry: Geometry,
    memory: NonNull<u8>,
    next: usize,
    overflow: u64,
}

// SAFETY: the mapping belongs to the ring alone and has no thread of its own.
unsafe impl Send for Ring {}

impl Ring {
    /// Begins to receive what is sent into `device` of this thread's network namespace.
    pub fn open(device: &str, geometry: Geometry) -> Result<Self, PacketError> {
        let fd = socket::open(device)?;
        let packet = |option, value: libc::c_int, call| socket::set(&fd, device, libc::SOL_PACKET, option, value, call);
        packet(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as i32, "setsockopt(PACKET_VERSION)")?;
        packet(libc::PACKET_VNET_HDR, 1, "setsockopt(PACKET_VNET_HDR)")?;
        packet(PACKET_IGNORE_OUTGOING, 1, "setsockopt(PACKET_IGNORE_OUTGOING)")?;
        let stamps = libc::SOF_TIMESTAMPING_SOFTWARE as libc::c_int;
        packet(libc::PACKET_TIMESTAMP, stamps, "setsockopt(PACKET_TIMESTAMP)")?;
        // Has frames stamped as they are sent, not as they are copied into the ring.
        socket::set(&fd, device, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1_i32, "setsockopt(SO_TIMESTAMPNS)")?;
        let request = libc::tpacket_req {
            tp_block_size: geometry.block as u32,
            tp_block_nr: geometry.blocks as u32,
            tp_frame_size: geometry.slot as u32,
            tp_frame_nr: geometry.slots() as u32,
        };
        socket::set(&fd, device, libc::SOL_PACKET, libc::PACKET_RX_RING, request, "setsockopt(PACKET_RX_RING)")?;
        let length = geometry.memory().as_usize();
        // SAFETY: a new mapping at an address of the kernel's choice; no memory in use is touched.
        let mapped =
            unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &fd, 0) };
        let mapped = mapped.map_err(|error| PacketError::new("mmap(PACKET_RX_RING)", device, error))?;
        let memory = NonNull::new(mapped.cast()).expect("mmap does not give the null page");
        let ring = Self { device: device.to_owned(), fd, geometry, memory, next: 0, overflow: 0 };
        socket::bind(&ring.fd, device, libc::ETH_P_ALL as u16)?;
        Ok(ring)
    }

    /// Hands what has arrived to `take`, at most `limit` frames, oldest first; gives their number.
    ///
    /// Every frame stays in the ring until [`Ring::give_back`].
    pub fn receive(&mut self, limit: usize, mut take: impl FnMut(&Self, Arrival)) -> usize {
        let mut from_date = None;
        for count in 0..limit.min(self.geometry.slots()) {
            let Some(arrival) = self.arrival(self.next, &mut from_date) else { return count };
            self.status(self.next).store(TAKEN, Ordering::Relaxed);
            self.next = (self.next + 1) % self.geometry.slots();
            take(self, arrival);
        }
        limit
    }

    /// How it is laid out.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The frame as it arrived, without the header of its offloads.
    #[must_use]
    pub fn frame(&self, slot: Slot, length: usize) -> &[u8] {
        &self.frame_with_offload(slot, length)[offload::LENGTH..]
    }

    /// What an [`Outlet`](crate::Outlet) sends: the header of its offloads and the frame.
    #[must_use]
    pub fn frame_with_offload(&self, slot: Slot, length: usize) -> &[u8] {
        let length = (offload::LENGTH + length).min(self.geometry.slot - usize::from(slot.start));
        // SAFETY: the range lies within the slot, and the kernel does not write there until the slot is
        // given back, which needs the ring exclusively.
        unsafe {
            std::slice::from_raw_parts(self.at(slot.index as usize).add(usize::from(slot.start)).as_ptr(), length)
        }
    }

    /// Lets the kernel fill the slot again.
    pub fn give_back(&mut self, slot: Slot) {
        self.status(slot.index as usize).store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }

    /// Frames that found no free slot, since the ring was opened.
    pub fn overflow(&mut self) -> Result<u64, PacketError> {
        self.overflow += socket::drops(&self.fd, &self.device)?;
        Ok(self.overflow)
    }

    /// The slot's frame if the kernel has filled it and [`Ring::receive`] has not handed it out.
    fn arrival(&self, index: usize, from_date: &mut Option<FromDate>) -> Option<Arrival> {
        let status = self.status(index).load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the kernel has written a header there and left the slot to this process.
        let header = unsafe { self.at(index).cast::<libc::tpacket2_hdr>().read() };
        let start = header.tp_mac - offload::LENGTH as u16;
        // SAFETY: the header of the offloads lies before the frame, in the same slot.
        let offload =
            unsafe { std::slice::from_raw_parts(self.at(index).add(usize::from(start)).as_ptr(), offload::LENGTH) };
        let clock = *from_date.get_or_insert_with(FromDate::now);
        Some(Arrival {
            slot: Slot { index: index as u32, start },
            at: clock.monotonic(header.tp_sec, header.tp_nsec),
            length: header.tp_snaplen as usize,
            offload: Offload::parse(offload).expect("the slice has its length"),
            truncated: header.tp_snaplen < header.tp_len,
        })
    }

    fn at(&self, index: usize) -> NonNull<u8> {
        // SAFETY: indices are below the number of slots, all of which lie in the mapping.
        unsafe { self.memory.add(self.geometry.offset(index)) }
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: a slot begins with its status, aligned to 16 bytes, which kernel and process share.
        unsafe { AtomicU32::from_ptr(self.at(index).cast().as_ptr()) }
    }
}

impl AsFd for Ring {
    /// For poll: readable when a frame is there.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `open`, to which no reference is left.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), self.geometry.memory().as_usize()) };
    }
}

/// `PACKET_IGNORE_OUTGOING` (linux/if_packet.h, 4.20).
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_wastes_little_and_stays_within_its_memory() {
        for longest in [1514, 9014, 65_549] {
            let geometry = Geometry::within(ByteCount::from_mib(26), ByteCount::new(longest));
            assert!(geometry.memory() <= ByteCount::from_mib(26));
            let used = geometry.slots() as f64 * longest as f64;
            assert!(used > 0.85 * 26e6 * 1.048, "{longest}: {used}");
            assert_eq!(geometry.block % 4096, 0);
        }
        assert!(Geometry::within(ByteCount::new(1), ByteCount::new(1514)).slots() > 0);
    }

    #[test]
    fn slots_do_not_cross_blocks() {
        let geometry = Geometry::within(ByteCount::from_mib(4), ByteCount::new(1514));
        for slot in 0..geometry.slots() {
            let offset = geometry.offset(slot);
            assert_eq!(offset / geometry.block, (offset + geometry.slot - 1) / geometry.block);
            assert!(offset + geometry.slot <= geometry.memory().as_usize());
        }
    }
}
