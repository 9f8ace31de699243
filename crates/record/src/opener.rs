//! The receiving direction: content out of records that arrive in any pieces.

use std::ops::Range;

use crate::error::RecordError;
use crate::format::{self, HEADER, Kind, MAX_RECORD, message, plaintext_length};
use crate::key::{NextKey, RecordKey};

/// Records that may come in a row without a byte of data: they cost work and bring nothing.
const MAX_IDLE_RECORDS: u32 = 32;

/// This end's part in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It connected; the peer may send session tickets.
    Client,
    /// It listened.
    Server,
}

/// What a record held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// So many bytes of data.
    Data(usize),
    /// The peer's next records come under its next key.
    KeyUpdate {
        /// It wants a key update in return, before the next data.
        requested: bool,
    },
    /// Session tickets.
    Tickets,
    /// The alert with this description (RFC 8446 section 6), the last record that is opened.
    Alert(u8),
}

/// Opens the records of one direction.
pub struct Opener {
    state: State,
    next_key: NextKey,
    role: Role,
    buffer: Box<[u8]>,
    /// What of the buffer has arrived and not been opened.
    unopened: Range<usize>,
    idle_records: u32,
}

enum State {
    Open(Box<RecordKey>),
    /// An alert has come: what follows is ignored.
    Ended,
    Failed(RecordError),
}

impl Opener {
    /// Opens under `key` what arrives, in a buffer of `capacity` bytes.
    ///
    /// # Panics
    /// If the buffer cannot hold two records.
    #[must_use]
    pub fn new(key: RecordKey, next_key: NextKey, role: Role, capacity: usize) -> Self {
        assert!(capacity >= 2 * MAX_RECORD, "there is room behind any record that is not complete");
        let buffer = vec![0; capacity].into_boxed_slice();
        Self { state: State::Open(Box::new(key)), next_key, role, buffer, unopened: 0..0, idle_records: 0 }
    }

    /// Records that its key has opened; `None` when no record is opened any more.
    #[must_use]
    pub fn records(&self) -> Option<u64> {
        match &self.state {
            State::Open(key) => Some(key.records()),
            State::Ended | State::Failed(_) => None,
        }
    }

    /// What has arrived and is not opened yet.
    #[must_use]
    pub fn unopened(&self) -> &[u8] {
        &self.buffer[self.unopened.clone()]
    }

    /// Room for what arrives next: half of the buffer at least, once every complete record has been
    /// opened.
    pub fn room(&mut self) -> &mut [u8] {
        if self.unopened.is_empty() {
            self.unopened = 0..0;
        } else if self.buffer.len() - self.unopened.end < self.buffer.len() / 2 {
            self.buffer.copy_within(self.unopened.clone(), 0);
            self.unopened = 0..self.unopened.len();
        }
        &mut self.buffer[self.unopened.end..]
    }

    /// Counts bytes that were written to the front of the room.
    ///
    /// # Panics
    /// If there was less room.
    pub fn arrived(&mut self, count: usize) {
        assert!(count <= self.buffer.len() - self.unopened.end, "no more arrives than there is room for");
        self.unopened.end += count;
    }

    /// Length of the plaintext (content, kind and padding, in bytes) of the next record, if all of
    /// it has arrived and it is to be opened.
    ///
    /// # Errors
    /// Why no record can be opened any more.
    pub fn next_plaintext(&mut self) -> Result<Option<usize>, RecordError> {
        Ok(self.next_body()?.map(plaintext_length))
    }

    /// Opens the next record into `out`, if all of it has arrived. The content of a record of data
    /// is then at the front of `out`; what lies behind it, up to the [length of the
    /// plaintext](Self::next_plaintext), means nothing, and so does all of it after anything else
    /// than data.
    ///
    /// # Errors
    /// Why no record can be opened any more. `out` then holds nothing to believe.
    ///
    /// # Panics
    /// If `out` is shorter than the plaintext.
    pub fn open(&mut self, out: &mut [u8]) -> Result<Option<Opened>, RecordError> {
        let Some(body) = self.next_body()? else { return Ok(None) };
        let State::Open(key) = &mut self.state else { return Ok(None) };
        let record = &self.buffer[self.unopened.start..][..HEADER + body];
        self.unopened.start += record.len();
        let (header, body) = record.split_first_chunk().expect("a record begins with its header");
        let opened = key.open(header, body, out).and_then(|(kind, length)| self.judge(kind, &out[..length]));
        match opened {
            Ok(opened) => Ok(Some(opened)),
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Length of the body of the next record.
    fn next_body(&mut self) -> Result<Option<usize>, RecordError> {
        match &self.state {
            State::Open(_) => {}
            State::Ended => return Ok(None),
            State::Failed(error) => return Err(error.clone()),
        }
        let arrived = &self.buffer[self.unopened.clone()];
        let Some(header) = arrived.first_chunk() else { return Ok(None) };
        match format::parse_header(header) {
            Ok(body) => Ok((arrived.len() >= HEADER + body).then_some(body)),
            Err(error) => Err(self.fail(error)),
        }
    }

    fn fail(&mut self, error: RecordError) -> RecordError {
        self.state = State::Failed(error.clone());
        error
    }

    /// What an authentic record means.
    fn judge(&mut self, kind: Kind, content: &[u8]) -> Result<Opened, RecordError> {
        match kind {
            Kind::Data if !content.is_empty() => self.idle_records = 0,
            _ => self.idle_records += 1,
        }
        if self.idle_records > MAX_IDLE_RECORDS {
            return Err(RecordError::Idle);
        }
        match (kind, content) {
            (Kind::Data, _) => Ok(Opened::Data(content.len())),
            // The level means nothing in TLS 1.3 (RFC 8446 section 6).
            (Kind::Alert, &[_, description]) => {
                self.state = State::Ended;
                Ok(Opened::Alert(description))
            }
            (Kind::Alert, _) => Err(RecordError::AlertLength),
            (Kind::Handshake, _) => self.handshake_messages(content),
        }
    }

    fn handshake_messages(&mut self, mut content: &[u8]) -> Result<Opened, RecordError> {
        if content.is_empty() {
            return Err(RecordError::EmptyHandshake);
        }
        while let [kind, high, middle, low, rest @ ..] = content {
            let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
            let Some((body, rest)) = rest.split_at_checked(length) else { return Err(RecordError::HandshakeInPieces) };
            match (*kind, body) {
                (message::KEY_UPDATE, &[requested @ 0..=1]) if rest.is_empty() => {
                    self.state = State::Open(Box::new((self.next_key)()?));
                    return Ok(Opened::KeyUpdate { requested: requested == 1 });
                }
                // Icdc never resumes a session.
                (message::NEW_SESSION_TICKET, _) if self.role == Role::Client => content = rest,
                _ => return Err(RecordError::Handshake(*kind)),
            }
        }
        if content.is_empty() { Ok(Opened::Tickets) } else { Err(RecordError::HandshakeInPieces) }
    }
}
