//! The receiving half: large reads into records, records into frames.
//!
//! ```text
//!          read                             open: payload ───────────────────► block (the only copy)
//! socket ───────► opener's buffer: [record]… ├─── heads ─► clear ─► assembler ─► message
//!                                            └─── alerts, handshake messages
//! ```
//!
//! A record whose content all belongs to the payload that is on its way is decrypted straight into
//! the block; its kind byte lands behind the content and is overwritten by the next record. All
//! others are decrypted into `clear`.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use icdc_disk::pool::BlockPool;
use icdc_record::format::MAX_CONTENT;
use icdc_record::{Opened, Opener, RecordError};
use icdc_units::Span;
use rustls::AlertDescription;

use super::connection::Connection;
use super::key_schedule::Direction;
use super::state::InletState;
use crate::assembler::Assembler;
use crate::error::LinkError;
use crate::halves::Inlet;
use crate::parcel::Parcel;

/// Size of the opener's buffer, in bytes: each read has half of it or more.
pub(super) const BUFFER: usize = 1 << 20;

/// Number of steps in which the time without a byte from the peer is counted.
pub(super) const STEPS: u64 = 15;

/// Receiving half of a TLS link.
pub(super) struct SecureInlet {
    connection: Arc<Connection>,
    opener: Opener,
    direction: Direction,
    dead_after: Span,
    /// Plaintext of the last record that was not decrypted into a block.
    clear: Box<[u8]>,
    /// Range of `clear` that has not been processed.
    untaken: Range<usize>,
    assembler: Assembler,
}

impl SecureInlet {
    pub(super) fn new(connection: Arc<Connection>, opener: Opener, direction: Direction, dead_after: Span) -> Self {
        Self {
            connection,
            opener,
            direction,
            dead_after,
            clear: vec![0; MAX_CONTENT + 1].into_boxed_slice(),
            untaken: 0..0,
            assembler: Assembler::default(),
        }
    }

    /// Restores plaintext that another process had decrypted and not processed; `None` if it is
    /// too long.
    pub(super) fn with_clear(mut self, clear: &[u8]) -> Option<Self> {
        self.clear.get_mut(..clear.len())?.copy_from_slice(clear);
        self.untaken = 0..clear.len();
        Some(self)
    }

    /// Opens records, reading from the socket where there are none, until a parcel is complete.
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
            let next = self.opener.next_plaintext().map_err(|error| self.fault(error))?;
            if let Some(plaintext) = next {
                if let Some(parcel) = self.open(plaintext)? {
                    return Ok(parcel);
                }
            } else {
                self.read()?;
            }
        }
    }

    /// Decrypts the next record, whose plaintext has this length; returns the parcel if the record
    /// completes it.
    fn open(&mut self, plaintext: usize) -> Result<Option<Parcel>, LinkError> {
        let room = self.assembler.payload_room();
        let room = room.filter(|(room, missing)| plaintext <= room.len() && plaintext - 1 <= *missing);
        let direct = room.is_some();
        let out = room.map_or(&mut *self.clear, |(room, _)| room);
        match self.opener.open(out).map_err(|error| self.fault(error))? {
            Some(Opened::Data(length)) if direct => {
                self.count_payload(length);
                return Ok(self.assembler.payload_arrived(length));
            }
            Some(Opened::Data(length)) => self.untaken = 0..length,
            Some(Opened::KeyUpdate { requested: true }) => {
                self.connection.key_update_wanted.store(true, Ordering::Relaxed);
            }
            Some(Opened::Alert(description)) => return Err(self.alert(description)),
            Some(Opened::KeyUpdate { requested: false } | Opened::Tickets) | None => {}
        }
        Ok(None)
    }

    fn count_payload(&self, length: usize) {
        self.connection.payload_received.fetch_add(length as u64, Ordering::Relaxed);
    }

    /// Link error for an alert of the peer; [`LinkError::Closed`] for `close_notify` between two
    /// frames.
    fn alert(&self, description: u8) -> LinkError {
        let peer = self.connection.peer.clone();
        match AlertDescription::from(description) {
            AlertDescription::CloseNotify if self.assembler.is_between_frames() => LinkError::Closed,
            AlertDescription::CloseNotify => LinkError::Protocol(format!("{peer} closed in the middle of a frame")),
            AlertDescription::AccessDenied
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateRequired => LinkError::KeyRefused { peer },
            other => LinkError::Alert { peer, alert: format!("{other:?}") },
        }
    }

    /// Reads from the socket what has arrived, at least one byte.
    fn read(&mut self) -> Result<(), LinkError> {
        let room = self.opener.room();
        loop {
            if self.connection.is_stopped() {
                return Err(LinkError::Stopped);
            }
            match self.connection.carrier.read(room) {
                Ok(0) => return Err(self.connection.cut()),
                Ok(count) => {
                    self.connection.silence_nanos.store(0, Ordering::Relaxed);
                    self.opener.arrived(count);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let step = self.dead_after / STEPS;
                    let before = self.connection.silence_nanos.fetch_add(step.as_nanos(), Ordering::Relaxed);
                    if Span::from_nanos(before) + step * 2 > self.dead_after {
                        return Err(LinkError::Silent { peer: self.connection.peer.clone(), after: self.dead_after });
                    }
                }
                Err(error) => return Err(self.connection.io("recv", error)),
            }
        }
    }

    /// Link error for an error of the record layer: data changed on the way, or a peer that breaks
    /// the rules of TLS.
    fn fault(&self, error: RecordError) -> LinkError {
        match error {
            RecordError::Forged | RecordError::Header { .. } | RecordError::Length { .. } => {
                LinkError::Corrupt { peer: self.connection.peer.clone() }
            }
            RecordError::Kind(_)
            | RecordError::NoKind
            | RecordError::KeyWornOut
            | RecordError::NextKey(_)
            | RecordError::Idle
            | RecordError::EmptyHandshake
            | RecordError::HandshakeInPieces
            | RecordError::Handshake(_)
            | RecordError::AlertLength => self.broken(&error.to_string()),
        }
    }

    /// Link error for a peer that breaks the rules of TLS.
    fn broken(&self, what: &str) -> LinkError {
        LinkError::Protocol(format!("{} broke the rules of TLS: {what}", self.connection.peer))
    }
}

impl Inlet for SecureInlet {
    fn hand_over(self: Box<Self>) -> Option<InletState> {
        let between_frames = self.assembler.is_between_frames();
        let sequence = self.opener.records().filter(|_| between_frames)?;
        Some(InletState {
            secret: self.direction.secret(),
            sequence,
            clear: self.clear[self.untaken.clone()].to_vec(),
            unopened: self.opener.unopened().to_vec(),
        })
    }

    fn receive(&mut self, pool: &BlockPool) -> Result<Parcel, LinkError> {
        let received = self.next_parcel(pool);
        if let Err(error) = &received {
            // A block that was being filled goes back to its pool.
            self.assembler = Assembler::default();
            // A peer that broke a rule is still there: whoever holds the outlet tells it which, or
            // it would take the end for a cut and come again.
            let is_there = error.breaks_protocol();
            self.connection.heard_end.store(!is_there, Ordering::SeqCst);
            if !is_there && !matches!(error, LinkError::Closed | LinkError::Stopped) {
                // Nothing that still arrives can be used, and the peer should know as soon as it
                // can.
                self.connection.abort();
            }
        }
        received
    }
}
