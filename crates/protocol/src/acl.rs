//! POSIX access control lists, as Linux keeps them in extended attributes.
//!
//! ```text
//! version 2 (32 bits), then entries of 8 bytes, all little-endian:
//!   tag (16 bits), permissions rwx (16 bits), id (32 bits; 2³² − 1 where the tag has none)
//! order: owner, users, group, groups, mask, others; users and groups need a mask
//! ```
//!
//! The kernel checks the same when a list is set; a directory may also have an empty default list,
//! which it takes for none. Numbers of users and groups mean others on another host, hence [`mapped`].

/// Name of the extended attribute with the list of a file or directory.
pub const ACCESS: &[u8] = b"system.posix_acl_access";
/// Name of the extended attribute with the list that a directory passes on to new items in it.
pub const DEFAULT: &[u8] = b"system.posix_acl_default";

/// First bytes of a list: the version of its encoding, 2.
const VERSION: [u8; 4] = 2_u32.to_le_bytes();
/// Length of an entry in bytes.
const ENTRY: usize = 8;
/// Number in an entry whose tag names no user or group.
const NO_ID: u32 = u32::MAX;

/// Tag of the entry for the file's owner.
const OWNER: u16 = 0x01;
/// Tag of an entry for a user that it names by number.
const USER: u16 = 0x02;
/// Tag of the entry for the file's group.
const OWNING_GROUP: u16 = 0x04;
/// Tag of an entry for a group that it names by number.
const GROUP: u16 = 0x08;
/// Tag of the entry with the most that named users and all groups may do.
const MASK: u16 = 0x10;
/// Tag of the entry for all other users.
const OTHERS: u16 = 0x20;

/// Whether an extended attribute is an access control list.
#[must_use]
pub fn is_acl(attribute: &[u8]) -> bool {
    attribute == ACCESS || attribute == DEFAULT
}

/// Whether the value of the attribute is a list that the kernel would take.
#[must_use]
pub fn is_list(value: &[u8]) -> bool {
    let Some((entries, [])) = value.strip_prefix(&VERSION).map(<[u8]>::as_chunks::<ENTRY>) else { return false };
    let tags = || entries.iter().map(tag);
    let count = |tag| tags().filter(|other| *other == tag).count();
    let has_named = count(USER) + count(GROUP) > 0;
    let once = [OWNER, OWNING_GROUP, OTHERS].into_iter().all(|tag| count(tag) == 1);
    let is_complete = once && tags().is_sorted() && count(MASK) <= 1 && (count(MASK) == 1 || !has_named);
    entries.iter().all(is_entry) && (entries.is_empty() || is_complete)
}

/// A user or group that an access control list names by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Named {
    /// The user of this number.
    User(u32),
    /// The group of this number.
    Group(u32),
}

/// The users and groups that a list names.
pub fn named(list: &[u8]) -> impl Iterator<Item = Named> + '_ {
    entries_of(list).iter().filter_map(named_by)
}

/// A list with other numbers of users and groups. Of entries that come to name the same one, a single
/// entry is left, with the permissions that all of them gave.
#[must_use]
pub fn mapped(list: &[u8], number: impl Fn(Named) -> u32) -> Vec<u8> {
    let mut entries: Vec<(u16, u32, u16)> = Vec::new();
    for entry in entries_of(list) {
        entries.push((tag(entry), named_by(entry).map_or_else(|| id(entry), &number), permissions(entry)));
    }
    // Tags are numbered in the order that they have.
    entries.sort_unstable();
    entries.dedup_by(|later, earlier| {
        let is_same = (later.0, later.1) == (earlier.0, earlier.1);
        if is_same {
            earlier.2 &= later.2;
        }
        is_same
    });
    let bytes = entries.iter().flat_map(|(tag, id, permissions)| {
        tag.to_le_bytes().into_iter().chain(permissions.to_le_bytes()).chain(id.to_le_bytes())
    });
    VERSION.into_iter().chain(bytes).collect()
}

/// The entries of a list; none of anything else.
fn entries_of(list: &[u8]) -> &[[u8; ENTRY]] {
    list.strip_prefix(&VERSION).map_or(&[], |entries| entries.as_chunks().0)
}

/// The user or group that an entry names by number; `None` for an entry of another tag.
fn named_by(entry: &[u8; ENTRY]) -> Option<Named> {
    match tag(entry) {
        USER => Some(Named::User(id(entry))),
        GROUP => Some(Named::Group(id(entry))),
        _ => None,
    }
}

/// Number of the user or group in an entry; [`NO_ID`] where its tag has none.
fn id(entry: &[u8; ENTRY]) -> u32 {
    u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]])
}

/// Permissions of an entry: read 4, write 2, execute 1.
fn permissions(entry: &[u8; ENTRY]) -> u16 {
    u16::from_le_bytes([entry[2], entry[3]])
}

/// Tag of an entry, which says whom it is about.
fn tag(entry: &[u8; ENTRY]) -> u16 {
    u16::from_le_bytes([entry[0], entry[1]])
}

/// Whether the kernel would take an entry by itself: its tag is known, its number is there where
/// the tag needs one, and its permissions are read, write and execute.
fn is_entry(entry: &[u8; ENTRY]) -> bool {
    // The kernel ignores the number of the others.
    let is_known = match tag(entry) {
        USER | GROUP => id(entry) != NO_ID,
        OWNER | OWNING_GROUP | MASK | OTHERS => true,
        _ => false,
    };
    is_known && permissions(entry) <= 7
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let entry = |&(tag, permissions, id): &(u16, u16, u32)| {
            [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        VERSION.into_iter().chain(entries.iter().flat_map(entry)).collect()
    }

    const LEAST: [(u16, u16, u32); 3] = [(OWNER, 7, NO_ID), (OWNING_GROUP, 5, NO_ID), (OTHERS, 0, NO_ID)];

    fn named() -> Vec<u8> {
        let [owner, group, others] = LEAST;
        bytes(&[owner, (USER, 6, 7), (USER, 4, 9), group, (GROUP, 4, 7), (MASK, 7, NO_ID), others])
    }

    #[test]
    fn lists_are_taken() {
        for value in [bytes(&[]), bytes(&LEAST), named()] {
            assert!(is_list(&value), "{value:?}");
        }
    }

    #[test]
    fn numbers_are_mapped_by_kind_and_stay_in_order() {
        let list = named();
        assert_eq!(super::named(&list).collect::<Vec<_>>(), [Named::User(7), Named::User(9), Named::Group(7)]);
        let mapped = |number: fn(Named) -> u32| mapped(&list, number);
        let [owner, group, others] = LEAST;
        let mask = (MASK, 7, NO_ID);
        let swapped = mapped(|named| if named == Named::User(7) { 90 } else { 9 });
        assert_eq!(swapped, bytes(&[owner, (USER, 4, 9), (USER, 6, 90), group, (GROUP, 4, 9), mask, others]));
        let merged = mapped(|_| 1);
        assert_eq!(
            merged,
            bytes(&[owner, (USER, 4, 1), group, (GROUP, 4, 1), mask, others]),
            "6 and 4 have 4 in common"
        );
        assert!(is_list(&swapped) && is_list(&merged));
        assert_eq!(super::mapped(&bytes(&[]), |_| 1), bytes(&[]));
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
            assert!(!is_list(&value), "{value:?}");
        }
    }
}
