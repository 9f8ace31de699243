//! Receipts: what a copy has delivered, as a text that the receiving end signs.
//!
//! ```text
//! icdc-receipt 1
//! NAME: VALUE            facts of the receiving end: its key, the sender, the directory, the begin
//!
//! STATUS KIND SIZE MTIME DIGEST  PATH       one line for each item, in the order of announcement
//!
//! NAME: VALUE            facts at the end: counts, the tree's digest, the end
//! ```
//!
//! Both ends know every line: the sending end writes the text, and the receiving end digests and signs
//! it. Only facts and the signature travel ([`ReceiptPart`]). `docs/formats.md` describes every byte.
//!
//! | module | what |
//! |---|---|
//! | [`mod@line`] | lines of items |
//! | [`escape`] | paths as text |
//! | [`facts`] | lines of facts |
//! | [`items`] | counts and tree digest of the lines |

pub mod escape;
pub mod facts;
pub mod items;
pub mod line;

use serde::{Deserialize, Serialize};

use crate::message::Digest;

/// First line of a receipt, without its newline.
pub const FIRST_LINE: &str = "icdc-receipt 1";
/// Namespace of the signature (`ssh-keygen -Y verify -n`).
pub const NAMESPACE: &str = "icdc-receipt";
/// Most bytes of lines that are passed on in one message, unless a line is longer.
pub const MAX_PASSED_LINES: usize = 64 << 10;
/// Longest facts in one message, in bytes.
pub const MAX_FACTS: usize = 32 << 10;

/// Part of a receipt as the receiving end sends it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReceiptPart {
    /// The text above the lines of items, before anything is answered.
    Begun {
        /// The text, with the empty line behind it.
        facts: Vec<u8>,
        /// Name that the only source gets; `None` if each keeps its own.
        name: Option<Vec<u8>>,
    },
    /// Everything is delivered and durable: the text below the lines of items, and the signature.
    Signed {
        /// The text, with the empty line before it.
        facts: Vec<u8>,
        /// Public key of the signature.
        key: Digest,
        /// The two halves of the signature.
        signature: [Digest; 2],
    },
    /// There is no receipt, for this reason, as a sentence for the user.
    Refused(String),
}

/// Message about the receipt of a copy between two far ends, which the client that asked for the copy
/// writes and checks, although it neither sends nor receives.
///
/// ```text
/// client ── KeyWanted ──► receiving end that ssh has started ── Key | NoKey ──► client
/// driving end ── Begun, Items*, Signed | Refused ──► client
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PassedReceipt {
    /// The receiving end is to tell the key that will sign: the driving end might name its own.
    KeyWanted,
    /// Public key that will sign.
    Key(Digest),
    /// No key can sign, for this reason, as a sentence for the user.
    NoKey(String),
    /// The text above the lines of items. What was passed on before is void.
    Begun(Vec<u8>),
    /// Whole lines of items, in order.
    Items(Vec<u8>),
    /// The text below the lines of items, and the signature of the whole text.
    Signed {
        /// The text, with the empty line before it.
        facts: Vec<u8>,
        /// Public key of the signature.
        key: Digest,
        /// The two halves of the signature.
        signature: [Digest; 2],
    },
    /// There is no receipt, for this reason, as a sentence for the user.
    Refused(String),
}
