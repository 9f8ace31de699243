//! Check values of journal records: BLAKE3 keyed by the journal's header, cut to 8 bytes.
//!
//! They distinguish valid records from damaged and foreign ones (one in 2^64 is missed). They are
//! no defence against a writer of the journal: the key follows from the header.

use blake3::hazmat::{ContextKey, HasherExt, hash_derive_key_context};
use blake3::{Hasher, KEY_LEN};

/// Length of a check value in bytes.
pub(crate) const CHECK_LENGTH: usize = 8;

/// Key for the check values of one journal.
#[derive(Clone, Debug)]
pub(crate) struct Seal {
    key: [u8; KEY_LEN],
}

impl Seal {
    /// The key for records under `header` of a journal whose format is named by `context`.
    pub(crate) fn new(context: &str, header: &[u8]) -> Self {
        let context: ContextKey = hash_derive_key_context(context);
        let mut hasher = Hasher::new_from_context_key(&context);
        hasher.update(header);
        Self { key: *hasher.finalize().as_bytes() }
    }

    /// Computes the check value of `bytes`.
    pub(crate) fn check(&self, bytes: &[u8]) -> [u8; CHECK_LENGTH] {
        let [a, b, c, d, e, f, g, h, ..] = *blake3::keyed_hash(&self.key, bytes).as_bytes();
        [a, b, c, d, e, f, g, h]
    }
}
