//! Receipts at both ends: signed where the data is, written where the user is.
//!
//! ```text
//! receiver ── directory, lines, end ──► Notary ── facts, signature ──► sender ──► ReceiptSink (a file)
//! ```
//!
//! A [`Notary`] states only what it knows itself, and what the receiver has delivered: it makes the
//! facts, digests them and the lines, and signs that once. It signs no text that comes from the other
//! end.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

use icdc_protocol::message::{Digest, Equality, Existing, ReceiveOptions, SnapshotTime, TransferId};
use icdc_protocol::receipt::facts::Facts;
use icdc_protocol::receipt::items::Items;
use icdc_protocol::receipt::{MAX_FACTS, NAMESPACE};
use icdc_session::sender::ReceiptText;
use icdc_trust::{FileHash, FileSignature, Identity};
use icdc_units::hexadecimal;
use serde::{Deserialize, Serialize};

/// Error of a notary that is called out of order: its receipt has not begun, has begun before, or
/// has ended.
const OUT_OF_TURN: &str = "the receipt is not at this stage";

/// Makes and signs the receipt of one session at the receiving end: a head, lines of delivered
/// items, facts and a signature.
pub trait Notary: Send + Sync {
    /// Begins the receipt of what is delivered beneath `directory`, a printable path; returns the text
    /// above the lines of items.
    ///
    /// # Errors
    /// The reason for which there can be no receipt, with the remedy.
    fn begin(&self, directory: &str) -> Result<Vec<u8>, String>;

    /// Adds whole lines of items that are delivered. A failure is reported when the receipt is
    /// signed.
    fn add(&self, lines: Vec<u8>);

    /// Signs the receipt: everything is delivered, in the snapshot of this time if one was made.
    ///
    /// # Errors
    /// The reason for which there is no receipt.
    fn sign(&self, snapshot: Option<SnapshotTime>) -> Result<SignedReceipt, String>;

    /// Called when there will be no receipt, with the reason; does nothing by default.
    fn refuse(&self, _reason: &str) {}
}

/// End of a receipt: the facts below the lines of items, and the signature over the whole text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedReceipt {
    /// The text below the lines of items.
    pub facts: Vec<u8>,
    /// Public key of the signature.
    pub key: Digest,
    /// The two halves of the signature.
    pub signature: [Digest; 2],
}

/// Takes the receipt's text at the sending end, which writes it where the user wants it.
pub trait ReceiptSink: Send + Sync {
    /// Takes the next part of the receipt's text, or the reason why there is no receipt.
    fn take(&self, part: ReceiptText);
}

/// Notary that signs with an identity in this process.
pub struct KeyNotary {
    identity: Arc<Identity>,
    /// Facts that were known before the receipt begins, as (name, value).
    known: Vec<(&'static str, String)>,
    /// Directory that relative paths start in.
    start: PathBuf,
    stage: Mutex<Stage>,
}

/// Stage of a notary's receipt: not begun, open for lines, or over. Each is signed once.
enum Stage {
    /// It has not begun.
    Fresh,
    /// Lines are added.
    Open(Box<Text>),
    /// It is signed, or cannot be.
    Over(&'static str),
}

/// Digest and counts of a receipt's text so far, of which the text itself is not kept.
struct Text {
    hash: FileHash,
    items: Items,
}

/// Receiver and sender of a delivery, as its receipt names them.
#[derive(Clone, Debug)]
pub struct Parties {
    /// The user and the host that receive.
    pub receiver: String,
    /// The key or the login of the sender, as the receiving end has authenticated it.
    pub sender: String,
}

impl Parties {
    /// The parties of a delivery to `user` on this host.
    #[must_use]
    pub fn on_this_host(user: &str, sender: String) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self { receiver: format!("{user} on {host}"), sender }
    }
}

impl KeyNotary {
    /// A notary for one session of the run `transfer`, with these options.
    #[must_use]
    pub fn new(identity: Arc<Identity>, parties: Parties, transfer: &TransferId, options: &ReceiveOptions) -> Self {
        let known = vec![
            ("signed-by", identity.public().ssh_line()),
            ("received-by", parties.receiver),
            ("sent-by", parties.sender),
            ("run", hexadecimal(transfer)),
            ("options", words(options)),
        ];
        Self { identity, known, start: PathBuf::new(), stage: Mutex::new(Stage::Fresh) }
    }

    /// Sets the directory that a relative destination path starts in: the receipt states the whole
    /// path, as it may be read elsewhere.
    #[must_use]
    pub fn starting_in(self, start: PathBuf) -> Self {
        Self { start, ..self }
    }

    /// Locks the stage of the receipt.
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Notary for KeyNotary {
    fn begin(&self, directory: &str) -> Result<Vec<u8>, String> {
        let mut stage = self.stage();
        let Stage::Fresh = *stage else { return Err(OUT_OF_TURN.to_owned()) };
        let facts = self.known.iter().fold(Facts::of_head(), |facts, (name, value)| facts.with(name, value));
        let directory = self.start.join(directory);
        let head = facts.with("directory", &directory.to_string_lossy()).with("begun", &now()).into_head();
        if head.len() > MAX_FACTS {
            return Err("the path of the destination is too long for a receipt".to_owned());
        }
        let mut hash = FileHash::default();
        hash.update(&head);
        *stage = Stage::Open(Box::new(Text { hash, items: Items::default() }));
        Ok(head)
    }

    fn add(&self, lines: Vec<u8>) {
        let mut stage = self.stage();
        let Stage::Open(text) = &mut *stage else { return };
        match text.items.add(&lines) {
            Ok(()) => text.hash.update(&lines),
            // A process of a session that somebody else has taken over could have sent anything.
            Err(_) => *stage = Stage::Over("a line of it is none"),
        }
    }

    fn sign(&self, snapshot: Option<SnapshotTime>) -> Result<SignedReceipt, String> {
        let text = match std::mem::replace(&mut *self.stage(), Stage::Over(OUT_OF_TURN)) {
            Stage::Open(text) => *text,
            Stage::Fresh => return Err(OUT_OF_TURN.to_owned()),
            Stage::Over(reason) => return Err(reason.to_owned()),
        };
        let facts = Facts::of_foot().with("ended", &now());
        let facts = match snapshot {
            Some(time) => facts.with("snapshot", &time.name()),
            None => facts,
        };
        let facts = text.items.tell(facts).into_foot();
        let mut hash = text.hash;
        hash.update(&facts);
        let signed = FileSignature::sign(&self.identity, NAMESPACE, hash).map_err(|error| error.to_string())?;
        let mut signature = [Digest::default(); 2];
        signature.as_flattened_mut().copy_from_slice(&signed.bytes);
        Ok(SignedReceipt { facts, key: *signed.key.as_bytes(), signature })
    }
}

/// Notary that has nothing to sign with, and refuses every receipt.
pub struct NoNotary(
    /// The reason, with the remedy.
    pub String,
);

impl Notary for NoNotary {
    fn begin(&self, _directory: &str) -> Result<Vec<u8>, String> {
        Err(self.0.clone())
    }

    fn add(&self, _lines: Vec<u8>) {}

    fn sign(&self, _snapshot: Option<SnapshotTime>) -> Result<SignedReceipt, String> {
        Err(self.0.clone())
    }
}

/// The present time in UTC, as it stands in a receipt.
fn now() -> String {
    let since = icdc_tcp::clock::wall().duration_since(UNIX_EPOCH).unwrap_or_default();
    SnapshotTime::new(since.as_secs()).map_or_else(|| "after the year 9999".to_owned(), SnapshotTime::name)
}

/// Options of the copy that determine what its receipt attests, in words, as a fact of the receipt.
fn words(options: &ReceiveOptions) -> String {
    let mut preserve = options.preserve;
    let kept = preserve.kinds().into_iter().filter(|(_, is_kept)| **is_kept);
    let kept: Vec<&str> = kept.map(|(word, _)| word).collect();
    let preserved = if kept.is_empty() { "none".to_owned() } else { kept.join(",") };
    let existing = match options.existing {
        Existing::Replace => None,
        Existing::SkipEqual(_) => Some("skip-equal"),
        Existing::Update(_) => Some("update"),
        Existing::Keep => Some("ignore-existing"),
    };
    let equality = match options.existing.equality() {
        Some(Equality::Size) => Some("size-only"),
        Some(Equality::Contents) => Some("checksum"),
        Some(Equality::SizeAndTime) | None => None,
    };
    let set = [
        options.verify.then_some("verify"),
        existing,
        equality,
        (options.delete.is_some() && options.snapshot.is_none()).then_some("delete"),
        options.snapshot.is_some().then_some("snapshot"),
        (!options.link_dest.is_empty()).then_some("link-dest"),
    ];
    set.into_iter().flatten().map(|word| format!("{word} ")).collect::<String>() + "preserve=" + &preserved
}

#[cfg(test)]
mod tests {
    use icdc_protocol::message::Preserve;
    use icdc_protocol::receipt::facts;

    use super::*;

    fn notary(identity: &Arc<Identity>) -> KeyNotary {
        let parties = Parties { receiver: "me on far".into(), sender: "you\nsigned-by: me".into() };
        KeyNotary::new(Arc::clone(identity), parties, &[7; 16], &ReceiveOptions::default())
    }

    const LINE: &[u8] = b"stored file 12 1.000000000 -  a\n";

    #[test]
    fn what_is_signed_is_the_text_that_is_told_and_the_lines() {
        let identity = Arc::new(Identity::generate());
        let notary = notary(&identity);
        let head = notary.begin("/srv/in").unwrap();
        notary.add(LINE.to_vec());
        let signed = notary.sign(SnapshotTime::new(0)).unwrap();
        let mut hash = FileHash::default();
        [&head[..], LINE, &signed.facts].into_iter().for_each(|part| hash.update(part));
        let mut bytes = [0; 64];
        bytes.copy_from_slice(signed.signature.as_flattened());
        let signature = FileSignature { key: icdc_trust::PublicKey::from_bytes(signed.key), bytes };
        assert!(signature.is_of(NAMESPACE, hash) && signature.key == identity.public());
        let (head, foot) = (facts::head(&head).unwrap(), facts::foot(&signed.facts).unwrap());
        assert_eq!(facts::value(&head, "signed-by"), Some(identity.public().ssh_line().as_str()));
        assert_eq!(facts::value(&head, "sent-by"), Some("you\\nsigned-by: me"), "no value makes a line");
        assert_eq!(facts::value(&head, "directory"), Some("/srv/in"));
        assert_eq!(facts::value(&foot, "items"), Some("1"));
        assert_eq!(facts::value(&foot, "snapshot"), Some("1970-01-01T00:00:00Z"));
    }

    #[test]
    fn the_directory_is_named_from_the_root() {
        for (directory, whole) in [("in/run7", "/home/anna/in/run7"), ("/srv/in", "/srv/in")] {
            let head =
                notary(&Arc::new(Identity::generate())).starting_in("/home/anna".into()).begin(directory).unwrap();
            assert_eq!(facts::value(&facts::head(&head).unwrap(), "directory"), Some(whole));
        }
    }

    #[test]
    fn the_options_name_all_that_is_preserved() {
        let mut options = ReceiveOptions::default();
        options.preserve.kinds().into_iter().for_each(|(_, is_kept)| *is_kept = true);
        assert_eq!(words(&options), "preserve=mode,times,links,owner,xattr,acl,specials,sparse,security");
        options.preserve = Preserve::NOTHING;
        assert_eq!(words(&options), "preserve=none");
    }

    #[test]
    fn nothing_is_signed_twice_or_out_of_turn_or_with_a_line_that_is_none() {
        let identity = Arc::new(Identity::generate());
        let fresh = notary(&identity);
        assert!(fresh.sign(None).is_err());
        let signed = notary(&identity);
        signed.begin("/").unwrap();
        assert!(signed.begin("/").is_err());
        signed.sign(None).unwrap();
        assert!(signed.sign(None).is_err() && signed.begin("/").is_err());
        let broken = notary(&identity);
        broken.begin("/").unwrap();
        broken.add(b"\nitems: 1000000\n".to_vec());
        broken.add(LINE.to_vec());
        assert!(broken.sign(None).is_err(), "what a session says is a line of an item or nothing");
    }
}
