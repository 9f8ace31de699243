//! Lists of digests as `b3sum`, `sha256sum` and `md5sum` write them, and as archives ship them.
//!
//! ```text
//! HEX  NAME          a file             MD5 (NAME) = HEX      the same, as BSD writes it (--tag)
//! HEX *NAME          the same, binary   SHA256, BLAKE3
//! \HEX  NA\\ME       a name with \\ for a backslash, \n for a newline, \r for a carriage return
//! # …                a comment
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, anyhow, bail, ensure};
use icdc_client::is_receipt;
use icdc_disk::tree::printable;
use icdc_protocol::limits::MAX_PATH;
use icdc_protocol::message::ListDigest;
use icdc_units::of_hexadecimal;

use super::expected::Expected;
use super::receipt::Receipt;
use crate::copy::summary::counted;

/// Longest list of digests that is read, in bytes.
const MAX_LIST: u64 = 4 << 30;
/// Longest line of a list of digests in bytes: a path whose bytes are all escaped, a digest, a tag.
const MAX_LINE: usize = 2 * MAX_PATH + 200;

/// A list of digests, with which `icdc verify --list` compares a tree; the digests that were not
/// taken yet.
#[derive(Clone, Debug)]
pub(super) struct Checksums {
    digest: ListDigest,
    items: BTreeMap<Vec<u8>, Expected>,
    /// Remarks on the list, a sentence each; empty for a list that is no receipt.
    remarks: Vec<String>,
}

/// A line of a list of digests: the digest of one file.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    /// Kind of the digest, where the line names it.
    tag: Option<ListDigest>,
    digest: Vec<u8>,
    /// Path from the tree's top on.
    path: Vec<u8>,
}

impl Checksums {
    /// Reads a list from a file, or from standard input (`-`); its digests are of this kind, or of
    /// the one that its lines or its name tell.
    ///
    /// # Errors
    /// It cannot be read, or has a line that is none, whose number is told.
    pub(super) fn read(path: &Path, digest: Option<ListDigest>) -> anyhow::Result<Self> {
        let shown = path.display();
        let input: Box<dyn Read> = match path == Path::new("-") {
            true => Box::new(std::io::stdin().lock()),
            false => Box::new(File::open(path).with_context(|| format!("{shown}: cannot be read"))?),
        };
        let mut input = BufReader::new(input);
        let beginning = input.fill_buf().with_context(|| format!("{shown}: cannot be read"))?;
        if is_receipt(beginning) {
            return Self::of_receipt(input, path, digest).with_context(|| shown.to_string());
        }
        let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
        Self::parse(input, digest.or_else(|| of_name(&name))).with_context(|| shown.to_string())
    }

    /// Reads a receipt, and checks the signature beside it, if there is one.
    fn of_receipt(input: impl BufRead, path: &Path, wanted: Option<ListDigest>) -> anyhow::Result<Self> {
        ensure!(wanted.is_none_or(|wanted| wanted == ListDigest::Blake3), "the digests of a receipt are BLAKE3");
        let receipt = Receipt::parse(input)?;
        let mut remarks = vec![receipt.check_signature(path)?];
        if receipt.without_digest > 0 {
            let files = counted(receipt.without_digest, "file");
            remarks
                .push(format!("{files} in the receipt were not read by its run, have no digest, and are not compared"));
        }
        Ok(Self { digest: ListDigest::Blake3, items: receipt.items, remarks })
    }

    /// Remarks on a receipt that serves as the list, a sentence each for the user; none for other
    /// lists.
    pub(super) fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Reads a list as checksum programs write it; its digests are of the kind `wanted`, or of the
    /// one that its lines tell.
    fn parse(mut input: impl BufRead, wanted: Option<ListDigest>) -> anyhow::Result<Self> {
        let (mut digest, mut items) = (wanted, BTreeMap::new());
        let (mut line, mut number, mut bytes) = (Vec::new(), 0_u64, 0_u64);
        loop {
            line.clear();
            let read = input.by_ref().take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line);
            let length = read.map_err(|error| anyhow!("cannot be read: {error}"))?;
            if length == 0 {
                break;
            }
            (number, bytes) = (number + 1, bytes + length as u64);
            let at = || format!("line {number}");
            ensure!(length <= MAX_LINE, "line {number} is longer than {MAX_LINE} bytes");
            ensure!(bytes <= MAX_LIST, "the list is longer than {MAX_LIST} bytes");
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            if text.is_empty() || text.starts_with(b"#") {
                continue;
            }
            let entry = entry(text).with_context(at)?;
            let found = kind(&entry, digest).with_context(at)?;
            ensure!(digest.is_none_or(|digest| digest == found), "line {number}: another kind of digest than before");
            digest = Some(found);
            let expected = Expected::File(entry.digest);
            if let Some(before) = items.insert(entry.path.clone(), expected.clone())
                && before != expected
            {
                bail!("line {number}: {} has another digest in a line before", printable(&entry.path));
            }
        }
        let digest = digest.context("the list has no digest")?;
        Ok(Self { digest, items, remarks: Vec::new() })
    }

    /// Kind of the list's digests, which the tree's files are to be compared by.
    pub(super) fn digest(&self) -> ListDigest {
        self.digest
    }

    /// Takes an item out of the list, a symbolic link or a file; returns what the list says of it, `None` if it has no
    /// such item.
    pub(super) fn take(&mut self, path: &[u8], is_link: bool) -> Option<Expected> {
        let expected = self.items.get(path)?;
        (matches!(expected, Expected::Link(_)) == is_link).then(|| self.items.remove(path)).flatten()
    }

    /// Paths of the items that were not taken, in order.
    pub(super) fn left(&self) -> impl Iterator<Item = &[u8]> {
        self.items.keys().map(Vec::as_slice)
    }
}

/// Kind of the digests in a list whose file has this name, in lower case; `None` if the name does
/// not tell.
fn of_name(name: &str) -> Option<ListDigest> {
    let known = [
        ("sha256", ListDigest::Sha256),
        ("blake3", ListDigest::Blake3),
        ("b3", ListDigest::Blake3),
        ("md5", ListDigest::Md5),
    ];
    known.into_iter().find(|(word, _)| name.contains(word)).map(|(_, digest)| digest)
}

/// Kind of an entry's digest: as its line names it, or `wanted`, or by its length.
fn kind(entry: &Entry, wanted: Option<ListDigest>) -> anyhow::Result<ListDigest> {
    let by_length = (entry.digest.len() == ListDigest::Md5.length()).then_some(ListDigest::Md5);
    let digest =
        entry.tag.or(wanted).or(by_length).context(
            "nothing tells whether the digests are BLAKE3 or SHA-256; give --digest blake3 or --digest sha256",
        )?;
    ensure!(
        digest.length() == entry.digest.len(),
        "a digest of {} bytes in a list of digests of {}",
        entry.digest.len(),
        digest.length()
    );
    Ok(digest)
}

/// Parses a line of a list of digests.
fn entry(line: &[u8]) -> anyhow::Result<Entry> {
    let (is_escaped, line) = line.strip_prefix(b"\\").map_or((false, line), |rest| (true, rest));
    let (tag, digest, name) = match tagged(line) {
        Some((tag, name, digest)) => (Some(tag), digest, name),
        None => {
            let end = line.iter().position(|byte| *byte == b' ').context(NO_LINE)?;
            let (digest, rest) = line.split_at(end);
            let name = rest.strip_prefix(b"  ").or_else(|| rest.strip_prefix(b" *")).context(NO_LINE)?;
            (None, digest, name)
        }
    };
    let digest = bytes_of(digest).context(NO_LINE)?;
    let name = if is_escaped { unescaped(name)? } else { name.to_vec() };
    Ok(Entry { tag, digest, path: path(&name)? })
}

/// Text of the error for a line that has no digest with a name.
const NO_LINE: &str = "is no digest with a name";

/// Kind, name and digest of a line as BSD writes it; `None` for any other line.
fn tagged(line: &[u8]) -> Option<(ListDigest, &[u8], &[u8])> {
    let known: [(&[u8], ListDigest); 3] =
        [(b"SHA256 (", ListDigest::Sha256), (b"MD5 (", ListDigest::Md5), (b"BLAKE3 (", ListDigest::Blake3)];
    let (rest, tag) = known.into_iter().find_map(|(start, tag)| Some((line.strip_prefix(start)?, tag)))?;
    let end = rest.windows(4).rposition(|window| window == b") = ")?;
    Some((tag, &rest[..end], &rest[end + 4..]))
}

/// Bytes of a digest in hexadecimal digits; `None` if it is none, or of no known length.
fn bytes_of(digits: &[u8]) -> Option<Vec<u8>> {
    of_hexadecimal(digits).filter(|bytes| matches!(bytes.len(), 16 | 32))
}

/// The name without the escapes of `\\`, `\n` and `\r`.
fn unescaped(name: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut plain = Vec::with_capacity(name.len());
    let mut bytes = name.iter();
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'\\' => match bytes.next() {
                Some(b'\\') => b'\\',
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                _ => bail!("a backslash that stands for nothing"),
            },
            byte => *byte,
        });
    }
    Ok(plain)
}

/// Path from the tree's top on that a name in the list means, without `.` in it.
fn path(name: &[u8]) -> anyhow::Result<Vec<u8>> {
    let shown = || printable(name);
    ensure!(!name.starts_with(b"/"), "{}: an absolute name; names in a list are those below the tree", shown());
    ensure!(!name.contains(&0), "{}: a name with a NUL", shown());
    let components: Vec<&[u8]> =
        name.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".").collect();
    ensure!(!components.contains(&&b".."[..]), "{}: a name that leads out of the tree", shown());
    ensure!(!components.is_empty(), "{}: a name of no file", shown());
    Ok(components.join(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MD5: &str = "d41d8cd98f00b204e9800998ecf8427e";
    const LONG: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn names(text: &str, digest: Option<ListDigest>) -> anyhow::Result<(ListDigest, Vec<String>)> {
        let list = Checksums::parse(text.as_bytes(), digest)?;
        let names = list.left().map(|path| String::from_utf8(path.to_vec()).unwrap()).collect();
        Ok((list.digest(), names))
    }

    #[test]
    fn lists_are_read_as_they_are_shipped() {
        let text = format!("# archive\n{MD5}  a b\n\n{MD5} *./dir//c\r\n\\{MD5}  new\\nline\\\\\n");
        let expected = ["a b", "dir/c", "new\nline\\"].map(str::to_owned).to_vec();
        assert_eq!(names(&text, None).unwrap(), (ListDigest::Md5, expected));
        let tagged = format!("SHA256 (a) = b) = {LONG}\nSHA256 (x) = {LONG}\n");
        assert_eq!(names(&tagged, None).unwrap(), (ListDigest::Sha256, vec!["a) = b".into(), "x".into()]));
        let upper = format!("{}  x", LONG.to_uppercase());
        assert_eq!(names(&upper, Some(ListDigest::Blake3)).unwrap(), (ListDigest::Blake3, vec!["x".into()]));
        assert_eq!(of_name("sha256sums.txt"), Some(ListDigest::Sha256));
        assert_eq!((of_name("run7.b3"), of_name("manifest")), (Some(ListDigest::Blake3), None));
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        let cases = [
            (format!("{MD5}  a\n{MD5}  ../b\n"), "line 2: ../b: a name that leads out"),
            (format!("{MD5}  a/../../b\n"), "line 1"),
            (format!("{MD5}  /etc/passwd\n"), "line 1: /etc/passwd: an absolute name"),
            (format!("{MD5}  .\n"), "a name of no file"),
            (format!("{MD5} a\n"), "is no digest with a name"),
            (format!("{}  a\n", &MD5[1..]), "is no digest with a name"),
            ("x\n".into(), "is no digest with a name"),
            (format!("\\{MD5}  a\\x\n"), "stands for nothing"),
            (format!("{LONG}  a\n"), "give --digest"),
            (format!("MD5 (a) = {MD5}\nSHA256 (b) = {LONG}\n"), "line 2: another kind"),
            (format!("{MD5}  a\n{}f  a\n", &MD5[..31]), "line 2: a has another digest"),
            (format!("{MD5}  {}\n", "x".repeat(MAX_LINE)), "longer than"),
            (String::new(), "has no digest"),
        ];
        for (text, expected) in cases {
            let error = format!("{:#}", names(&text, None).unwrap_err());
            assert!(error.contains(expected), "{error} of {text:?}");
        }
    }
}
