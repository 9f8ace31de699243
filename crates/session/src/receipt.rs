//! Lines of a receipt in the order of announcement, at either end: items end in any order, and a line
//! waits for those of all items that were announced before.

use std::collections::VecDeque;

use icdc_protocol::limits::MAX_PENDING_BYTES;
use icdc_protocol::message::EntryId;
use icdc_protocol::receipt::line::Line;

/// Most bytes of lines that wait at a sender: it announces nothing more then.
pub const MAX_WAITING: usize = MAX_PENDING_BYTES / 4;
/// Most bytes of lines that wait at a receiver: those that wait at the sender, and of the items whose
/// ends it does not know yet; each byte of a path has up to 4 in its line.
pub const MAX_WAITING_AT_RECEIVER: usize = 2 * MAX_PENDING_BYTES;
/// Bytes of ordered lines from which on they are taken.
const CHUNK: usize = 32 << 10;

/// Lines of a receipt, brought from the order in which items end into the order of their
/// announcement.
#[derive(Debug, Default)]
pub struct Lines {
    /// Id of the first item that has not ended.
    next: EntryId,
    /// Lines of the items from `next` on; `None` for an item that has not ended.
    waiting: VecDeque<Option<Box<[u8]>>>,
    /// Bytes of the waiting lines.
    held: usize,
    /// Lines in their order that were not taken.
    ordered: Vec<u8>,
}

impl Lines {
    /// Adds the line of an item that has ended; only the first one of an item counts.
    pub fn settle(&mut self, id: EntryId, line: &Line) {
        let Some(position) = id.checked_sub(self.next).map(|position| position as usize) else { return };
        if self.waiting.len() <= position {
            self.waiting.resize(position + 1, None);
        }
        if self.waiting[position].is_some() {
            return;
        }
        let mut text = Vec::with_capacity(line.path.len() + 160);
        line.write(&mut text);
        self.held += text.len();
        self.waiting[position] = Some(text.into_boxed_slice());
        while let Some(Some(_)) = self.waiting.front() {
            let Some(Some(text)) = self.waiting.pop_front() else { break };
            self.held -= text.len();
            self.ordered.extend_from_slice(&text);
            self.next += 1;
        }
    }

    /// Bytes of lines that wait for items announced before.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Takes the lines that are in order, once they have 32 KiB; `None` before.
    pub fn take_chunk(&mut self) -> Option<Vec<u8>> {
        (self.ordered.len() >= CHUNK).then(|| std::mem::take(&mut self.ordered))
    }

    /// Takes the last lines at the end; `None` if an item has not ended whose successors have.
    #[must_use]
    pub fn take_rest(&mut self) -> Option<Vec<u8>> {
        self.waiting.is_empty().then(|| std::mem::take(&mut self.ordered))
    }
}

#[cfg(test)]
mod tests {
    use icdc_protocol::receipt::line::{Kind, Status};

    use super::*;

    fn line(id: EntryId) -> Line {
        let (status, kind, path) = (Status::Stored, Kind::File, format!("item {id}").into_bytes());
        Line { status, kind, size: 1, mtime: (0, 0), digest: None, path }
    }

    fn text(ids: impl IntoIterator<Item = EntryId>) -> Vec<u8> {
        let mut text = Vec::new();
        ids.into_iter().for_each(|id| line(id).write(&mut text));
        text
    }

    #[test]
    fn lines_come_in_the_order_of_announcement_whatever_that_of_the_ends() {
        const ITEMS: EntryId = 300;
        // Each is coprime to the number of items.
        for step in [1, 7, 11, 149, 299] {
            let mut lines = Lines::default();
            let mut taken = Vec::new();
            for id in (0..ITEMS).map(|number| number * step % ITEMS) {
                lines.settle(id, &line(id));
                assert_eq!(lines.held() == 0, lines.waiting.is_empty());
                taken.extend(lines.take_chunk().unwrap_or_default());
            }
            taken.extend(lines.take_rest().unwrap());
            assert_eq!(taken, text(0..ITEMS), "{step}");
        }
    }

    #[test]
    fn an_item_ends_once_and_nothing_is_the_rest_while_one_is_missing() {
        let mut lines = Lines::default();
        lines.settle(1, &line(1));
        lines.settle(1, &line(7));
        assert!(lines.take_rest().is_none() && lines.held() == text([1]).len());
        lines.settle(0, &line(0));
        lines.settle(0, &line(7));
        assert_eq!(lines.take_rest().unwrap(), text([0, 1]));
        assert_eq!(lines.held(), 0);
    }
}
