//! Why a record is not believed, or cannot be made.

/// Why a record is not believed, or cannot be made. Nothing more travels in its direction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The header is none of a protected record of TLS 1.3.
    #[error("a record of type {outer} and version {version:02x?} where encrypted ones are due")]
    Header {
        /// Its type.
        outer: u8,
        /// Its version.
        version: [u8; 2],
    },
    /// The body is too short or too long.
    #[error("a record of {length} bytes, which no record has")]
    Length {
        /// Length of the body, in bytes.
        length: usize,
    },
    /// The record was not made with the key of this direction and for this place in the stream.
    #[error("a record does not decrypt")]
    Forged,
    /// The content type is none that TLS 1.3 encrypts.
    #[error("a record of unknown content type {0}")]
    Kind(u8),
    /// The plaintext is all zeros.
    #[error("a record without a content type")]
    NoKind,
    /// The key has been used for as many records as it may.
    #[error("too many records under one key")]
    KeyWornOut,
    /// The key schedule has no further key.
    #[error("no further key: {0}")]
    NextKey(String),
    /// Too many records in a row carry no data.
    #[error("it sends records that carry nothing")]
    Idle,
    /// A handshake record is empty, which RFC 8446 section 5.1 forbids.
    #[error("an empty handshake record")]
    EmptyHandshake,
    /// A handshake message is not whole within its record.
    #[error("a handshake message in pieces")]
    HandshakeInPieces,
    /// A handshake message that may not follow the handshake or is malformed, or a key update that
    /// does not end its record.
    #[error("handshake message {0} after the handshake")]
    Handshake(u8),
    /// An alert has other than two bytes.
    #[error("an alert of the wrong length")]
    AlertLength,
}
