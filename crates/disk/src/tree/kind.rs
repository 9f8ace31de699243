//! Kinds of items.

use rustix::fs::FileType;

/// Kind of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// Another item, which cannot be copied; the text names it ("a named pipe").
    Other(&'static str),
}

const PIPE: &str = "a named pipe";
const SOCKET: &str = "a socket";
const BLOCK_DEVICE: &str = "a block device";
const CHARACTER_DEVICE: &str = "a character device";

impl Kind {
    /// Name of the kind with its article, for messages: "a directory".
    #[must_use]
    pub fn described(self) -> &'static str {
        match self {
            Self::File => "a regular file",
            Self::Directory => "a directory",
            Self::Symlink => "a symbolic link",
            Self::Other(what) => what,
        }
    }

    /// Letter of the kind, as `ls -l` has it: `-`, `d`, `l`, `p`, `s`, `b`, `c`; `?` for an unknown
    /// one.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::File => '-',
            Self::Directory => 'd',
            Self::Symlink => 'l',
            Self::Other(PIPE) => 'p',
            Self::Other(SOCKET) => 's',
            Self::Other(BLOCK_DEVICE) => 'b',
            Self::Other(CHARACTER_DEVICE) => 'c',
            Self::Other(_) => '?',
        }
    }

    /// Kind by the type in a mode or a directory entry; `None` for an unknown type.
    pub(super) fn from_file_type(kind: FileType) -> Option<Self> {
        Some(match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Symlink,
            FileType::Fifo => Self::Other(PIPE),
            FileType::Socket => Self::Other(SOCKET),
            FileType::BlockDevice => Self::Other(BLOCK_DEVICE),
            FileType::CharacterDevice => Self::Other(CHARACTER_DEVICE),
            FileType::Unknown => return None,
        })
    }
}
