//! Compares the files of a tree with a list of digests.

use icdc_client::{Location, LookError, Looking};
use icdc_protocol::message::ListedKind;
use icdc_session::listing::checker::Record;
use icdc_session::listing::compare::{Difference, Side};
use serde_json::json;

use super::checksums::Checksums;
use super::differences::Shown;
use super::places::{put_path, shown as shown_path};
use crate::copy::summary::{counted, size};

/// Counts of the files that were compared with a list of digests.
#[derive(Default)]
struct Counts {
    equal: u64,
    /// Number of symbolic links that are as in the list.
    links: u64,
    bytes: u64,
    different: u64,
    missing: u64,
    unreadable: u64,
    /// Number of files that are not in the list.
    unlisted: u64,
}

/// Compares the files of a listed tree with a list of digests, and shows what differs; returns
/// whether every file of the list is there and equal.
pub(super) fn compare(
    looking: &mut Looking,
    place: &Location,
    mut list: Checksums,
    shown: Shown<'_>,
) -> Result<bool, LookError> {
    let mut counts = Counts::default();
    while let Some(record) = looking.next_record()? {
        let found = match record {
            Record::Item(found) => found,
            Record::Unread { path, reason } => {
                counts.unreadable += 1;
                shown.difference(&Difference::Unreadable { side: Side::A, path: &path, reason: &reason });
                continue;
            }
            Record::Leave { .. } => continue,
        };
        // A file that is named itself is in the list by its name.
        let path = if found.path.is_empty() { name_of(place) } else { &found.path };
        let is_link = match &found.kind {
            ListedKind::File { digest: Some(_) } => false,
            ListedKind::Symlink { .. } => true,
            _ => continue,
        };
        let Some(expected) = list.take(path, is_link) else {
            counts.unlisted += u64::from(!is_link);
            continue;
        };
        match &found.kind {
            ListedKind::Symlink { target } if expected.is(blake3::hash(target).as_bytes()) => counts.links += 1,
            ListedKind::File { digest: Some(Ok(digest)) } if expected.is(digest) => {
                counts.equal += 1;
                counts.bytes += found.metadata.map_or(0, |metadata| metadata.size);
            }
            ListedKind::File { digest: Some(Err(reason)) } => {
                counts.unreadable += 1;
                shown.difference(&Difference::Unreadable { side: Side::A, path, reason });
            }
            _ => {
                counts.different += 1;
                one(shown, "content", path);
            }
        }
    }
    for path in list.left() {
        counts.missing += 1;
        one(shown, "missing", path);
    }
    tally(&counts, shown);
    Ok(counts.different + counts.missing + counts.unreadable == 0)
}

/// Last component of a location's path.
fn name_of(place: &Location) -> &[u8] {
    let path = place.path();
    path.rsplit(|byte| *byte == b'/').find(|part| !part.is_empty()).unwrap_or(path)
}

/// Shows that a file differs, and how.
fn one(shown: Shown<'_>, how: &str, path: &[u8]) {
    if shown.as_json {
        let mut object = json!({ "type": "difference", "differs": [how] });
        put_path(&mut object, path);
        return shown.console.json(&object.to_string());
    }
    shown.line(how, &shown_path(path));
}

/// Shows the counts at the end.
fn tally(counts: &Counts, shown: Shown<'_>) {
    let Counts { equal, links, bytes, different, missing, unreadable, unlisted } = *counts;
    let is_equal = different + missing + unreadable == 0;
    if shown.as_json {
        let object = json!({
            "type": "summary", "equal": is_equal, "items": equal + links + different, "bytes": bytes, "different": different,
            "missing": missing, "unreadable": unreadable, "unlisted": unlisted,
        });
        return shown.console.json(&object.to_string());
    }
    let mut parts = vec![format!("{} as in the list, {}", counted(equal, "file"), size(bytes))];
    let others = [
        (links, "links"),
        (different, "different"),
        (missing, "missing"),
        (unreadable, "unreadable"),
        (unlisted, "not in the list"),
    ];
    parts.extend(others.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")));
    shown.console.result(&format!("{}: {}", if is_equal { "equal" } else { "not equal" }, parts.join(", ")));
}
