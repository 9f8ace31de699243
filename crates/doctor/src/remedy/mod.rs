//! Changes of settings, now and for every start of the system, and the way back.
//!
//! | file | what |
//! |---|---|
//! | `/etc/sysctl.d/90-icdc.conf` | sets them at every start |
//! | `/var/lib/icdc/doctor-undo.json` | what was before, and what was set |
//!
//! The record of what was before is written first and removed last, so whatever ends this program,
//! [`undo`] finds what there is to take back. The value before the first change stays in the
//! record, however often changes are applied. Settings that others have changed since are left as
//! they are.

mod change;
mod error;
mod note;
mod outcome;
mod write;

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{Access, access};

pub use change::{Change, Setting};
pub use error::RemedyError;
pub use outcome::{Applied, Set, Undone};

use crate::sysctl::{self, numbers};
use crate::{Reading, System};
use note::Note;

/// File that sets the changed settings at every start of the system.
const DROP_IN: &str = "/etc/sysctl.d/90-icdc.conf";
/// File with the values of the changed settings before the changes, and those set.
const NOTE: &str = "/var/lib/icdc/doctor-undo.json";
/// First line of the drop-in: distinguishes it from a file that icdc did not write.
const SIGNATURE: &str =
    "# Written by `icdc doctor --apply`; `icdc doctor --undo` removes it and restores what was before.";

/// Checks that this process may change settings at all.
///
/// # Errors
/// [`RemedyError::Denied`] if not.
pub fn permitted(system: &System) -> Result<(), RemedyError> {
    for place in [DROP_IN, NOTE] {
        let path = system.path(place);
        let standing = path.ancestors().skip(1).find(|directory| directory.exists()).unwrap_or(Path::new("/"));
        access(standing, Access::WRITE_OK).map_err(|errno| RemedyError::io("write to", standing, errno.into()))?;
    }
    Ok(())
}

/// Makes changes that are not made yet. Those that the kernel refuses are reported, and are not in
/// the record.
///
/// # Errors
/// Nothing could be written, or a file that icdc did not write is in the way. Settings are then as
/// before.
pub fn apply(system: &System, changes: &[Change]) -> Result<Applied, RemedyError> {
    let mut note = Note::load(&system.path(NOTE))?;
    check_drop_in(system)?;
    let mut applied = Applied::default();
    let mut earlier = Vec::new();
    for change in changes {
        let Some((before, now)) = wanted(system, change) else { continue };
        let set = Set { name: change.name, before, now };
        earlier.push(note.record(&set));
        applied.set.push(set);
    }
    if applied.set.is_empty() {
        return Ok(applied);
    }
    save(system, &note)?;
    let mut refused = Vec::new();
    let mut earlier = earlier.into_iter();
    applied.set.retain(|set| {
        let earlier = earlier.next().flatten();
        let written = write(system, set.name, &set.now);
        let Err(error) = written else { return true };
        note.withdraw(set.name, earlier);
        refused.push(error);
        false
    });
    applied.refused = refused;
    if !applied.refused.is_empty() {
        save(system, &note)?;
    }
    Ok(applied)
}

/// Restores what was before the first change, and removes the drop-in and the note. Nothing to undo
/// is no error.
///
/// # Errors
/// A setting or file could not be written; then the note stays, and it can be tried again.
pub fn undo(system: &System) -> Result<Undone, RemedyError> {
    let note = Note::load(&system.path(NOTE))?;
    check_drop_in(system)?;
    let mut undone = Undone::default();
    for (&name, entry) in &note.entries {
        let Reading::Value(text) = system.read(&sysctl::path(name)) else { continue };
        let now = normal(&text);
        if now == entry.set && now != entry.before {
            write(system, name, &entry.before)?;
            undone.restored.push(Set { name, before: now, now: entry.before.clone() });
        } else if now != entry.before {
            undone.left.push(Set { name, before: entry.set.clone(), now });
        }
    }
    remove(&system.path(DROP_IN))?;
    remove(&system.path(NOTE))?;
    Ok(undone)
}

/// The setting's present value and the one that a change wants; `None` if they are equal, or if
/// there is no such setting, it cannot be read, or it is not made of numbers.
fn wanted(system: &System, change: &Change) -> Option<(String, String)> {
    let Reading::Value(text) = system.read(&sysctl::path(change.name)) else { return None };
    let current = numbers(&text)?;
    Some((normal(&text), sysctl::text(&change.wanted(&current)?)))
}

/// Text of a setting with single spaces between its numbers: the kernel writes tabs, people write
/// spaces.
fn normal(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Writes a setting and checks that the kernel took it, if it can be read back.
fn write(system: &System, name: &'static str, value: &str) -> Result<(), RemedyError> {
    let place = sysctl::path(name);
    let path = system.path(&place);
    write::in_place(&path, value).map_err(|error| RemedyError::io("write to", &path, error))?;
    match system.read(&place) {
        Reading::Value(text) if normal(&text) != value => {
            Err(RemedyError::Kept { name, wanted: value.to_owned(), kept: normal(&text) })
        }
        // What cannot be read back is believed to be written.
        _ => Ok(()),
    }
}

/// Writes the record of what was before and the drop-in, or removes both if there is nothing in
/// them.
fn save(system: &System, note: &Note) -> Result<(), RemedyError> {
    let (noted, drop_in) = (system.path(NOTE), system.path(DROP_IN));
    if note.entries.is_empty() {
        remove(&drop_in)?;
        return remove(&noted);
    }
    write::atomically(&noted, &note.text(), 0o600).map_err(|error| RemedyError::io("write", &noted, error))?;
    let mut text = format!("{SIGNATURE}\n# What was before is noted in {NOTE}.\n");
    for (name, entry) in &note.entries {
        text += &format!("{name} = {}\n", entry.set);
    }
    write::atomically(&drop_in, &text, 0o644).map_err(|error| RemedyError::io("write", &drop_in, error))
}

/// Checks that the drop-in is icdc's or missing: an error for another file of that name, which must
/// not be overwritten.
fn check_drop_in(system: &System) -> Result<(), RemedyError> {
    let path = system.path(DROP_IN);
    match fs::read(&path) {
        Ok(bytes) if bytes.starts_with(SIGNATURE.as_bytes()) => Ok(()),
        Ok(_) => Err(RemedyError::Foreign { path }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(RemedyError::io("read", &path, error)),
    }
}

/// Removes a file, durably; a missing one is no error.
fn remove(path: &Path) -> Result<(), RemedyError> {
    match write::remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(RemedyError::io("remove", path, error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use tempfile::TempDir;

    use super::*;

    struct Tree {
        system: System,
        _directory: TempDir,
    }

    const RECEIVE: &str = "/proc/sys/net/core/rmem_max";
    const TCP_RECEIVE: &str = "/proc/sys/net/ipv4/tcp_rmem";
    const IDLE: &str = "/proc/sys/net/ipv4/tcp_slow_start_after_idle";

    impl Tree {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let tree = Self { system: System::at(directory.path().to_owned()), _directory: directory };
            for (path, text) in [(RECEIVE, "212992\n"), (TCP_RECEIVE, "4096\t131072\t6291456\n"), (IDLE, "1\n")] {
                tree.write(path, text);
            }
            tree
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.system.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn text(&self, path: &str) -> String {
            normal(&fs::read_to_string(self.system.path(path)).unwrap())
        }

        fn has(&self, path: &str) -> bool {
            self.system.path(path).exists()
        }
    }

    fn changes(size: u64) -> Vec<Change> {
        vec![
            Change { name: "net.core.rmem_max", to: Setting::AtLeast(vec![size]) },
            Change { name: "net.ipv4.tcp_rmem", to: Setting::AtLeast(vec![0, 0, size]) },
            Change { name: "net.ipv4.tcp_slow_start_after_idle", to: Setting::Exactly(0) },
            Change { name: "net.core.wmem_max", to: Setting::AtLeast(vec![size]) },
        ]
    }

    #[test]
    fn what_is_applied_is_taken_back_however_often_it_was() {
        let tree = Tree::new();
        let applied = apply(&tree.system, &changes(7_000_000)).unwrap();
        // One setting does not exist, and is not made.
        assert_eq!((applied.set.len(), applied.refused.len()), (3, 0));
        assert_eq!(tree.text(TCP_RECEIVE), "4096 131072 7000000");
        assert_eq!((tree.text(RECEIVE), tree.text(IDLE)), ("7000000".into(), "0".into()));
        let drop_in = fs::read_to_string(tree.system.path(DROP_IN)).unwrap();
        assert!(drop_in.starts_with(SIGNATURE), "{drop_in}");
        assert!(drop_in.contains("\nnet.ipv4.tcp_rmem = 4096 131072 7000000\n"), "{drop_in}");
        let mode = |path| fs::metadata(tree.system.path(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(NOTE), mode(DROP_IN)), (0o600, 0o644));

        assert_eq!(apply(&tree.system, &changes(7_000_000)).unwrap().set, []);
        // A smaller aim lowers nothing and forgets nothing.
        assert_eq!(apply(&tree.system, &changes(1_000_000)).unwrap().set, []);
        let more = [Change { name: "net.core.rmem_max", to: Setting::AtLeast(vec![9_000_000]) }];
        assert_eq!(apply(&tree.system, &more).unwrap().set.len(), 1);
        let drop_in = fs::read_to_string(tree.system.path(DROP_IN)).unwrap();
        assert!(drop_in.contains("rmem_max = 9000000\n") && drop_in.contains("tcp_rmem = 4096 131072 7000000\n"));

        let undone = undo(&tree.system).unwrap();
        assert_eq!((undone.restored.len(), undone.left.len()), (3, 0));
        assert_eq!((tree.text(RECEIVE), tree.text(IDLE)), ("212992".into(), "1".into()));
        assert_eq!(tree.text(TCP_RECEIVE), "4096 131072 6291456");
        assert!(!tree.has(DROP_IN) && !tree.has(NOTE));
        assert_eq!(undo(&tree.system).unwrap().restored, []);
    }

    #[test]
    fn what_somebody_else_has_changed_since_stays() {
        let tree = Tree::new();
        apply(&tree.system, &changes(7_000_000)).unwrap();
        tree.write(RECEIVE, "8000000\n");
        let undone = undo(&tree.system).unwrap();
        assert_eq!(undone.left[0].name, "net.core.rmem_max");
        assert_eq!((tree.text(RECEIVE), tree.text(TCP_RECEIVE)), ("8000000".into(), "4096 131072 6291456".into()));
        assert!(!tree.has(DROP_IN) && !tree.has(NOTE));
    }

    #[test]
    fn files_of_others_are_not_touched() {
        let tree = Tree::new();
        tree.write(DROP_IN, "net.core.rmem_max = 1\n");
        for result in [apply(&tree.system, &changes(7_000_000)).err(), undo(&tree.system).err()] {
            assert!(matches!(result, Some(RemedyError::Foreign { .. })), "{result:?}");
        }
        assert_eq!((tree.text(RECEIVE), tree.text(DROP_IN)), ("212992".into(), "net.core.rmem_max = 1".into()));
    }

    #[test]
    fn a_note_that_is_none_of_ours_is_not_followed() {
        let entry = |name: &str, before: &str| {
            format!(r#"{{"version":1,"settings":{{"{name}":{{"before":"{before}","set":"212992"}}}}}}"#)
        };
        for text in [
            "".to_owned(),
            "{}".to_owned(),
            "[1, 2".to_owned(),
            entry("kernel.core_pattern", "1"),
            entry("net.core.rmem_max", "1\nkernel.core_pattern = x"),
            entry("net.core.rmem_max", ""),
            entry("net.core.rmem_max", "1").replace("\"version\":1", "\"version\":2"),
        ] {
            let tree = Tree::new();
            tree.write(NOTE, &text);
            for result in [apply(&tree.system, &changes(7_000_000)).err(), undo(&tree.system).err()] {
                assert!(matches!(result, Some(RemedyError::Note { .. })), "{text}: {result:?}");
            }
            assert_eq!(tree.text(RECEIVE), "212992");
        }
    }

    #[test]
    fn what_the_kernel_refuses_is_told_and_not_noted() {
        let tree = Tree::new();
        // A number that no user may write, root included.
        fs::remove_file(tree.system.path(IDLE)).unwrap();
        std::os::unix::fs::symlink("/proc/sys/kernel/random/entropy_avail", tree.system.path(IDLE)).unwrap();
        let applied = apply(&tree.system, &changes(7_000_000)).unwrap();
        assert_eq!((applied.set.len(), applied.refused.len()), (2, 1), "{applied:?}");
        assert!(!fs::read_to_string(tree.system.path(DROP_IN)).unwrap().contains("slow_start"));
        assert_eq!(undo(&tree.system).unwrap().restored.len(), 2);
    }

    #[test]
    fn a_refused_change_leaves_the_record_of_the_one_before() {
        let tree = Tree::new();
        apply(&tree.system, &changes(7_000_000)).unwrap();
        // Somebody changes the setting, to a number that no user may write.
        fs::remove_file(tree.system.path(RECEIVE)).unwrap();
        std::os::unix::fs::symlink("/proc/sys/kernel/random/entropy_avail", tree.system.path(RECEIVE)).unwrap();
        let theirs = tree.text(RECEIVE);
        let more = [Change { name: "net.core.rmem_max", to: Setting::AtLeast(vec![9_000_000]) }];
        assert_eq!(apply(&tree.system, &more).unwrap().refused.len(), 1);
        let undone = undo(&tree.system).unwrap();
        let left = Set { name: "net.core.rmem_max", before: "7000000".into(), now: theirs };
        assert_eq!((undone.left, undone.restored.len()), (vec![left], 2));
    }

    #[test]
    fn where_everything_is_refused_nothing_is_left() {
        let tree = Tree::new();
        fs::remove_file(tree.system.path(IDLE)).unwrap();
        std::os::unix::fs::symlink("/proc/sys/kernel/random/entropy_avail", tree.system.path(IDLE)).unwrap();
        let idle = [Change { name: "net.ipv4.tcp_slow_start_after_idle", to: Setting::Exactly(0) }];
        assert_eq!(apply(&tree.system, &idle).unwrap().refused.len(), 1);
        assert!(!tree.has(DROP_IN) && !tree.has(NOTE));
    }

    #[test]
    fn places_are_looked_at_and_not_made() {
        let tree = Tree::new();
        permitted(&tree.system).unwrap();
        assert!(!tree.has("/etc") && !tree.has("/var"));
    }
}
