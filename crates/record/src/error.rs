//! Errors: why a record is not authentic or valid, or cannot be made.

/// Reason why a record is not authentic or valid, or cannot be made. Nothing more can be sent in
/// its direction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The header is not that of a protected record of TLS 1.3.
    #[error("a record of type {outer} and version {version:02x?} where encrypted ones are due")]
    Header {
        /// Record type in the header.
        outer: u8,
        /// Version in the header.
        version: [u8; 2],
    },
    /// The body of the record is too short or too long.
    #[error("a record of {length} bytes, which no record has")]
    Length {
        /// Length of the body, in bytes.
        length: usize,
    },
    /// Authentication failed: the record was not made with the key of this direction and for this
    /// place in the stream.
    #[error("a record does not decrypt")]
    Forged,
    /// The content type is not one that TLS 1.3 encrypts.
    #[error("a record of unknown content type {0}")]
    Kind(u8),
    /// The plaintext is all zeros, so that it has no content type.
    #[error("a record without a content type")]
    NoKind,
    /// The key has been used for the maximum number of records.
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
    /// A handshake message of this type may not follow the handshake or is malformed, or a key
    /// update does not end its record.
    #[error("handshake message {0} after the handshake")]
    Handshake(u8),
    /// An alert has a length other than two bytes.
    #[error("an alert of the wrong length")]
    AlertLength,
}
