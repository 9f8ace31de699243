//! Names of single components, and the printable form of bytes from elsewhere.

use std::ffi::{CStr, CString};
use std::fmt::{self, Write as _};

/// Maximum length of a component that is accepted, in bytes (`NAME_MAX` of Linux's own file
/// systems).
pub const MAX_NAME: usize = 255;

/// One component of a path, checked: not empty, not `.` or `..`, without `/` and NUL, at most
/// [`MAX_NAME`] bytes. Any other bytes are fine; a name is not text.
///
/// Every operation of a [`Directory`](super::Directory) takes a `Name`, so that nothing that came
/// from the other end can be a path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(CString);

/// Reason why bytes are not a valid [`Name`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name has no bytes at all.
    #[error("an empty name; every item needs one")]
    Empty,
    /// The name is `.` or `..`, which would mean another directory.
    #[error("the name {0:?} means a directory, not an item in one; it is refused")]
    Dots(&'static str),
    /// The name has a slash or a zero byte.
    #[error("the name {0} contains {1}, which no file name can hold; it is refused")]
    Byte(String, &'static str),
    /// The name has more than [`MAX_NAME`] bytes.
    #[error("the name {0} has {1} bytes; at most {MAX_NAME} are possible, so shorten it")]
    Long(String, usize),
}

impl Name {
    /// Makes a name of `bytes`, which must be exactly one component of a path, of at most
    /// [`MAX_NAME`] bytes.
    ///
    /// # Errors
    /// [`NameError`]: the bytes are empty, `.` or `..`, too many, or contain `/` or NUL.
    pub fn new(bytes: &[u8]) -> Result<Self, NameError> {
        match bytes {
            b"" => return Err(NameError::Empty),
            b"." => return Err(NameError::Dots(".")),
            b".." => return Err(NameError::Dots("..")),
            _ if bytes.len() > MAX_NAME => {
                return Err(NameError::Long(printable(&bytes[..32]) + "…", bytes.len()));
            }
            _ if bytes.contains(&b'/') => return Err(NameError::Byte(printable(bytes), "a slash")),
            _ => {}
        }
        match CString::new(bytes) {
            Ok(name) => Ok(Self(name)),
            Err(_) => Err(NameError::Byte(printable(bytes), "a zero byte")),
        }
    }

    /// Bytes of the name, without a trailing NUL.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// This name with some ASCII letters in the other case, at least one: those whose bits are set
    /// in `variant`. `None` if it has no letters.
    pub(super) fn in_other_case(&self, variant: u64) -> Option<Self> {
        let mut bytes = self.as_bytes().to_vec();
        let letters = bytes.iter_mut().filter(|byte| byte.is_ascii_alphabetic());
        for (number, byte) in letters.enumerate() {
            if number == 0 || variant.rotate_right(number as u32) & 1 == 1 {
                // Bit 5 distinguishes the two cases of a letter.
                *byte ^= 0x20;
            }
        }
        (bytes != self.as_bytes()).then(|| Self(CString::new(bytes).expect("letters for letters bring no zero byte")))
    }

    pub(super) fn as_c_str(&self) -> &CStr {
        &self.0
    }
}

impl AsRef<[u8]> for Name {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&printable(self.as_bytes()))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Name({})", printable(self.as_bytes()))
    }
}

/// Kind of a file of an unfinished transfer, which has a name of its own beside the final file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StagingKind {
    /// Data of a file that is not yet published: `.icdc-<id>.part`.
    Part,
    /// Journal of the durable blocks of that file: `.icdc-<id>.blocks`.
    Blocks,
    /// Journal of a whole run: `.icdc-<id>.run`.
    Run,
    /// Directory of a snapshot that is not complete, or that is being removed: `.icdc-<id>.snapshot`.
    Snapshot,
}

/// Name of a file of an unfinished transfer: `.icdc-<16 hexadecimal digits>.<kind>`.
///
/// The identity is the start of a digest of what the file is for, so that a later run finds it
/// again and two runs about different things never share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StagingName {
    /// Kind of the file's contents.
    pub kind: StagingKind,
    /// First 8 bytes of the digest of the file's purpose.
    pub id: [u8; 8],
}

impl StagingName {
    /// The name for `kind` and `id`.
    #[must_use]
    pub fn new(kind: StagingKind, id: [u8; 8]) -> Self {
        Self { kind, id }
    }

    /// The name as a component of a path.
    #[must_use]
    pub fn name(self) -> Name {
        let id = u64::from_be_bytes(self.id);
        let text = format!("{PREFIX}{id:016x}{}", self.kind.suffix());
        Name(CString::new(text).expect("hexadecimal digits and fixed text hold no NUL"))
    }

    /// Parses a staging name; `None` for any other name.
    #[must_use]
    pub fn parse(name: &[u8]) -> Option<Self> {
        let rest = name.strip_prefix(PREFIX.as_bytes())?;
        let (digits, suffix) = rest.split_at_checked(16)?;
        let kind = [StagingKind::Part, StagingKind::Blocks, StagingKind::Run, StagingKind::Snapshot]
            .into_iter()
            .find(|kind| kind.suffix().as_bytes() == suffix)?;
        if !digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        let id = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        Some(Self { kind, id: id.to_be_bytes() })
    }
}

/// Whether `name` is one that icdc uses for unfinished work; such files are never sent, and an
/// item of that name is never accepted. Case is ignored, because some file systems ignore it.
#[must_use]
pub fn is_staging(name: &[u8]) -> bool {
    StagingName::parse(&name.to_ascii_lowercase()).is_some()
}

/// Whether a file system may take `name` for one that icdc uses for unfinished work: in upper
/// case, with characters that some file systems ignore or fold, or followed by dots, blanks or a
/// stream's name. Nothing of such a name is made for the other end.
#[must_use]
pub fn resembles_staging(name: &[u8]) -> bool {
    let mut ascii = Vec::with_capacity(name.len());
    for character in name.utf8_chunks().flat_map(|chunk| chunk.valid().chars()) {
        match character {
            // Their upper-case and lower-case letters are ASCII.
            '\u{17f}' => ascii.push(b's'),
            '\u{212a}' => ascii.push(b'k'),
            _ => ascii.extend(u8::try_from(character).ok().filter(u8::is_ascii).map(|byte| byte.to_ascii_lowercase())),
        }
    }
    let whole = ascii.split(|byte| *byte == b':').next().unwrap_or_default();
    let end = whole.iter().rposition(|byte| !matches!(byte, b'.' | b' ')).map_or(0, |last| last + 1);
    StagingName::parse(&whole[..end]).is_some()
}

/// Converts `bytes` to text for a terminal or a log: what is printable stays; control characters,
/// characters that change the direction of text and bytes that are not UTF-8 are escaped.
#[must_use]
pub fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() || steers_display(character) {
                text.extend(character.escape_default());
            } else {
                text.push(character);
            }
        }
        for byte in chunk.invalid() {
            write!(text, "\\x{byte:02x}").expect("writing to a String cannot fail");
        }
    }
    text
}

/// First characters of all staging names.
const PREFIX: &str = ".icdc-";

impl StagingKind {
    fn suffix(self) -> &'static str {
        match self {
            Self::Part => ".part",
            Self::Blocks => ".blocks",
            Self::Run => ".run",
            Self::Snapshot => ".snapshot",
        }
    }
}

/// Whether the character is an invisible or bidirectional format character, by which a name can
/// pretend to be another.
fn steers_display(character: char) -> bool {
    matches!(
        character,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
    )
}
