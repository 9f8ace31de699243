//! Format of a protected record (RFC 8446 sections 5.1 and 5.2).
//!
//! ```text
//!  header, 5 bytes               body
//! ┌────┬───────┬───────────┐┌───────────────────────────┬──────┬─────────┬────────┐
//! │ 23 │ 03 03 │ length of ││ content, 0..=2^14 bytes   │ kind │ padding │ tag    │
//! │    │       │ the body  ││                           │ 1    │ zeros   │ 16     │
//! └────┴───────┴───────────┘└───────────────────────────┴──────┴─────────┴────────┘
//!   authenticated                encrypted and authenticated
//! ```

use crate::error::RecordError;

/// Maximum length of a record's content, in bytes.
pub const MAX_CONTENT: usize = 1 << 14;
/// Length of the record header, in bytes.
pub const HEADER: usize = 5;
/// Length of the authentication tag in all cipher suites, in bytes.
pub const TAG: usize = 16;
/// Length that a record adds to its content (header, kind and tag), in bytes.
pub const OVERHEAD: usize = HEADER + 1 + TAG;
/// Maximum length of a record, in bytes.
pub const MAX_RECORD: usize = MAX_CONTENT + OVERHEAD;
/// Minimum length of a record's body in bytes: a kind and the tag.
pub const MIN_BODY: usize = 1 + TAG;
/// Maximum length of a record's body in bytes. RFC 8446 allows 239 bytes more for suites whose
/// tags are longer than those of any that exist.
pub const MAX_BODY: usize = MAX_CONTENT + 1 + TAG;

/// Outer type of every protected record: `application_data`.
const OPAQUE: u8 = 23;
/// Version field of every record.
const LEGACY_VERSION: [u8; 2] = [3, 3];

/// Handshake message `KeyUpdate { update_not_requested }`, complete.
pub const KEY_UPDATE: [u8; 5] = [message::KEY_UPDATE, 0, 0, 1, 0];
/// Content of the alert `close_notify`, level warning.
pub const CLOSE_NOTIFY: [u8; 2] = [1, 0];

/// Types of handshake messages that may follow the handshake (RFC 8446 section 4.6).
pub mod message {
    /// Type of the message `new_session_ticket`.
    pub const NEW_SESSION_TICKET: u8 = 4;
    /// Type of the message `key_update`.
    pub const KEY_UPDATE: u8 = 24;
}

/// True content type of a record, which is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An alert.
    Alert,
    /// Handshake messages.
    Handshake,
    /// Application data.
    Data,
}

impl Kind {
    /// Number of the content type (RFC 8446 section B.1).
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Alert => 21,
            Self::Handshake => 22,
            Self::Data => 23,
        }
    }

    /// Content type with this number; `None` for another than these.
    pub(crate) const fn from_code(code: u8) -> Option<Self> {
        match code {
            21 => Some(Self::Alert),
            22 => Some(Self::Handshake),
            23 => Some(Self::Data),
            _ => None,
        }
    }
}

/// Header of a record whose body has this length, [`MAX_BODY`] at most.
pub(crate) fn header(body: usize) -> [u8; HEADER] {
    let [high, low] = (body as u16).to_be_bytes();
    [OPAQUE, LEGACY_VERSION[0], LEGACY_VERSION[1], high, low]
}

/// Parses a header; returns the length of the body that follows, [`MIN_BODY`] to [`MAX_BODY`]
/// bytes.
///
/// # Errors
/// If it is not the header of a protected record, or the length is out of bounds.
pub fn parse_header(header: &[u8; HEADER]) -> Result<usize, RecordError> {
    let [outer, major, minor, high, low] = *header;
    let version = [major, minor];
    if outer != OPAQUE || version != LEGACY_VERSION {
        return Err(RecordError::Header { outer, version });
    }
    let length = usize::from(u16::from_be_bytes([high, low]));
    if !(MIN_BODY..=MAX_BODY).contains(&length) {
        return Err(RecordError::Length { length });
    }
    Ok(length)
}

/// Length of a body's plaintext (content, kind and padding) in bytes, from the length of the body.
#[must_use]
pub const fn plaintext_length(body: usize) -> usize {
    body - TAG
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_out_of_bounds_are_refused() {
        let header = |outer, minor, length: usize| [outer, 3, minor, (length >> 8) as u8, length as u8];
        assert_eq!(parse_header(&header(23, 3, MIN_BODY)), Ok(MIN_BODY));
        assert_eq!(parse_header(&header(23, 3, MAX_BODY)), Ok(MAX_BODY));
        for length in [0, TAG, MAX_BODY + 1, 0xffff] {
            assert_eq!(parse_header(&header(23, 3, length)), Err(RecordError::Length { length }));
        }
        for (outer, minor) in [(20, 3), (21, 3), (22, 3), (24, 3), (23, 1), (23, 4)] {
            let version = [3, minor];
            assert_eq!(parse_header(&header(outer, minor, 100)), Err(RecordError::Header { outer, version }));
        }
    }
}
