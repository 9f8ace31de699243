//! Entries as they come from the wire: what is believed can be placed below a directory.

#![no_main]

use std::hint::black_box;

use icdc_protocol::digest::item;
use icdc_protocol::frame::{PREFIX_LENGTH, decode_head, encode};
use icdc_protocol::limits::{MAX_ENTRIES, MAX_FILE_SIZE, MAX_NAME, MAX_PATH};
use icdc_protocol::message::{DeviceNumber, Entry, EntryKind, Message, Parent};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut frame = Vec::new();
    encode(&Message::Entries(Vec::new()), 0, &mut frame).expect("no entries fit in a frame");
    let tag = &frame[PREFIX_LENGTH..frame.len() - 1];
    let head = [tag, bytes].concat();
    let Ok(Message::Entries(entries)) = decode_head(&head, 0) else {
        return;
    };
    assert!(entries.len() <= MAX_ENTRIES);
    for (entry, next) in entries.iter().zip(entries.iter().skip(1)) {
        assert_eq!(entry.id + 1, next.id);
    }
    for entry in &entries {
        check(entry);
        black_box(item(&entry.name, entry, None, None));
    }
});

fn check(entry: &Entry) {
    let name = &entry.name[..];
    match entry.parent {
        Parent::Source(_) => assert_eq!(name, b""),
        Parent::Directory(parent) => {
            assert!(parent < entry.id);
            assert!(!matches!(name, b"" | b"." | b"..") && name.len() <= MAX_NAME);
            assert!(!name.contains(&b'/') && !name.contains(&0));
        }
    }
    match &entry.kind {
        EntryKind::File { size, .. } => assert!(*size <= MAX_FILE_SIZE),
        EntryKind::Directory | EntryKind::Stream => {}
        EntryKind::Symlink { target } => {
            assert!((1..=MAX_PATH).contains(&target.len()) && !target.contains(&0));
        }
        EntryKind::HardLink { to, .. } => assert!(*to < entry.id),
        EntryKind::Special(special) => assert!(special.device().is_none_or(DeviceNumber::is_valid)),
    }
    assert!(entry.mode <= 0o7777 && entry.mtime_nanos < 1_000_000_000);
}
