//! What a stream has received, brought into order.
//!
//! quinn would do this, but ends a connection whose stream has more than 1,024 gaps (quinn-rs/quinn#2694). A path of 1 Gbit/s
//! and 300 ms that loses one packet in ten has more in a round trip. So chunks are taken as they come, and wait here.

use std::collections::BTreeMap;

use bytes::Bytes;

/// Chunks of a stream that wait for earlier ones.
#[derive(Default)]
pub(crate) struct Order {
    /// Offset of the first byte that has not been taken.
    next: u64,
    /// By their offsets: quinn gives each byte once.
    waiting: BTreeMap<u64, Bytes>,
    /// Number of bytes that wait.
    bytes: u64,
}

impl Order {
    /// Offset of the first byte that has not been taken.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Number of bytes that wait.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a chunk that begins at this offset.
    pub(crate) fn add(&mut self, offset: u64, chunk: Bytes) {
        self.bytes += chunk.len() as u64;
        self.waiting.insert(offset, chunk);
    }

    /// The next chunk; `None` if it has not come.
    pub(crate) fn take(&mut self) -> Option<Bytes> {
        let first = self.waiting.first_entry().filter(|first| *first.key() == self.next)?;
        let chunk = first.remove();
        self.next += chunk.len() as u64;
        self.bytes -= chunk.len() as u64;
        Some(chunk)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;

    #[test]
    fn chunks_are_taken_in_the_order_of_the_stream() {
        let mut order = Order::default();
        for (offset, text) in [(3, "de"), (9, "j"), (5, "fghi")] {
            order.add(offset, Bytes::from_static(text.as_bytes()));
            assert_eq!(order.take(), None);
        }
        assert_eq!((order.next(), order.bytes()), (0, 7));
        order.add(0, Bytes::from_static(b"abc"));
        let taken: Vec<u8> = std::iter::from_fn(|| order.take()).flatten().collect();
        assert_eq!(taken, b"abcdefghij");
        assert_eq!((order.next(), order.bytes()), (10, 0));
    }
}
