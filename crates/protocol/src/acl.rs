//! POSIX access control lists, as Linux keeps them in extended attributes.
//!
//! ```text
//! version 2 (32 bits), then entries of 8 bytes, all little-endian:
//!   tag (16 bits), permissions rwx (16 bits), id (32 bits; 2³² − 1 where the tag has none)
//! order: owner, users, group, groups, mask, others; users and groups need a mask
//! ```
//!
//! The kernel checks the same when a list is set; a directory may also have an empty default list,
//! which it takes for none. Users and groups stay the numbers that they are at the source.

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

fn tag(entry: &[u8; ENTRY]) -> u16 {
    u16::from_le_bytes([entry[0], entry[1]])
}

fn is_entry(entry: &[u8; ENTRY]) -> bool {
    let permissions = u16::from_le_bytes([entry[2], entry[3]]);
    let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
    // The kernel ignores the number of the others.
    let is_known = match tag(entry) {
        USER | GROUP => id != NO_ID,
        OWNER | OWNING_GROUP | MASK | OTHERS => true,
        _ => false,
    };
    is_known && permissions <= 7
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
