//! Notices about items that share a condition and have not failed: reported once for each
//! condition, with the number of items and the first paths.

use std::collections::{BTreeMap, BTreeSet};

use icdc_protocol::limits::MAX_NOTICED;
use icdc_protocol::message::{Notice, NoticeKind};
use serde::{Deserialize, Serialize};

use crate::path_text;

/// Notice for the user about the items of a run that share a condition, which is no failure: their
/// number and the first paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Noticed {
    /// Condition that the items share.
    pub kind: NoticeKind,
    /// Number of items that meet the condition.
    pub count: u64,
    /// Paths of the first of these items; bytes that are not UTF-8 are replaced.
    pub first: Vec<String>,
}

/// Notices collected by one end in one session: one for each condition that items meet.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    by_kind: BTreeMap<NoticeKind, Notice>,
    /// Kinds whose notices have changed since they were last reported.
    changed: BTreeSet<NoticeKind>,
}

impl Notices {
    /// Notes that the item at `path` meets the condition `kind`.
    pub(crate) fn note(&mut self, kind: NoticeKind, path: &[u8]) {
        let notice = self.by_kind.entry(kind).or_insert_with(|| Notice { kind, count: 0, first: Vec::new() });
        notice.count += 1;
        if notice.first.len() < MAX_NOTICED {
            notice.first.push(path.to_vec());
        }
        self.changed.insert(kind);
    }

    /// Takes over the other end's notice of one kind, which replaces its earlier one.
    pub(crate) fn replace(&mut self, notice: Notice) {
        self.by_kind.insert(notice.kind, notice);
    }

    /// Notices that have changed since the last call.
    pub(crate) fn take_changed(&mut self) -> Vec<Notice> {
        let changed = std::mem::take(&mut self.changed);
        changed.iter().filter_map(|kind| self.by_kind.get(kind).cloned()).collect()
    }

    /// All notices of the session, in the form that is shown to the user.
    pub(crate) fn all(&self) -> impl Iterator<Item = Noticed> {
        self.by_kind.values().map(Noticed::of)
    }
}

impl Noticed {
    /// Converts a notice of the protocol to the form for the user, with printable paths.
    pub(crate) fn of(notice: &Notice) -> Self {
        let first = notice.first.iter().map(|path| path_text(path)).collect();
        Self { kind: notice.kind, count: notice.count, first }
    }

    /// Adds the items of the same notice of a later session of the run.
    pub fn add(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        let room = MAX_NOTICED.saturating_sub(self.first.len());
        self.first.extend(other.first.iter().take(room).cloned());
    }

    /// Text of the notice: a sentence for the user.
    #[must_use]
    pub fn text(&self) -> String {
        let one = self.count == 1;
        let (items, names) = (if one { "item" } else { "items" }, if one { "name" } else { "names" });
        let became = if one { "became a file of its own" } else { "became files of their own" };
        let said = match self.kind {
            NoticeKind::TimeNotKept => format!(
                "{items} {} another modification time than at the source: the file system of the destination cannot keep it",
                if one { "has" } else { "have" }
            ),
            NoticeKind::FirstNameReplaced => {
                format!(
                    "further {names} of a file {became}: another file got its first name at the destination meanwhile"
                )
            }
            NoticeKind::FirstNameKept => {
                format!("further {names} of a file {became}: the destination is kept as it is at its first name")
            }
            NoticeKind::LinkRefused => format!(
                "further {names} of a file {became}: the hard link is not permitted there (the file system has none, or the file \
                 is immutable or another user's)"
            ),
            NoticeKind::ModeNotKept => format!(
                "{items} arrived without the mode that {} should have: the file system of the destination does not let it be set; \
                 leave mode out of --preserve, or choose another destination",
                if one { "it" } else { "they" }
            ),
            NoticeKind::Altered => format!(
                "{items} that an earlier run had published {} altered since, and {} sent again",
                if one { "was" } else { "were" },
                if one { "was" } else { "were" }
            ),
            NoticeKind::KeptAtSource => format!(
                "{} at the source, though equal at the destination by size and time: the contents were not compared; copy \
                 without --skip-equal and --update to have {} moved",
                if one { "file stays" } else { "files stay" },
                if one { "it" } else { "them" }
            ),
            NoticeKind::AttributesLeftOut => format!(
                "{items} {} extended attributes that were left out: only user.*, ACLs and capabilities are copied",
                if one { "has" } else { "have" }
            ),
        };
        let more = if self.count > self.first.len() as u64 { ", …" } else { "" };
        format!("{} {said} ({}{more})", self.count, self.first.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_ones_are_named_and_what_changes_is_told_once_more() {
        let mut notices = Notices::default();
        for number in 0..5 {
            notices.note(NoticeKind::LinkRefused, format!("a/{number}").as_bytes());
        }
        let changed = notices.take_changed();
        assert_eq!((changed.len(), changed[0].count, changed[0].first.len()), (1, 5, MAX_NOTICED));
        assert!(notices.take_changed().is_empty());
        notices.note(NoticeKind::TimeNotKept, b"b");
        assert_eq!(notices.take_changed().len(), 1);
        let all: Vec<_> = notices.all().collect();
        assert!(all[1].text().starts_with("5 further names") && all[1].text().ends_with("(a/0, a/1, a/2, …)"));
        let mut sum = all[0].clone();
        sum.add(&all[0]);
        assert_eq!((sum.count, sum.first.as_slice()), (2, &["b".to_owned(), "b".to_owned()][..]));
    }
}
