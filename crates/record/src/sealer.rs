//! The sending direction: encrypts content to records, in a buffer for the next write.

use crate::error::RecordError;
use crate::format::{CLOSE_NOTIFY, KEY_UPDATE, Kind, MAX_CONTENT, MAX_RECORD, OVERHEAD};
use crate::key::{NextKey, RecordKey};

/// Number of bytes of sealed records from which on a write is due: 16 full records, which stay in
/// the second-level cache between the cipher and the kernel's copy.
const WRITE: usize = 16 * MAX_RECORD;
/// Size of the buffer for sealed records. Nothing is sealed while a write is due, so there is room
/// for one record more, with a key update before it.
const BUFFER: usize = WRITE - 1 + KEY_UPDATE.len() + OVERHEAD + MAX_RECORD;

/// Encrypts the records of the sending direction.
pub struct Sealer {
    key: RecordKey,
    next_key: NextKey,
    records_per_key: u64,
    /// Whether the peer waits for a key update before the next data (RFC 8446 section 4.6.3).
    owes_key_update: bool,
    /// Buffer of sealed records that have not been written, in the first `filled` bytes.
    buffer: Box<[u8]>,
    filled: usize,
}

impl Sealer {
    /// New sealer that encrypts under `key`, and under a new key after each `records_per_key`
    /// records.
    #[must_use]
    pub fn new(key: RecordKey, next_key: NextKey, records_per_key: u64) -> Self {
        let buffer = vec![0; BUFFER].into_boxed_slice();
        Self { key, next_key, records_per_key, owes_key_update: false, buffer, filled: 0 }
    }

    /// Answers the peer's request for new keys in this direction: a key update precedes the next
    /// data.
    pub fn answer_key_update(&mut self) {
        self.owes_key_update = true;
    }

    /// Appends a record of data, preceded by a key update if one is due.
    ///
    /// # Errors
    /// If a key update is due and there is no further key, or the key has seen as many records as
    /// it may.
    ///
    /// # Panics
    /// If the content is longer than [`MAX_CONTENT`], or while a [write is due](Self::is_due).
    pub fn data(&mut self, content: &[u8]) -> Result<(), RecordError> {
        self.data_record(content, 0)
    }

    /// Appends a record of padding, which carries no data and has the maximum length. A peer
    /// accepts 32 records without data in a row.
    ///
    /// # Errors
    /// As [`data`](Self::data).
    ///
    /// # Panics
    /// While a [write is due](Self::is_due).
    pub fn padding(&mut self) -> Result<(), RecordError> {
        self.data_record(&[], MAX_CONTENT)
    }

    /// Appends the alert `close_notify`, which ends this direction in order.
    ///
    /// # Errors
    /// If the key has seen as many records as it may.
    ///
    /// # Panics
    /// While a [write is due](Self::is_due).
    pub fn close_notify(&mut self) -> Result<(), RecordError> {
        assert!(!self.is_due(), "what is due is written first");
        self.record(Kind::Alert, &CLOSE_NOTIFY, 0)
    }

    /// Number of records that the present key has sealed.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.key.records()
    }

    /// Whether the sealed records that wait are as long as 16 full ones or longer. They must
    /// be written before more is sealed: until [`written`](Self::written), sealing panics.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.filled >= WRITE
    }

    /// The records that are ready to be written.
    #[must_use]
    pub fn records(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }

    /// Discards the records that were ready, after they were written.
    pub fn written(&mut self) {
        self.filled = 0;
    }

    /// Appends a record of data or of padding alone, preceded by the key update that the peer or
    /// the key requires.
    fn data_record(&mut self, content: &[u8], padding: usize) -> Result<(), RecordError> {
        assert!(!self.is_due(), "what is due is written first");
        if self.owes_key_update || self.key.records() >= self.records_per_key {
            let next = (self.next_key)()?;
            self.record(Kind::Handshake, &KEY_UPDATE, 0)?;
            self.key = next;
            self.owes_key_update = false;
        }
        self.record(Kind::Data, content, padding)
    }

    /// Seals a record with this content and `padding` zeros, and appends it to the buffer.
    fn record(&mut self, kind: Kind, content: &[u8], padding: usize) -> Result<(), RecordError> {
        self.filled += self.key.seal(kind, content, padding, &mut self.buffer[self.filled..])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cipher::Cipher;

    fn key(number: u8) -> RecordKey {
        RecordKey::new(Cipher::Aes256Gcm, &[number; 32], [3; 12], 0).unwrap()
    }

    fn sealer(records_per_key: u64) -> Sealer {
        let mut number = 0;
        let next = move || {
            number += 1;
            Ok(key(number))
        };
        Sealer::new(key(0), Box::new(next), records_per_key)
    }

    #[test]
    fn the_fullest_buffer_has_room_for_padding_behind_a_key_update() {
        // One byte less than due, then the most that one call appends.
        let mut sealer = sealer(u64::MAX);
        for _ in 0..15 {
            sealer.data(&[1; MAX_CONTENT]).unwrap();
        }
        sealer.data(&[1; MAX_CONTENT - 1]).unwrap();
        assert_eq!(sealer.filled, WRITE - 1);
        assert!(!sealer.is_due());
        sealer.answer_key_update();
        sealer.padding().unwrap();
        assert_eq!(sealer.filled, BUFFER);
        assert!(sealer.is_due());
        sealer.written();
        assert!(sealer.records().is_empty());
        sealer.close_notify().unwrap();
    }

    #[test]
    fn padding_is_preceded_by_the_key_update_that_is_owed() {
        let mut sealer = sealer(2);
        let update = KEY_UPDATE.len() + OVERHEAD;
        sealer.answer_key_update();
        sealer.padding().unwrap();
        assert_eq!(sealer.filled, update + MAX_RECORD);
        sealer.padding().unwrap();
        assert_eq!(sealer.filled, update + 2 * MAX_RECORD, "it is owed once");
        sealer.padding().unwrap();
        assert_eq!(sealer.filled, 2 * update + 3 * MAX_RECORD, "the key has seen its records");
    }

    #[test]
    fn without_a_next_key_nothing_is_sealed_that_needs_it() {
        let no_more = || Err(RecordError::NextKey("none".to_owned()));
        let mut sealer = Sealer::new(key(0), Box::new(no_more), 1);
        sealer.data(b"first").unwrap();
        let filled = sealer.filled;
        assert_eq!(sealer.data(b"second"), no_more().map(drop));
        assert_eq!(sealer.data(b"second"), no_more().map(drop));
        assert_eq!(sealer.filled, filled);
    }
}
