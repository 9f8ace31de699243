//! eBPF objects in the program: the build compresses them (zlib, after their length), to a quarter.

use std::ops::Deref;

use miniz_oxide::inflate::decompress_slice_iter_to_slice;

/// Alignment of unpacked eBPF objects in bytes: loaders read structures in place.
const ALIGNMENT: usize = 8;

/// An eBPF object as the build has packed it; empty if the build could not make it.
#[derive(Clone, Copy)]
pub(crate) struct Packed(pub(crate) &'static [u8]);

/// An eBPF object (ELF), aligned to 8 bytes.
pub struct EbpfObject {
    buffer: Vec<u8>,
    start: usize,
}

impl Packed {
    /// Whether there is no object: the build could not make it.
    pub(crate) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Decompresses the object. Panics if it is empty, or not what the build script writes.
    pub(crate) fn unpack(self) -> EbpfObject {
        let (length, compressed) = self.0.split_first_chunk().expect("the build writes the length first");
        let length = u32::from_le_bytes(*length) as usize;
        let mut buffer = vec![0; length + ALIGNMENT];
        let start = buffer.as_ptr().align_offset(ALIGNMENT);
        let room = &mut buffer[start..start + length];
        let unpacked = decompress_slice_iter_to_slice(room, std::iter::once(compressed), true, false);
        assert_eq!(unpacked, Ok(length), "the build has packed it");
        buffer.truncate(start + length);
        EbpfObject { buffer, start }
    }
}

impl Deref for EbpfObject {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[self.start..]
    }
}
