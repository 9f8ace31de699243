//! The record layer of TLS 1.3 (RFC 8446 section 5) after the handshake, as pure functions over
//! bytes: no sockets, clocks or threads.
//!
//! ```text
//!            Sealer                                               Opener
//! content ─► [key update] record ─► bytes out ═══ … ═══ bytes in ─► record ─► content, key update, ticket, alert
//!               ▲                                                     ▲
//!            NextKey ◄──────────── the key schedule (rustls) ──────► NextKey
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`mod@format`] | the header, kinds of content, lengths |
//! | [`cipher`] | AES-GCM and ChaCha20-Poly1305, each by the faster library |
//! | [`key`] | one traffic key: seals and opens single records |
//! | [`sealer`] | the sending direction: records into a buffer, with the key updates that are due |
//! | [`opener`] | the receiving direction: records out of what arrives in any pieces |
//! | [`error`] | why a record is not believed |
//!
//! A key update (RFC 8446 section 4.6.3) of what is sent is begun by [`Sealer`] in front of the
//! next record of data, when the key has sealed as many records as it may or the peer has asked for
//! it; one of what arrives is found by [`Opener`], which goes on with the next key. Whoever holds
//! both passes on the peer's request ([`Opened::KeyUpdate`]), and derives the keys ([`NextKey`]):
//! in `icdc-link` these are `secure/inlet.rs`, `outlet.rs` and `key_schedule.rs`.
//!
//! Both directions work in buffers of a fixed size. An error is final: nothing after it is opened.
//!
//! Neighbours: `icdc-link` above runs the handshake by rustls, which also derives every traffic
//! key, and moves the bytes.
//!
//! ```
//! use icdc_record::{Cipher, Opened, Opener, RecordError, RecordKey, Role, Sealer};
//!
//! let key = || RecordKey::new(Cipher::Aes256Gcm, &[7; 32], [9; 12], 0).expect("the key has the cipher's length");
//! let no_more = || Box::new(|| Err(RecordError::NextKey("none".to_owned())));
//! let mut sealer = Sealer::new(key(), no_more(), 1 << 23);
//! sealer.data(b"content")?;
//!
//! let mut opener = Opener::new(key(), no_more(), Role::Server, 64 << 10);
//! opener.room()[..sealer.records().len()].copy_from_slice(sealer.records());
//! opener.arrived(sealer.records().len());
//! let mut out = [0; 100];
//! assert_eq!(opener.next_plaintext()?, Some(8));
//! assert_eq!(opener.open(&mut out)?, Some(Opened::Data(7)));
//! assert_eq!(&out[..7], b"content");
//! # Ok::<(), RecordError>(())
//! ```

#![forbid(unsafe_code)]

pub mod cipher;
pub mod error;
pub mod format;
pub mod key;
pub mod opener;
pub mod sealer;

pub use cipher::Cipher;
pub use error::RecordError;
pub use key::{NextKey, RecordKey};
pub use opener::{Opened, Opener, Role};
pub use sealer::Sealer;
