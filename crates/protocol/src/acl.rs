//! POSIX access control lists, as Linux keeps them in extended attributes.
//!
//! ```text
//! version 2 (32 bits), then entries of 8 bytes, all little-endian:
//!   tag (16 bits), permissions rwx (16 bits), id (32 bits; 2³² − 1 where the tag has none)
//! order: owner, users, group, groups, mask, others; users and groups need a mask
//! ```
//!
//! The kernel checks the same when a list is set; a directory may also have an empty default list,
//! which it takes for none. Numbers of users and groups mean others on another host, hence
//! [`Acl::map`].

/// Name of the extended attribute with the list of a file or directory.
pub const ACCESS: &[u8] = b"system.posix_acl_access";
/// Name of the extended attribute with the list that a directory passes on to new items in it.
pub const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: [u8; 4] = 2_u32.to_le_bytes();
const ENTRY: usize = 8;
const NO_ID: u32 = u32::MAX;

const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const OWNING_GROUP: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;

/// An access control list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    tag: u16,
    id: u32,
    permissions: u16,
}

/// A user or group that an access control list names by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// The user of this number.
    User(u32),
    /// The group of this number.
    Group(u32),
}

/// Whether an extended attribute is an access control list.
#[must_use]
pub fn is_acl(attribute: &[u8]) -> bool {
    attribute == ACCESS || attribute == DEFAULT
}

impl Acl {
    /// Reads the value of the attribute; `None` if it is no list that the kernel would take.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let entries = value.strip_prefix(&VERSION)?;
        if entries.len() % ENTRY != 0 {
            return None;
        }
        let acl = Self { entries: entries.chunks_exact(ENTRY).map(Entry::parse).collect::<Option<_>>()? };
        acl.is_complete().then_some(acl)
    }

    /// Value of the attribute.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let entries = self.entries.iter().flat_map(|entry| entry.to_bytes());
        VERSION.into_iter().chain(entries).collect()
    }

    /// The users and groups that are named by number.
    pub fn named(&self) -> impl Iterator<Item = Named> + '_ {
        self.entries.iter().filter_map(|entry| entry.named())
    }

    /// The list with other numbers of users and groups. One that `number` maps to 2³² − 1 keeps its
    /// own.
    #[must_use]
    pub fn map(mut self, number: impl Fn(Named) -> u32) -> Self {
        for entry in &mut self.entries {
            if let Some(mapped) = entry.named().map(&number).filter(|mapped| *mapped != NO_ID) {
                entry.id = mapped;
            }
        }
        // Tags are numbered in the order that they have.
        self.entries.sort();
        self
    }

    /// Whether the entries are there that a list needs, each once, and in order.
    fn is_complete(&self) -> bool {
        let tags = || self.entries.iter().map(|entry| entry.tag);
        let count = |tag| tags().filter(|other| *other == tag).count();
        let has_named = count(USER) + count(GROUP) > 0;
        let once = [OWNER, OWNING_GROUP, OTHERS].into_iter().all(|tag| count(tag) == 1);
        self.entries.is_empty() || once && tags().is_sorted() && count(MASK) <= 1 && (count(MASK) == 1 || !has_named)
    }
}

impl Entry {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (tag, rest) = bytes.split_first_chunk()?;
        let (permissions, id) = rest.split_first_chunk()?;
        let entry = Self {
            tag: u16::from_le_bytes(*tag),
            permissions: u16::from_le_bytes(*permissions),
            id: u32::from_le_bytes(id.try_into().ok()?),
        };
        let has_id = matches!(entry.tag, USER | GROUP);
        let is_known = has_id || matches!(entry.tag, OWNER | OWNING_GROUP | MASK | OTHERS);
        // What the kernel ignores is written as the kernel writes it.
        let id = if has_id { entry.id } else { NO_ID };
        (is_known && entry.permissions <= 7 && (!has_id || id != NO_ID)).then_some(Self { id, ..entry })
    }

    fn to_bytes(self) -> [u8; ENTRY] {
        let mut bytes = [0; ENTRY];
        bytes[..2].copy_from_slice(&self.tag.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.permissions.to_le_bytes());
        bytes[4..].copy_from_slice(&self.id.to_le_bytes());
        bytes
    }

    fn named(self) -> Option<Named> {
        match self.tag {
            USER => Some(Named::User(self.id)),
            GROUP => Some(Named::Group(self.id)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails says where")]

    use super::*;

    fn bytes(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let entry = |&(tag, permissions, id): &(u16, u16, u32)| Entry { tag, permissions, id }.to_bytes();
        VERSION.into_iter().chain(entries.iter().flat_map(entry)).collect()
    }

    const LEAST: [(u16, u16, u32); 3] = [(OWNER, 7, NO_ID), (OWNING_GROUP, 5, NO_ID), (OTHERS, 0, NO_ID)];

    fn named() -> Vec<u8> {
        let [owner, group, others] = LEAST;
        bytes(&[owner, (USER, 6, 7), (USER, 4, 9), group, (GROUP, 4, 7), (MASK, 7, NO_ID), others])
    }

    #[test]
    fn lists_are_read_and_written_as_they_are() {
        for value in [bytes(&[]), bytes(&LEAST), named()] {
            assert_eq!(Acl::parse(&value).unwrap().to_bytes(), value);
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let [owner, group, others] = LEAST;
        let without_mask = bytes(&[owner, (USER, 6, 7), group, others]);
        let wrong = [
            Vec::new(),
            vec![2, 0, 0],
            vec![1, 0, 0, 0],
            bytes(&LEAST)[..11].to_vec(),
            bytes(&[owner, group]),
            bytes(&[owner, others, group]),
            bytes(&[owner, owner, group, others]),
            bytes(&[(OWNER, 8, NO_ID), group, others]),
            bytes(&[owner, (USER, 6, NO_ID), group, (MASK, 7, NO_ID), others]),
            bytes(&[owner, group, (MASK, 7, NO_ID), (MASK, 7, NO_ID), others]),
            bytes(&[owner, group, others, (0x40, 7, NO_ID)]),
            without_mask,
        ];
        for value in wrong {
            assert_eq!(Acl::parse(&value), None, "{value:?}");
        }
    }

    #[test]
    fn numbers_are_mapped_by_kind_and_keep_their_order() {
        let acl = Acl::parse(&named()).unwrap();
        assert_eq!(acl.named().collect::<Vec<_>>(), [Named::User(7), Named::User(9), Named::Group(7)]);
        let mapped = acl.map(|named| match named {
            Named::User(7) => 90,
            Named::User(number) => number,
            Named::Group(_) => NO_ID,
        });
        assert_eq!(mapped.named().collect::<Vec<_>>(), [Named::User(9), Named::User(90), Named::Group(7)]);
        assert_eq!(Acl::parse(&mapped.to_bytes()), Some(mapped));
    }
}
