//! The receiving direction: decrypts records, which arrive in any pieces, to their content.

use std::ops::Range;

use crate::error::RecordError;
use crate::format::{self, HEADER, Kind, MAX_RECORD, message, plaintext_length};
use crate::key::{NextKey, RecordKey};

/// Maximum number of records in a row without a byte of data: they cost work and bring nothing.
const MAX_IDLE_RECORDS: u32 = 32;

/// Role of this end in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// This end connected; the peer may send session tickets.
    Client,
    /// This end listened.
    Server,
}

/// Contents of a received record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// Data, of this many bytes.
    Data(usize),
    /// A key update: the peer's next records are under its next key.
    KeyUpdate {
        /// Whether the peer wants a key update in return, before the next data.
        requested: bool,
    },
    /// Session tickets, which are ignored.
    Tickets,
    /// An alert with this description (RFC 8446 section 6), the last record that is opened.
    Alert(u8),
}

/// Decrypts the records of the receiving direction.
pub struct Opener {
    state: State,
    next_key: NextKey,
    role: Role,
    buffer: Box<[u8]>,
    /// Range of the buffer that has arrived and has not been opened.
    unopened: Range<usize>,
    idle_records: u32,
}

/// State of the receiving direction.
enum State {
    /// Records are opened with this key.
    Open(Box<RecordKey>),
    /// An alert has come: what follows is ignored.
    Ended,
    /// A record was refused with this error: no more is opened.
    Failed(RecordError),
}

impl Opener {
    /// New opener that decrypts under `key`, with a buffer of `capacity` bytes for what arrives.
    ///
    /// # Panics
    /// If the buffer cannot hold two records.
    #[must_use]
    pub fn new(key: RecordKey, next_key: NextKey, role: Role, capacity: usize) -> Self {
        assert!(capacity >= 2 * MAX_RECORD, "there is room behind any record that is not complete");
        let buffer = vec![0; capacity].into_boxed_slice();
        Self { state: State::Open(Box::new(key)), next_key, role, buffer, unopened: 0..0, idle_records: 0 }
    }

    /// Number of records that the present key has opened; `None` when no record is opened any
    /// more.
    #[must_use]
    pub fn records(&self) -> Option<u64> {
        match &self.state {
            State::Open(key) => Some(key.records()),
            State::Ended | State::Failed(_) => None,
        }
    }

    /// Bytes that have arrived and are not opened yet.
    #[must_use]
    pub fn unopened(&self) -> &[u8] {
        &self.buffer[self.unopened.clone()]
    }

    /// Free part of the buffer for what arrives next: half of the buffer at least, once every
    /// complete record has been opened.
    pub fn room(&mut self) -> &mut [u8] {
        if self.unopened.is_empty() {
            self.unopened = 0..0;
        } else if self.buffer.len() - self.unopened.end < self.buffer.len() / 2 {
            self.buffer.copy_within(self.unopened.clone(), 0);
            self.unopened = 0..self.unopened.len();
        }
        &mut self.buffer[self.unopened.end..]
    }

    /// Records that `count` bytes have been written to the front of [`room`](Self::room). It
    /// decrypts nothing; [`open`](Self::open) does.
    ///
    /// # Panics
    /// If `count` is greater than the length of the room.
    pub fn arrived(&mut self, count: usize) {
        assert!(count <= self.buffer.len() - self.unopened.end, "no more arrives than there is room for");
        self.unopened.end += count;
    }

    /// Length of the plaintext (content, kind and padding, in bytes) of the next record; `None`
    /// until all of it has arrived, or if no more is opened.
    ///
    /// # Errors
    /// Why no record can be opened any more.
    pub fn next_plaintext(&mut self) -> Result<Option<usize>, RecordError> {
        Ok(self.next_body()?.map(plaintext_length))
    }

    /// Opens the next record into `out`; `None` until all of it has arrived, or after an alert. The
    /// content of a record of data is then at the front of `out`; what lies behind it, up to the
    /// [length of the plaintext](Self::next_plaintext), means nothing, and so does all of it after
    /// anything else than data.
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

    /// Length of the body of the next record; `None` until all of the record has arrived, or if no
    /// more is opened.
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

    /// Stops opening records because of this error, and returns it.
    fn fail(&mut self, error: RecordError) -> RecordError {
        self.state = State::Failed(error.clone());
        error
    }

    /// Handles the content of an authentic record by its kind.
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

    /// Handles the messages in a handshake record: a key update changes the key, session tickets
    /// are ignored, anything else is an error.
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
