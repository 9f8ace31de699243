//! Slots in memory that the kernel fills and this process reads (`PACKET_RX_RING`, `TPACKET_V2`).
//!
//! ```text
//! block 0                     block 1
//! ┌──────┬──────┬──────┬┐     ┌──────┬──────┬──────┬┐        slot:
//! │slot 0│slot 1│slot 2││     │slot 3│ …    │      ││        tpacket2_hdr · sockaddr_ll · what the socket receives
//! └──────┴──────┴──────┴┘     └──────┴──────┴──────┴┘
//!     ▲ oldest not given back      ▲ next to be filled
//! ```
//!
//! A slot begins with its status, which tells whether the kernel or this process owns it. The
//! kernel fills slots in turn as long as it owns the next one; otherwise it drops packets, which
//! [`MappedRing::overflow`] counts. Slots may be given back in any order. A packet is copied once,
//! in the sender's context, with the time at which it was sent.

use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::socket::SocketOption;
use crate::{PacketError, socket};

/// Status of a slot that has been taken: neither the kernel's nor new. The kernel has no use for
/// the bit.
const TAKEN: u32 = 1 << 20;

/// Sizes of a ring's slots and blocks. All lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Length of a slot, a multiple of 16.
    pub(crate) slot: usize,
    /// Length of a block, a multiple of the page.
    pub(crate) block: usize,
    /// Number of blocks of the ring.
    pub(crate) blocks: usize,
}

impl Layout {
    /// Number of slots. None crosses the end of a block.
    pub(crate) const fn slots(self) -> usize {
        self.per_block() * self.blocks
    }

    /// Length of the whole ring, in bytes.
    pub(crate) const fn length(self) -> usize {
        self.block * self.blocks
    }

    /// Number of slots in a block.
    const fn per_block(self) -> usize {
        self.block / self.slot
    }

    /// Position of the slot of this index, in bytes from the ring's beginning.
    const fn offset(self, slot: usize) -> usize {
        slot / self.per_block() * self.block + slot % self.per_block() * self.slot
    }
}

/// A slot that the kernel has filled and that was taken, until it is given back.
pub(crate) struct Filled {
    pub(crate) index: usize,
    /// The kernel's header of the packet.
    pub(crate) header: libc::tpacket2_hdr,
}

/// A receive ring that the kernel and this process share, mapped into memory.
pub(crate) struct MappedRing {
    device: String,
    fd: OwnedFd,
    layout: Layout,
    memory: NonNull<u8>,
    next: usize,
    overflow: u64,
}

// SAFETY: the mapping belongs to the ring alone and has no thread of its own.
unsafe impl Send for MappedRing {}

impl MappedRing {
    /// A ring for the packets that `fd`, a packet socket, receives once it is bound, with the
    /// kernel's stamps. `device` is the name in errors.
    pub(crate) fn new(fd: OwnedFd, device: &str, layout: Layout) -> Result<Self, PacketError> {
        let version = SocketOption::packet(libc::PACKET_VERSION, "setsockopt(PACKET_VERSION)");
        socket::set(&fd, device, version, libc::tpacket_versions::TPACKET_V2 as libc::c_int)?;
        let stamps = SocketOption::packet(libc::PACKET_TIMESTAMP, "setsockopt(PACKET_TIMESTAMP)");
        socket::set(&fd, device, stamps, libc::SOF_TIMESTAMPING_SOFTWARE as libc::c_int)?;
        // Packets are stamped when they are received, not when they are copied into the ring.
        let early = SocketOption::socket(libc::SO_TIMESTAMPNS, "setsockopt(SO_TIMESTAMPNS)");
        socket::set(&fd, device, early, 1_i32)?;
        let request = libc::tpacket_req {
            tp_block_size: layout.block as u32,
            tp_block_nr: layout.blocks as u32,
            tp_frame_size: layout.slot as u32,
            tp_frame_nr: layout.slots() as u32,
        };
        let ring = SocketOption::packet(libc::PACKET_RX_RING, "setsockopt(PACKET_RX_RING)");
        socket::set(&fd, device, ring, request)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice; no memory in use is touched.
        let mapped = unsafe { mmap(std::ptr::null_mut(), layout.length(), access, MapFlags::SHARED, &fd, 0) };
        let mapped = mapped.map_err(|error| PacketError::new("mmap(PACKET_RX_RING)", device, error))?;
        let memory = NonNull::new(mapped.cast()).expect("mmap does not give the null page");
        Ok(Self { device: device.to_owned(), fd, layout, memory, next: 0, overflow: 0 })
    }

    /// The packet socket to which the ring belongs.
    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.fd
    }

    /// Layout of the mapped ring.
    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// Takes the oldest slot that is filled and not taken yet; `None` if there is none. The kernel
    /// leaves it alone until it is given back.
    pub(crate) fn take(&mut self) -> Option<Filled> {
        let index = self.next;
        if self.status(index).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the kernel has written a header there and left the slot to this process.
        let header = unsafe { self.at(index).cast::<libc::tpacket2_hdr>().read() };
        self.status(index).store(TAKEN, Ordering::Relaxed);
        self.next = (index + 1) % self.layout.slots();
        Some(Filled { index, header })
    }

    /// The bytes of the taken slot `index` from `start` on, in bytes from the slot's beginning: at
    /// most `length`, fewer at the end of the slot, none beyond it.
    pub(crate) fn bytes(&self, index: usize, start: usize, length: usize) -> &[u8] {
        let start = start.min(self.layout.slot);
        let length = length.min(self.layout.slot - start);
        // SAFETY: the range is within the slot, and the kernel does not write there until the slot
        // is given back, which needs the ring exclusively.
        unsafe { std::slice::from_raw_parts(self.at(index).add(start).as_ptr(), length) }
    }

    /// Lets the kernel fill the slot again.
    pub(crate) fn give_back(&mut self, index: usize) {
        self.status(index).store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }

    /// Number of packets that found no free slot since the ring was made.
    ///
    /// # Errors
    /// See [`PacketError`].
    pub(crate) fn overflow(&mut self) -> Result<u64, PacketError> {
        self.overflow += socket::drops(&self.fd, &self.device)?;
        Ok(self.overflow)
    }

    /// Address of the slot of this index in the mapping.
    fn at(&self, index: usize) -> NonNull<u8> {
        // SAFETY: indices are below the number of slots, all of which lie in the mapping.
        unsafe { self.memory.add(self.layout.offset(index)) }
    }

    /// Status word of the slot of this index, which the kernel and this process share.
    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: a slot begins with its status, aligned to 16 bytes, which kernel and process
        // share.
        unsafe { AtomicU32::from_ptr(self.at(index).cast().as_ptr()) }
    }
}

impl Drop for MappedRing {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, to which no reference is left.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), self.layout.length()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_follow_one_another_within_their_blocks() {
        let layout = Layout { slot: 1600, block: 64 << 10, blocks: 3 };
        let mut end = 0;
        for slot in 0..layout.slots() {
            let offset = layout.offset(slot);
            assert!(offset >= end, "slot {slot} begins in the one before it");
            end = offset + layout.slot;
            assert_eq!(offset / layout.block, (end - 1) / layout.block, "slot {slot} crosses a block's end");
        }
        assert!(end <= layout.length() && end + layout.slot > layout.length());
    }
}
