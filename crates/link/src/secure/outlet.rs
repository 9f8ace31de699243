//! The sending half: frames into records, records into large writes.
//!
//! ```text
//! messages ─► pending ─┐                                   write, once one is due
//!                      ├─► sealer's buffer: [record][record]… ────────────────────► socket
//! payload block ───────┘   (the only copy)
//! ```
//!
//! Payload and heads never share a record, so the records of a block start at its first byte and
//! the peer can decrypt them in place.

use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use icdc_protocol::frame;
use icdc_record::format::MAX_CONTENT;
use icdc_record::{RecordError, Sealer};
use icdc_tcp::clock;
use icdc_units::Time;

use super::connection::{Connection, FAREWELL};
use super::key_schedule::Direction;
use super::state::OutletState;
use crate::error::LinkError;
use crate::halves::Outlet;
use crate::parcel::Parcel;

/// Maximum number of bytes of messages without payload that are collected before they are sent.
const MAX_PENDING: usize = 64 << 10;

/// Sending half of a TLS link.
pub(super) struct SecureOutlet {
    connection: Arc<Connection>,
    sealer: Sealer,
    direction: Direction,
    /// Encoded frames that are not yet encrypted.
    pending: Vec<u8>,
    /// Number of payload bytes in the records that are not yet written.
    payload: usize,
    /// Whether an error has left the stream of records in the middle of one.
    failed: bool,
    /// Whether another process continues this half.
    handed_over: bool,
}

impl SecureOutlet {
    pub(super) fn new(connection: Arc<Connection>, sealer: Sealer, direction: Direction) -> Self {
        let (failed, handed_over) = (false, false);
        Self { connection, sealer, direction, pending: Vec::new(), payload: 0, failed, handed_over }
    }

    /// Encrypts the pending messages and then the payload, and writes all of it to the socket.
    fn transmit(&mut self, payload: &[u8]) -> Result<(), LinkError> {
        let mut stopwatch = Stopwatch { since: clock::now() };
        let pending = std::mem::take(&mut self.pending);
        self.seal_data(&pending, &mut stopwatch)?;
        self.seal_payload(payload, &mut stopwatch)?;
        self.write_out(&mut stopwatch)?;
        self.pending = pending;
        self.pending.clear();
        Ok(())
    }

    /// Sends what is pending and a record of padding, which is longer than the ten segments that a
    /// connection may begin with (RFC 6928).
    fn transmit_padded(&mut self) -> Result<(), LinkError> {
        let mut stopwatch = Stopwatch { since: clock::now() };
        let pending = std::mem::take(&mut self.pending);
        self.seal_data(&pending, &mut stopwatch)?;
        self.seal(Sealer::padding, &mut stopwatch)?;
        self.write_out(&mut stopwatch)
    }

    /// Encrypts payload to records, and counts it as payload.
    fn seal_payload(&mut self, payload: &[u8], stopwatch: &mut Stopwatch) -> Result<(), LinkError> {
        for content in payload.chunks(MAX_CONTENT) {
            self.seal_data(content, stopwatch)?;
            self.payload += content.len();
        }
        Ok(())
    }

    /// Encrypts bytes to records of data, each of them as long as possible.
    fn seal_data(&mut self, data: &[u8], stopwatch: &mut Stopwatch) -> Result<(), LinkError> {
        for content in data.chunks(MAX_CONTENT) {
            self.seal(|sealer| sealer.data(content), stopwatch)?;
        }
        Ok(())
    }

    /// Encrypts a record of data by `record`, writing to the socket first where there is no room
    /// for it.
    fn seal(
        &mut self,
        record: impl FnOnce(&mut Sealer) -> Result<(), RecordError>,
        stopwatch: &mut Stopwatch,
    ) -> Result<(), LinkError> {
        if self.sealer.is_due() {
            self.write_out(stopwatch)?;
        }
        if self.connection.key_update_wanted.swap(false, Ordering::Relaxed) {
            self.sealer.answer_key_update();
        }
        record(&mut self.sealer).map_err(|error| LinkError::Protocol(error.to_string()))
    }

    /// Writes the encrypted records to the socket; counts overhead and time.
    fn write_out(&mut self, stopwatch: &mut Stopwatch) -> Result<(), LinkError> {
        let connection = &*self.connection;
        connection.encrypt_nanos.fetch_add(stopwatch.lap(), Ordering::Relaxed);
        let records = self.sealer.records();
        let overhead = records.len() - std::mem::take(&mut self.payload);
        connection.overhead_sent.fetch_add(overhead as u64, Ordering::Relaxed);
        let written = connection.carrier.write_all(records);
        connection.socket_nanos.fetch_add(stopwatch.lap(), Ordering::Relaxed);
        self.sealer.written();
        written.map_err(|error| connection.io("send", error))
    }

    /// Sends what is pending and `close_notify`, and shuts this direction down.
    fn farewell(&mut self) -> Result<(), LinkError> {
        self.flush()?;
        self.sealer.close_notify().map_err(|error| LinkError::Protocol(error.to_string()))?;
        self.write_out(&mut Stopwatch { since: clock::now() })?;
        let shut = self.connection.carrier.shutdown(Shutdown::Write);
        shut.map_err(|error| self.connection.io("shutdown", error))
    }
}

impl Outlet for SecureOutlet {
    fn send(&mut self, parcel: Parcel) -> Result<(), LinkError> {
        frame::encode(&parcel.message, parcel.payload_length(), &mut self.pending).map_err(LinkError::Unsendable)?;
        let sent = match &parcel.payload {
            Some(payload) => self.transmit(payload),
            None if self.pending.len() >= MAX_PENDING => self.transmit(&[]),
            None => Ok(()),
        };
        self.failed |= sent.is_err();
        sent
    }

    fn flush(&mut self) -> Result<(), LinkError> {
        let sent = if self.pending.is_empty() { Ok(()) } else { self.transmit(&[]) };
        self.failed |= sent.is_err();
        sent
    }

    fn fill(&mut self) -> Result<(), LinkError> {
        let sent = self.transmit_padded();
        self.failed |= sent.is_err();
        sent
    }

    fn hand_over(mut self: Box<Self>) -> Option<OutletState> {
        let is_whole = self.pending.is_empty() && self.sealer.records().is_empty();
        let key_update_wanted = self.connection.key_update_wanted.load(Ordering::Relaxed);
        self.handed_over = is_whole && !self.failed;
        self.handed_over.then(|| OutletState {
            secret: self.direction.secret(),
            sequence: self.sealer.sequence(),
            key_update_wanted,
        })
    }
}

impl Drop for SecureOutlet {
    fn drop(&mut self) {
        if self.handed_over {
            return;
        }
        // An end that fails must not look like one that is done.
        if self.failed || self.connection.is_stopped() || thread::panicking() {
            self.connection.abort();
            return;
        }
        let limited = self.connection.carrier.set_write_timeout(Some(FAREWELL));
        let said = limited.map_err(|error| self.connection.io("setsockopt", error)).and_then(|()| self.farewell());
        match said {
            Ok(()) => self.connection.said_farewell.store(true, Ordering::SeqCst),
            Err(error) => {
                tracing::debug!("no farewell to {}: {error}", self.connection.peer);
                self.connection.abort();
            }
        }
    }
}

/// Measures the time since the last lap.
struct Stopwatch {
    since: Time,
}

impl Stopwatch {
    /// Nanoseconds since the last lap; starts the next lap.
    fn lap(&mut self) -> u64 {
        let now = clock::now();
        let span = now - std::mem::replace(&mut self.since, now);
        span.as_nanos()
    }
}
