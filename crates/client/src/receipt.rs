//! The file of a receipt, and its signature beside it: written while the copy runs, checked, and given
//! their names at the end.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use icdc_disk::tree::try_lock;
use icdc_protocol::message::{ReceiveOptions, SnapshotTime, TransferId};
use icdc_protocol::receipt::facts::{self, Facts};
use icdc_protocol::receipt::items::Items;
use icdc_protocol::receipt::{FIRST_LINE, NAMESPACE};
use icdc_session::sender::ReceiptText;
use icdc_transfer::{KeyNotary, Notary, Parties, ReceiptSink, SignedReceipt};
use icdc_trust::{FileHash, FileSignature, Identity, PublicKey};
use icdc_units::hexadecimal;
use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

/// Suffix that makes a receipt's name that of its signature, as with ssh-keygen.
const SIGNATURE: &str = ".sig";

/// A receipt (signed record of what was delivered) that is being written under a hidden name, and
/// gets its name at the end.
pub struct ReceiptFile {
    path: PathBuf,
    /// Path of the hidden file, which is removed unless it gets its name.
    hidden: PathBuf,
    writing: Mutex<Writing>,
}

/// Key that has to sign a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signer {
    /// This key.
    Key(PublicKey),
    /// The key that the far end tells, over a connection that ssh has authenticated.
    Told,
}

/// Text of a receipt as written so far, and what is needed to check it.
struct Writing {
    file: BufWriter<File>,
    hash: FileHash,
    items: Items,
    /// Run and signer that the receipt has to name; `None` before a session has begun.
    expected: Option<(TransferId, Signer)>,
    head: Vec<u8>,
    stage: Stage,
}

/// Progress of the text of a receipt.
enum Stage {
    /// Nothing is written that counts.
    Fresh,
    /// The head is written, and lines follow.
    Open,
    /// The text is complete, and this is its signature.
    Signed(FileSignature),
    /// There is no receipt, for this reason.
    Over(String),
}

/// A receipt that was checked and has its name.
#[derive(Clone, Debug)]
pub struct WrittenReceipt {
    /// Key that has signed it.
    pub key: PublicKey,
    /// Number of items in it.
    pub items: u64,
    /// Number of items that were neither received nor read.
    pub unverified: u64,
}

impl ReceiptFile {
    /// Begins to write a receipt that will have this path, which nothing may have yet.
    ///
    /// # Errors
    /// A sentence for the user: something has the path, or nothing can be made there.
    pub fn create(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let Some(name) = path.file_name() else { return Err(format!("{shown}: is no name of a file")) };
        let signature = beside(path);
        for taken in [path, &signature] {
            match taken.symlink_metadata() {
                Ok(_) => {
                    let taken = taken.display();
                    return Err(format!("{taken}: exists, and no receipt is overwritten; name another file"));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // Such as a name that is too long for the signature.
                Err(error) => return Err(format!("{}: cannot be made: {error}", taken.display())),
            }
        }
        let name = name.to_string_lossy();
        let short: String = name.chars().take(40).collect();
        let hidden = path.with_file_name(format!(".{short}.unfinished"));
        let (hidden, file) = match reopen(&hidden) {
            Some(file) => (hidden, file),
            None => {
                let hidden = path.with_file_name(format!(".{short}.{}.unfinished", random()?));
                let made = OpenOptions::new().write(true).create_new(true).open(&hidden);
                (hidden, made.map_err(|error| format!("{shown}: cannot be made: {error}"))?)
            }
        };
        let writing = Writing {
            file: BufWriter::new(file),
            hash: FileHash::default(),
            items: Items::default(),
            expected: None,
            head: Vec::new(),
            stage: Stage::Fresh,
        };
        Ok(Self { path: path.to_owned(), hidden, writing: Mutex::new(writing) })
    }

    /// Path of the receipt.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory of the receipt, without links in its path; `None` if it is gone.
    #[must_use]
    pub fn directory(&self) -> Option<PathBuf> {
        self.hidden.canonicalize().ok()?.parent().map(Path::to_owned)
    }

    /// Notes that a session of the run `transfer` begins, whose receipt has to be signed by
    /// `signer`.
    pub fn expect(&self, transfer: TransferId, signer: Signer) {
        self.writing().expected = Some((transfer, signer));
    }

    /// Gives the receipt and its signature their names, durably.
    ///
    /// # Errors
    /// A sentence for the user: there is no receipt, it is not what was delivered, or the files cannot
    /// be written.
    pub fn finish(&self) -> Result<WrittenReceipt, String> {
        let mut writing = self.writing();
        let signature = match &writing.stage {
            Stage::Signed(signature) => *signature,
            Stage::Over(reason) => return Err(reason.clone()),
            Stage::Fresh | Stage::Open => return Err("the receiving end has not signed it".to_owned()),
        };
        let failed = |path: &Path, error: io::Error| format!("{}: cannot be written: {error}", path.display());
        let flushed = writing.file.flush().and_then(|()| writing.file.get_ref().sync_all());
        flushed.map_err(|error| failed(&self.path, error))?;
        let beside = beside(&self.path);
        let hidden = self.hidden.with_extension(format!("{}.signature", random()?));
        let placed = write_new(&hidden, signature.to_text(NAMESPACE).as_bytes())
            .and_then(|()| place(&hidden, &beside))
            .inspect_err(|_| drop(std::fs::remove_file(&hidden)));
        placed.map_err(|error| failed(&beside, error))?;
        if let Err(error) = place(&self.hidden, &self.path).and_then(|()| sync_directory(&self.path)) {
            // A signature alone means nothing.
            let _ = std::fs::remove_file(&beside);
            return Err(failed(&self.path, error));
        }
        let counts = writing.items.counts();
        Ok(WrittenReceipt { key: signature.key, items: counts.items, unverified: counts.unverified })
    }

    fn writing(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ReceiptFile {
    fn drop(&mut self) {
        let writing = self.writing.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Once it has its name, the hidden one may be that of another run.
        if has_name(writing.file.get_ref(), &self.hidden) {
            let _ = std::fs::remove_file(&self.hidden);
        }
    }
}

impl ReceiptSink for ReceiptFile {
    fn take(&self, part: ReceiptText) {
        let mut writing = self.writing();
        if let Err(reason) = writing.take(part) {
            writing.stage = Stage::Over(reason);
        }
    }
}

impl Writing {
    /// Adds a part of the text that the receiving end has sent. The error is the reason why there
    /// is no receipt.
    fn take(&mut self, part: ReceiptText) -> Result<(), String> {
        let unwritten = |error: io::Error| format!("it cannot be written: {error}");
        match (part, &self.stage) {
            // That of a session that was cut is void.
            (ReceiptText::Begun(head), _) => {
                self.begin(head).map_err(unwritten)?;
                self.stage = Stage::Open;
            }
            (ReceiptText::Items(lines), Stage::Open) => {
                self.items.add(&lines).map_err(|line| format!("this is no line of an item: {line}"))?;
                self.write(&lines).map_err(unwritten)?;
            }
            (ReceiptText::Signed { facts, key, signature }, Stage::Open) => {
                self.write(&facts).map_err(unwritten)?;
                let mut bytes = [0; 64];
                bytes.copy_from_slice(signature.as_flattened());
                let signature = FileSignature { key: PublicKey::from_bytes(key), bytes };
                self.check(&facts, &signature)?;
                self.stage = Stage::Signed(signature);
            }
            (ReceiptText::Refused(reason), _) => return Err(reason),
            (ReceiptText::Items(_) | ReceiptText::Signed { .. }, Stage::Over(reason)) => return Err(reason.clone()),
            (ReceiptText::Items(_) | ReceiptText::Signed { .. }, Stage::Fresh | Stage::Signed(_)) => {
                return Err("the receiving end has not begun it".to_owned());
            }
        }
        Ok(())
    }

    /// Begins the text anew with `head`; what was written before is void.
    fn begin(&mut self, head: Vec<u8>) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().set_len(0)?;
        self.file.rewind()?;
        (self.hash, self.items) = (FileHash::default(), Items::default());
        self.write(&head)?;
        self.head = head;
        Ok(())
    }

    /// Appends to the text, and to the hash that the signature is checked by.
    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        self.hash.update(text);
        self.file.write_all(text)
    }

    /// Checks that the receiving end has signed this text, and states in it what this end knows.
    fn check(&self, foot: &[u8], signature: &FileSignature) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("the receiving end has signed something else: {what}"));
        let (Some(head), Some(told)) = (facts::head(&self.head), facts::foot(foot)) else {
            return wrong("a text that is no receipt");
        };
        let Some((transfer, signer)) = &self.expected else { return wrong("another run") };
        if matches!(signer, Signer::Key(key) if *key != signature.key) {
            return wrong("with a key that is not its own");
        }
        if facts::value(&head, "signed-by") != Some(signature.key.ssh_line().as_str()) {
            return wrong("as another key than it says");
        }
        if facts::value(&head, "run") != Some(hexadecimal(transfer).as_str()) {
            return wrong("another run");
        }
        let own = self.items.tell(Facts::of_foot()).into_foot();
        let own = facts::foot(&own).unwrap_or_default();
        if let Some((name, _)) = own.iter().find(|(name, value)| facts::value(&told, name) != Some(*value)) {
            return wrong(&format!("other {name} than were delivered by what this end knows"));
        }
        match signature.is_of(NAMESPACE, self.hash.clone()) {
            true => Ok(()),
            false => wrong("the signature is not one of this text"),
        }
    }
}

/// Notary of the receipt of a copy to this host: signs with the user's identity, and writes the
/// file.
pub(crate) struct OwnReceipt<'a> {
    file: &'a ReceiptFile,
    identity: Arc<Identity>,
    parties: Parties,
    transfer: TransferId,
    options: &'a ReceiveOptions,
    /// Notary of the session that is running.
    session: Mutex<Option<KeyNotary>>,
}

impl<'a> OwnReceipt<'a> {
    /// Notary of the receipt of a copy to this host, which this host's `identity` signs.
    pub(crate) fn new(
        file: &'a ReceiptFile,
        identity: Arc<Identity>,
        sender: String,
        transfer: TransferId,
        options: &'a ReceiveOptions,
    ) -> Self {
        let user = std::env::var("USER").unwrap_or_else(|_| format!("user {}", rustix::process::geteuid().as_raw()));
        let parties = Parties::on_this_host(&user, sender);
        Self { file, identity, parties, transfer, options, session: Mutex::default() }
    }

    /// Locks the notary of the running session; `None` before the first.
    fn session(&self) -> MutexGuard<'_, Option<KeyNotary>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Notary for OwnReceipt<'_> {
    fn begin(&self, directory: &str) -> Result<Vec<u8>, String> {
        let (identity, parties) = (Arc::clone(&self.identity), self.parties.clone());
        let start = std::env::current_dir().unwrap_or_default();
        let notary = KeyNotary::new(identity, parties, &self.transfer, self.options).starting_in(start);
        let head = notary.begin(directory)?;
        *self.session() = Some(notary);
        self.file.expect(self.transfer, Signer::Key(self.identity.public()));
        self.file.take(ReceiptText::Begun(head.clone()));
        Ok(head)
    }

    fn add(&self, lines: Vec<u8>) {
        if let Some(notary) = &*self.session() {
            notary.add(lines.clone());
        }
        self.file.take(ReceiptText::Items(lines));
    }

    fn sign(&self, snapshot: Option<SnapshotTime>) -> Result<SignedReceipt, String> {
        let signed = self.session().as_ref().map(|notary| notary.sign(snapshot));
        let signed = signed.unwrap_or_else(|| Err("the receipt has not begun".to_owned()))?;
        let SignedReceipt { facts, key, signature } = signed.clone();
        self.file.take(ReceiptText::Signed { facts, key, signature });
        Ok(signed)
    }

    fn refuse(&self, reason: &str) {
        self.file.take(ReceiptText::Refused(reason.to_owned()));
    }
}

/// Opens the hidden file for a receipt, empty and locked, which a run that was killed may have left;
/// `None` if another run writes it, or it may not be this user's alone.
fn reopen(hidden: &Path) -> Option<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut opening = OpenOptions::new();
    let file = opening.read(true).write(true).create(true).truncate(false).custom_flags(flags).open(hidden).ok()?;
    let stat = file.metadata().ok()?;
    let is_own = stat.is_file() && stat.nlink() == 1 && stat.uid() == rustix::process::geteuid().as_raw();
    if !is_own || !try_lock(&file).unwrap_or(false) {
        return None;
    }
    let mut begun = [0; FIRST_LINE.len()];
    let is_receipt = stat.len() == 0 || file.read_exact_at(&mut begun, 0).is_ok() && begun == FIRST_LINE.as_bytes();
    // A run that has ended meanwhile may have given it its name.
    (is_receipt && has_name(&file, hidden) && file.set_len(0).is_ok()).then_some(file)
}

/// Whether this path leads to the open file.
fn has_name(file: &File, path: &Path) -> bool {
    let place = |stat: Metadata| (stat.dev(), stat.ino());
    file.metadata().is_ok_and(|stat| path.symlink_metadata().is_ok_and(|named| place(named) == place(stat)))
}

/// Random hexadecimal digits for the name of a hidden file.
fn random() -> Result<String, String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| format!("random numbers: {error}"))?;
    Ok(hexadecimal(&bytes))
}

/// Path of the signature of the receipt with this path.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(SIGNATURE);
    name.into()
}

/// Whether a file that begins with these bytes is a receipt.
#[must_use]
pub fn is_receipt(beginning: &[u8]) -> bool {
    beginning.strip_prefix(FIRST_LINE.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'\n'))
}

/// Writes a new file durably; an error if the path exists.
fn write_new(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text)?;
    file.sync_all()
}

/// Renames a file to a path that nothing has; an error if something has it, where the kernel can
/// tell.
fn place(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // File systems and kernels that cannot: nothing had the name when the copy began.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => std::fs::rename(from, to),
        placed => Ok(placed?),
    }
}

/// Makes the names in the directory of `path` durable.
fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = match path.parent() {
        Some(directory) if directory != Path::new("") => directory,
        _ => Path::new("."),
    };
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &[u8] = b"stored file 12 1.000000000 -  a\n";
    const RUN: TransferId = [7; 16];

    /// A notary of a receipt that has begun at `file`, for the run `RUN`.
    fn begun(file: &ReceiptFile, identity: &Arc<Identity>, run: &TransferId) -> KeyNotary {
        let parties = Parties { receiver: "far".into(), sender: "near".into() };
        let notary = KeyNotary::new(Arc::clone(identity), parties, run, &ReceiveOptions::default());
        file.take(ReceiptText::Begun(notary.begin("/srv").unwrap()));
        notary
    }

    fn end(file: &ReceiptFile, notary: &KeyNotary) -> Result<WrittenReceipt, String> {
        let SignedReceipt { facts, key, signature } = notary.sign(None).unwrap();
        file.take(ReceiptText::Signed { facts, key, signature });
        file.finish()
    }

    #[test]
    fn a_receipt_gets_its_name_with_its_signature_and_is_never_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("receipt");
        let identity = Arc::new(Identity::generate());
        let file = ReceiptFile::create(&path).unwrap();
        file.expect(RUN, Signer::Key(identity.public()));
        // A session that is cut, and the next one.
        let cut = begun(&file, &identity, &RUN);
        cut.add(LINE.to_vec());
        file.take(ReceiptText::Items(LINE.to_vec()));
        let notary = begun(&file, &identity, &RUN);
        for _ in 0..2 {
            notary.add(LINE.to_vec());
            file.take(ReceiptText::Items(LINE.to_vec()));
        }
        assert!(!path.exists());
        assert_eq!(end(&file, &notary).unwrap().items, 2);
        drop(file);
        let text = std::fs::read(&path).unwrap();
        assert!(is_receipt(&text));
        let mut hash = FileHash::default();
        hash.update(&text);
        let signature = std::fs::read(beside(&path)).unwrap();
        assert!(FileSignature::parse(&signature, NAMESPACE).unwrap().is_of(NAMESPACE, hash));
        let names = std::fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(names, 2, "nothing hidden stays");
        assert!(ReceiptFile::create(&path).is_err_and(|reason| reason.contains("overwritten")));
    }

    #[test]
    fn what_the_far_end_has_signed_and_this_end_does_not_know_is_no_receipt() {
        let identity = Arc::new(Identity::generate());
        let other = Signer::Key(Identity::generate().public());
        let own = Signer::Key(identity.public());
        let cases: [(&str, TransferId, Signer, &[u8]); 4] = [
            ("a key that is not its own", RUN, other, LINE),
            ("another run", [8; 16], own, LINE),
            ("other items", RUN, own, b""),
            ("other bytes", RUN, own, b"stored file 13 1.000000000 -  a\n"),
        ];
        for (reason, run, signer, line) in cases {
            let directory = tempfile::tempdir().unwrap();
            let file = ReceiptFile::create(&directory.path().join("receipt")).unwrap();
            file.expect(RUN, signer);
            let notary = begun(&file, &identity, &run);
            notary.add(line.to_vec());
            file.take(ReceiptText::Items(LINE.to_vec()));
            let error = end(&file, &notary).unwrap_err();
            assert!(error.contains(reason), "{error}, not {reason}");
            drop(file);
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing stays");
        }
    }

    #[test]
    fn a_signature_of_something_else_is_none_and_neither_is_a_line_out_of_turn() {
        let directory = tempfile::tempdir().unwrap();
        let identity = Arc::new(Identity::generate());
        let file = ReceiptFile::create(&directory.path().join("receipt")).unwrap();
        file.expect(RUN, Signer::Told);
        let notary = begun(&file, &identity, &RUN);
        let SignedReceipt { facts, key, .. } = notary.sign(None).unwrap();
        file.take(ReceiptText::Signed { facts, key, signature: [[1; 32]; 2] });
        assert!(file.finish().unwrap_err().contains("not one of this text"));
        let fresh = ReceiptFile::create(&directory.path().join("receipt")).unwrap();
        fresh.take(ReceiptText::Items(LINE.to_vec()));
        assert!(fresh.finish().unwrap_err().contains("not begun"));
        let refused = ReceiptFile::create(&directory.path().join("receipt")).unwrap();
        begun(&refused, &identity, &RUN);
        refused.take(ReceiptText::Refused("x is not delivered".into()));
        assert_eq!(refused.finish().unwrap_err(), "x is not delivered");
    }
}
