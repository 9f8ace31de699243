//! The receiving half: large reads into records, records into frames.
//!
//! ```text
//!          read                    open: payload ───────────────────► block (the only copy)
//! socket ───────► buffer: [record]… ├─── heads ─► clear ─► assembler ─► message
//!                                   └─── alerts, handshake messages
//! ```
//!
//! A record whose content all belongs to the payload that is on its way is decrypted straight into the block; its kind
//! byte lands behind the content and is overwritten by the next record. All others are decrypted into `clear`.

use std::io::{self, Read as _};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use icdc_disk::pool::BlockPool;
use icdc_units::Span;
use rustls::AlertDescription;

use super::Connection;
use super::record::{self, HEADER, Kind, MAX_CONTENT, MAX_RECORD, RecordError, RecordKey, message};
use crate::link::assembler::Assembler;
use crate::link::{Inlet, LinkError, Parcel};

/// Size of the buffer, and of a read into it when it is empty.
const BUFFER: usize = 1 << 20;
/// Smallest room that is left for a read.
const READ: usize = 512 << 10;
/// Records that may come in a row without a byte of data: they cost work and bring nothing.
const MAX_IDLE_RECORDS: u32 = 32;

pub(super) struct SecureInlet {
    connection: Arc<Connection>,
    key: RecordKey,
    dead_after: Span,
    is_client: bool,
    buffer: Box<[u8]>,
    /// What of the buffer has been read and not been decrypted.
    unopened: Range<usize>,
    /// Content of the last record that was not decrypted into a block.
    clear: Box<[u8]>,
    /// What of it has not been taken.
    untaken: Range<usize>,
    assembler: Assembler,
    idle_records: u32,
}

impl SecureInlet {
    /// `early` is what arrived behind the handshake.
    pub(super) fn new(
        connection: Arc<Connection>,
        key: RecordKey,
        dead_after: Span,
        is_client: bool,
        early: &[u8],
    ) -> Self {
        let mut buffer = vec![0; BUFFER].into_boxed_slice();
        buffer[..early.len()].copy_from_slice(early);
        Self {
            connection,
            key,
            dead_after,
            is_client,
            buffer,
            unopened: 0..early.len(),
            clear: vec![0; MAX_CONTENT + 1].into_boxed_slice(),
            untaken: 0..0,
            assembler: Assembler::default(),
            idle_records: 0,
        }
    }

    fn next_parcel(&mut self, pool: &BlockPool) -> Result<Parcel, LinkError> {
        loop {
            while !self.untaken.is_empty() {
                let in_payload = self.assembler.is_in_payload();
                let (taken, parcel) = self.assembler.feed(&self.clear[self.untaken.clone()], pool)?;
                if in_payload {
                    self.count_payload(taken);
                }
                self.untaken.start += taken;
                if let Some(parcel) = parcel {
                    return Ok(parcel);
                }
            }
            if let Some(length) = self.buffered_record()? {
                if let Some(parcel) = self.open(length)? {
                    return Ok(parcel);
                }
            } else {
                self.read()?;
            }
        }
    }

    /// Length of the record at the front of the buffer, if all of it is there.
    fn buffered_record(&self) -> Result<Option<usize>, LinkError> {
        let Some(header) = self.buffer[self.unopened.clone()].first_chunk() else { return Ok(None) };
        let length = HEADER + record::parse_header(header).map_err(|error| self.fault(error))?;
        Ok((self.unopened.len() >= length).then_some(length))
    }

    /// Decrypts the first record; the parcel if it completes one that needs no more than that.
    fn open(&mut self, length: usize) -> Result<Option<Parcel>, LinkError> {
        let record = &self.buffer[self.unopened.start..][..length];
        self.unopened.start += length;
        let (header, body) = record.split_first_chunk().expect("a record begins with its header");
        let inner = record::inner_length(body.len());
        let room = self.assembler.payload_room().filter(|(room, missing)| inner <= room.len() && inner - 1 <= *missing);
        let direct = room.is_some();
        let out = room.map_or(&mut *self.clear, |(room, _)| room);
        let opened = self.key.open(header, body, out);
        let (kind, length) = match opened {
            Ok(opened) => opened,
            Err(error) => return Err(self.fault(error)),
        };
        match kind {
            Kind::Data if length > 0 => self.idle_records = 0,
            _ => self.idle_records += 1,
        }
        if self.idle_records > MAX_IDLE_RECORDS {
            return Err(self.broken("it sends records that carry nothing"));
        }
        match kind {
            Kind::Data if direct => {
                self.count_payload(length);
                return Ok(self.assembler.payload_arrived(length));
            }
            Kind::Data => self.untaken = 0..length,
            Kind::Alert | Kind::Handshake => {
                let content = out[..length].to_vec();
                if kind == Kind::Alert {
                    return Err(self.alert(&content));
                }
                self.handshake_messages(&content)?;
            }
        }
        Ok(None)
    }

    fn count_payload(&self, length: usize) {
        self.connection.payload_received.fetch_add(length as u64, Ordering::Relaxed);
    }

    fn handshake_messages(&mut self, mut content: &[u8]) -> Result<(), LinkError> {
        if content.is_empty() {
            return Err(self.broken("an empty handshake record"));
        }
        while let [kind, high, middle, low, rest @ ..] = content {
            let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
            let Some((body, rest)) = rest.split_at_checked(length) else {
                return Err(self.broken("a handshake message in pieces"));
            };
            match (*kind, body) {
                (message::KEY_UPDATE, [requested @ 0..=1]) if rest.is_empty() => self.update_key(*requested == 1)?,
                // Icdc never resumes a session.
                (message::NEW_SESSION_TICKET, _) if self.is_client => {}
                _ => return Err(self.broken(&format!("handshake message {kind} after the handshake"))),
            }
            content = rest;
        }
        if content.is_empty() { Ok(()) } else { Err(self.broken("a handshake message in pieces")) }
    }

    fn update_key(&mut self, requested: bool) -> Result<(), LinkError> {
        self.key = self.connection.schedule.next_receive().map_err(|error| self.broken(&error.to_string()))?;
        if requested {
            // The outlet answers before its next data, as RFC 8446 section 4.6.3 asks.
            self.connection.key_update_wanted.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn alert(&self, content: &[u8]) -> LinkError {
        let peer = self.connection.peer.clone();
        let [_, code] = *content else { return self.broken("an alert of the wrong length") };
        // The level means nothing in TLS 1.3 (RFC 8446 section 6).
        match AlertDescription::from(code) {
            AlertDescription::CloseNotify if self.assembler.is_between_frames() => LinkError::Closed,
            AlertDescription::CloseNotify => LinkError::Protocol(format!("{peer} closed in the middle of a frame")),
            AlertDescription::AccessDenied
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateRequired => LinkError::KeyRefused { peer },
            other => LinkError::Alert { peer, alert: format!("{other:?}") },
        }
    }

    /// Reads what the socket has, at least one byte.
    fn read(&mut self) -> Result<(), LinkError> {
        if self.unopened.is_empty() {
            self.unopened = 0..0;
        } else if self.buffer.len() - self.unopened.end < READ {
            self.buffer.copy_within(self.unopened.clone(), 0);
            self.unopened = 0..self.unopened.len();
        }
        loop {
            if self.connection.is_stopped() {
                return Err(LinkError::Stopped);
            }
            match (&self.connection.stream).read(&mut self.buffer[self.unopened.end..]) {
                Ok(0) => return Err(self.connection.cut()),
                Ok(count) => {
                    self.unopened.end += count;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(LinkError::Silent { peer: self.connection.peer.clone(), after: self.dead_after });
                }
                Err(error) => return Err(self.connection.io("recv", error)),
            }
        }
    }

    fn fault(&self, error: RecordError) -> LinkError {
        match error {
            RecordError::Forged | RecordError::Header { .. } | RecordError::Length { .. } => {
                LinkError::Corrupt { peer: self.connection.peer.clone() }
            }
            RecordError::Kind(_) | RecordError::NoKind | RecordError::KeyWornOut => self.broken(&error.to_string()),
        }
    }

    fn broken(&self, what: &str) -> LinkError {
        LinkError::Protocol(format!("{} broke the rules of TLS: {what}", self.connection.peer))
    }
}

impl Inlet for SecureInlet {
    fn receive(&mut self, pool: &BlockPool) -> Result<Parcel, LinkError> {
        let received = self.next_parcel(pool);
        if let Err(error) = &received {
            // A block that was being filled goes back to its pool.
            self.assembler = Assembler::default();
            // A peer that broke a rule is still there: whoever holds the outlet tells it which, or it would take the end for
            // a cut and come again.
            let is_there = matches!(error, LinkError::Protocol(_));
            self.connection.heard_end.store(!is_there, Ordering::SeqCst);
            if !is_there && !matches!(error, LinkError::Closed | LinkError::Stopped) {
                // Nothing that still arrives can be used, and the peer should know as soon as it can.
                self.connection.abort();
            }
        }
        received
    }
}

const _: () = assert!(BUFFER >= READ + MAX_RECORD, "a read always has room behind an incomplete record");
