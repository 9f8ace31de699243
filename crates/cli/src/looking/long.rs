//! A listed item in a line, and as a JSON object.

use icdc_protocol::message::{ListedKind, ListedMetadata};
use icdc_session::listing::checker::Found;
use serde_json::{Value, json};

use super::places::{put_path, shown};
use crate::clock::utc_seconds;
use icdc_disk::tree::printable;

/// Line of `ls -l` about an item that is called `name`.
pub(super) fn line(found: &Found, name: &[u8]) -> String {
    let Some(metadata) = &found.metadata else { return shown(name) };
    let ListedMetadata { size, links, user, group, modified, .. } = *metadata;
    let mode = permissions(letter(&found.kind), metadata.mode);
    let time = utc_seconds(modified.seconds);
    let target = match &found.kind {
        ListedKind::Symlink { target } => format!(" -> {}", printable(target)),
        _ => String::new(),
    };
    format!("{mode} {links:>3} {user:>7} {group:>7} {size:>14} {time} {}{target}", shown(name))
}

/// JSON object about an item at this path.
pub(super) fn object(found: &Found, path: &[u8]) -> Value {
    let mut object = json!({ "type": "item", "kind": kind(&found.kind) });
    put_path(&mut object, path);
    if let Some(metadata) = &found.metadata {
        let ListedMetadata { size, allocated, mode, links, user, group, modified, .. } = *metadata;
        object["bytes"] = json!(size);
        object["allocated"] = json!(allocated);
        object["mode"] = json!(format!("{mode:04o}"));
        object["links"] = json!(links);
        object["user"] = json!(user);
        object["group"] = json!(group);
        object["mtime"] = json!(utc_seconds(modified.seconds));
        object["mtime_ns"] = json!(modified.nanos);
    }
    match &found.kind {
        ListedKind::Symlink { target } => object["target"] = json!(printable(target)),
        ListedKind::Unexamined(reason) => object["reason"] = json!(reason),
        _ => {}
    }
    object
}

/// Letter of an item's type, as `ls -l` has it.
fn letter(kind: &ListedKind) -> char {
    match kind {
        ListedKind::File { .. } => '-',
        ListedKind::Open | ListedKind::Directory => 'd',
        ListedKind::Symlink { .. } => 'l',
        ListedKind::Pipe => 'p',
        ListedKind::Socket => 's',
        ListedKind::BlockDevice => 'b',
        ListedKind::CharacterDevice => 'c',
        ListedKind::Unknown | ListedKind::Unexamined(_) => '?',
    }
}

/// Word for a kind of item, in JSON.
pub(super) fn kind(kind: &ListedKind) -> &'static str {
    match kind {
        ListedKind::File { .. } => "file",
        ListedKind::Open | ListedKind::Directory => "directory",
        ListedKind::Symlink { .. } => "symlink",
        ListedKind::Pipe => "pipe",
        ListedKind::Socket => "socket",
        ListedKind::BlockDevice => "block device",
        ListedKind::CharacterDevice => "character device",
        ListedKind::Unknown => "unknown",
        ListedKind::Unexamined(_) => "unexamined",
    }
}

/// Type and permissions as `ls -l` has them.
fn permissions(letter: char, mode: u16) -> String {
    let mut text = String::from(letter);
    for (shift, special, word) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & 1 != 0, mode & special != 0) {
            (false, false) => '-',
            (true, false) => 'x',
            (true, true) => word,
            (false, true) => word.to_ascii_uppercase(),
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_those_of_ls() {
        assert_eq!(permissions('-', 0o644), "-rw-r--r--");
        assert_eq!(permissions('d', 0o1777), "drwxrwxrwt");
        assert_eq!(permissions('-', 0o6751), "-rwsr-s--x");
        assert_eq!(permissions('-', 0o7000), "---S--S--T");
    }
}
