//! Attributes of announced entries, as far as this end restores them: what was not asked for, or may
//! not come from another host, is taken out on arrival.

use icdc_protocol::acl;
use icdc_protocol::message::{Entry, EntryKind, Preserve, ReceiveOptions};
use icdc_protocol::mode_change::changed;

use super::owners::Owners;
use crate::special::refusal;

/// Name of the extended attribute that gives a program capabilities; it means nothing without its
/// owner.
const CAPABILITY: &[u8] = b"security.capability";
/// Set-user-id and set-group-id bits of a mode.
const SET_ID: u16 = 0o6000;

/// Takes out of an entry what is not restored, gives it and its access control lists the owners that
/// they have here, and changes its mode as the options say.
pub(super) fn receive(entry: &mut Entry, options: &ReceiveOptions, owners: &Owners) {
    entry.xattrs.retain(|(name, _)| is_restored(name, options.preserve));
    entry.owner = entry.owner.map(|(user, group)| (owners.user(user), owners.group(group)));
    for (_, list) in entry.xattrs.iter_mut().filter(|(name, _)| owners.change_any() && acl::is_acl(name)) {
        *list = acl::mapped(list, |named| owners.named(named));
    }
    if !options.preserve.owner {
        // They give the rights of an owner that is another one here.
        entry.mode &= !SET_ID;
    }
    if options.preserve.mode && !matches!(entry.kind, EntryKind::Symlink { .. }) {
        entry.mode = changed(&options.chmod, entry.mode, matches!(entry.kind, EntryKind::Directory));
    }
}

/// Whether an extended attribute is restored. One of a kind that is never carried is not taken out:
/// it fails its item.
fn is_restored(name: &[u8], preserve: Preserve) -> bool {
    match name {
        CAPABILITY => preserve.capabilities(),
        _ if acl::is_acl(name) => preserve.acl,
        _ if name.starts_with(b"security.") => preserve.labels(),
        _ => preserve.xattr || !name.starts_with(b"user."),
    }
}

/// Reason why an entry is not received: a named pipe, socket or device that was not asked for;
/// `None` if it may be.
pub(super) fn refused_special(entry: &Entry, preserve: Preserve) -> Option<String> {
    let EntryKind::Special(special) = entry.kind else { return None };
    refusal(special, preserve)
}

#[cfg(test)]
mod tests {
    use icdc_protocol::message::{ModeChange, Parent};
    use icdc_protocol::mode_change::{ChangedItems, Execution};

    use super::*;

    fn entry(kind: EntryKind, mode: u16, names: &[&[u8]]) -> Entry {
        let xattrs = names.iter().map(|name| (name.to_vec(), b"value".to_vec())).collect();
        let (parent, name, owner) = (Parent::Directory(0), b"a".to_vec(), None);
        Entry { id: 1, parent, name, kind, mode, mtime_seconds: 0, mtime_nanos: 0, owner, xattrs }
    }

    fn directory(mode: u16) -> Entry {
        entry(EntryKind::Directory, mode, &[])
    }

    fn file(mode: u16, names: &[&[u8]]) -> Entry {
        entry(EntryKind::File { size: 0, version: [0; 16], sparse: false, linked: false }, mode, names)
    }

    fn received(mut entry: Entry, preserve: Preserve, chmod: &[ModeChange]) -> Entry {
        let options = ReceiveOptions { preserve, chmod: chmod.to_vec(), ..ReceiveOptions::default() };
        receive(&mut entry, &options, &Owners::default());
        entry
    }

    #[test]
    fn only_attributes_that_were_asked_for_are_restored() {
        let all: [&[u8]; 5] = [b"user.a", acl::ACCESS, acl::DEFAULT, CAPABILITY, b"security.selinux"];
        let nothing = Preserve::NOTHING;
        for (preserve, expected) in [
            (nothing, &[][..]),
            (Preserve { xattr: true, ..nothing }, &[0][..]),
            (Preserve { acl: true, ..nothing }, &[1, 2]),
            (Preserve { security: true, ..nothing }, &[]),
            (Preserve { owner: true, ..nothing }, &[]),
            (Preserve { owner: true, xattr: true, ..nothing }, &[0, 3]),
            (Preserve { owner: true, security: true, ..nothing }, &[3, 4]),
        ] {
            let left: Vec<_> =
                received(file(0o644, &all), preserve, &[]).xattrs.into_iter().map(|(name, _)| name).collect();
            let expected: Vec<_> = expected.iter().map(|at: &usize| all[*at].to_vec()).collect();
            assert_eq!(left, expected, "{preserve:?}");
        }
        let odd = received(file(0o644, &[b"trusted.overlay"]), nothing, &[]);
        assert_eq!(odd.xattrs.len(), 1, "it fails its item");
    }

    #[test]
    fn set_id_bits_come_from_the_source_with_the_owner_only_and_by_a_change_anyway() {
        let change = ModeChange {
            of: ChangedItems::Directories,
            kept: 0o7777,
            set: 0o2000,
            execution: Execution::Given,
            copied: None,
        };
        let owner = Preserve { owner: true, ..Preserve::default() };
        assert_eq!(received(directory(0o6755), Preserve::default(), &[]).mode, 0o755);
        assert_eq!(received(directory(0o6755), owner, &[]).mode, 0o6755);
        assert_eq!(received(directory(0o4755), Preserve::default(), &[change]).mode, 0o2755);
        assert_eq!(received(file(0o6755, &[]), Preserve::default(), &[change]).mode, 0o755);
        let link = entry(EntryKind::Symlink { target: b"t".to_vec() }, 0o777, &[]);
        let all = ModeChange { of: ChangedItems::All, kept: 0, ..change };
        assert_eq!(received(link, Preserve::default(), &[all]).mode, 0o777);
        assert_eq!(received(directory(0o755), Preserve { mode: false, ..owner }, &[all]).mode, 0o755);
    }
}
