//! Receipts as lists of digests (`icdc verify --list`), and the signatures beside them.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, Read};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail, ensure};
use icdc_protocol::message::FileDigest;
use icdc_protocol::receipt::facts::{self, Facts};
use icdc_protocol::receipt::items::Items;
use icdc_protocol::receipt::line::{Kind, Line, MAX_LINE};
use icdc_protocol::receipt::{MAX_FACTS, NAMESPACE};
use icdc_trust::{FileHash, FileSignature, PublicKey};

use super::expected::Expected;

/// Longest signature that is read, in bytes.
const MAX_SIGNATURE: u64 = 64 << 10;

/// A receipt of a copy, as far as a tree can be compared with it, and what is needed to check its
/// signature.
pub(super) struct Receipt {
    /// Files and links whose contents the receipt tells, by path.
    pub(super) items: BTreeMap<Vec<u8>, Expected>,
    /// Number of files whose digest it has not.
    pub(super) without_digest: u64,
    hash: FileHash,
    signed_by: PublicKey,
    ended: String,
}

/// Contents of files and links, as the lines of a receipt tell of them.
#[derive(Default)]
struct Contents {
    items: BTreeMap<Vec<u8>, Expected>,
    /// Digests of the files of each size and modification time.
    alike: HashMap<Version, Vec<Vec<u8>>>,
    /// Further names of files, with the size and the time of each.
    further: Vec<(Vec<u8>, Version)>,
    without_digest: u64,
}

/// Size and modification time of a file.
type Version = (u64, (i64, u32));

impl Contents {
    /// Adds what a line says; false if an earlier one is of the same item.
    fn add(&mut self, line: Line) -> bool {
        let version = (line.size, line.mtime);
        let expected = match (line.kind, line.digest) {
            (Kind::File, Some(FileDigest::Blake3(digest))) => {
                self.alike.entry(version).or_default().push(digest.to_vec());
                Expected::File(digest.to_vec())
            }
            (Kind::Symlink, Some(FileDigest::Blake3(digest))) => Expected::Link(digest.to_vec()),
            (Kind::HardLink, _) => {
                self.further.push((line.path, version));
                return true;
            }
            (Kind::File, _) => {
                self.without_digest += 1;
                return true;
            }
            (Kind::Symlink | Kind::Directory | Kind::Special, _) => return true,
        };
        self.items.insert(line.path, expected).is_none()
    }

    /// The items whose contents can be compared, and the number of files whose contents cannot.
    fn items(self) -> (BTreeMap<Vec<u8>, Expected>, u64) {
        let Self { mut items, alike, further, mut without_digest } = self;
        let alike: HashMap<Version, Arc<[Vec<u8>]>> =
            alike.into_iter().map(|(version, digests)| (version, digests.into())).collect();
        for (path, version) in further {
            match alike.get(&version) {
                // What a line of its own says of a name is more.
                Some(digests) => {
                    items.entry(path).or_insert_with(|| Expected::OneOf(Arc::clone(digests)));
                }
                None => without_digest += 1,
            }
        }
        (items, without_digest)
    }
}

/// Part of a receipt that is being read.
enum Part {
    Head,
    Items,
    Foot,
}

impl Receipt {
    /// Reads a receipt.
    ///
    /// # Errors
    /// A line is none of a receipt, whose number is told; or its counts are not those of its lines.
    pub(super) fn parse(mut input: impl BufRead) -> anyhow::Result<Self> {
        let (mut part, mut head, mut foot) = (Part::Head, Vec::new(), Vec::new());
        let (mut items, mut hash) = (Items::default(), FileHash::default());
        let mut contents = Contents::default();
        let (mut line, mut number) = (Vec::new(), 0_u64);
        loop {
            line.clear();
            let read = input.by_ref().take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line);
            if read.map_err(|error| anyhow!("cannot be read: {error}"))? == 0 {
                break;
            }
            number += 1;
            ensure!(line.len() <= MAX_LINE, "line {number} is longer than {MAX_LINE} bytes");
            hash.update(&line);
            match part {
                Part::Head | Part::Foot => {
                    let (text, next) = match part {
                        Part::Head => (&mut head, Part::Items),
                        _ => (&mut foot, Part::Foot),
                    };
                    text.extend_from_slice(&line);
                    ensure!(text.len() <= MAX_FACTS, "line {number}: too many facts");
                    if line == b"\n" {
                        part = next;
                    }
                }
                Part::Items if line == b"\n" => {
                    foot.extend_from_slice(&line);
                    part = Part::Foot;
                }
                Part::Items => {
                    let parsed = line.strip_suffix(b"\n").and_then(Line::parse);
                    let parsed = parsed.with_context(|| format!("line {number} is no line of an item"))?;
                    items.add(&line).map_err(|_| anyhow!("line {number} is no line of an item"))?;
                    ensure!(contents.add(parsed), "line {number} is of a file that an earlier line is of");
                }
            }
        }
        let own = items.tell(Facts::of_foot()).into_foot();
        let told = facts::foot(&foot).context("the end of the receipt is missing, or is none")?;
        for (name, value) in facts::foot(&own).unwrap_or_default() {
            ensure!(facts::value(&told, name) == Some(value), "it has other {name} than its end says: it was changed");
        }
        let head = facts::head(&head).context("the beginning of the receipt is none")?;
        let signed_by = facts::value(&head, "signed-by").context("it does not say who has signed it")?.parse()?;
        let ended = facts::value(&told, "ended").unwrap_or("an unknown time").to_owned();
        let (items, without_digest) = contents.items();
        Ok(Self { items, without_digest, hash, signed_by, ended })
    }

    /// Checks the signature beside the receipt at `path`; returns a sentence that says who has
    /// signed, or that there is none.
    ///
    /// # Errors
    /// It is not the signature of this receipt.
    pub(super) fn check_signature(&self, path: &Path) -> anyhow::Result<String> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".sig");
        let beside = Path::new(&beside);
        let file = match std::fs::File::open(beside) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(format!("{}: its signature is not beside it, and was not checked", path.display()));
            }
            Err(error) => bail!("{}: {error}", beside.display()),
        };
        let mut text = Vec::new();
        file.take(MAX_SIGNATURE).read_to_end(&mut text).with_context(|| beside.display().to_string())?;
        let signature = FileSignature::parse(&text, NAMESPACE).with_context(|| beside.display().to_string())?;
        ensure!(
            signature.key == self.signed_by && signature.is_of(NAMESPACE, self.hash.clone()),
            "{} is not the signature of this receipt: one of both was changed",
            beside.display()
        );
        let (key, ended) = (signature.key.ssh_fingerprint(), &self.ended);
        Ok(format!("receipt of {ended}, signed by {key}; whose key that is, you have to know"))
    }
}
