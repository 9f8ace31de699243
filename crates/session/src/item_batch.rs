//! Items that are made or removed, for messages of bounded length.

use icdc_protocol::limits::{MAX_DELETED, MAX_DELETED_BYTES};
use icdc_protocol::message::ChangedItem;

/// Most items in one message.
const MOST: usize = 256;
/// Bytes of paths after which a message is sent, though it has room for more items.
const BYTES: usize = 128 << 10;
const _: () = assert!(MOST <= MAX_DELETED && BYTES <= MAX_DELETED_BYTES);

/// Items that were made, removed or renamed and that the other end is still to be told of,
/// collected into messages of bounded length.
#[derive(Debug, Default)]
pub struct ItemBatch {
    items: Vec<ChangedItem>,
    /// Bytes of their paths.
    bytes: usize,
}

impl ItemBatch {
    /// Adds an item; returns those to be told in one message, if they are enough.
    pub fn push(&mut self, item: ChangedItem) -> Option<Vec<ChangedItem>> {
        let full = if self.bytes + item.path.len() > BYTES { self.take() } else { None };
        self.bytes += item.path.len();
        self.items.push(item);
        if self.items.len() >= MOST { self.take() } else { full }
    }

    /// Takes the items that the other end has not been told of; `None` if there are none.
    pub fn take(&mut self) -> Option<Vec<ChangedItem>> {
        self.bytes = 0;
        Some(std::mem::take(&mut self.items)).filter(|items| !items.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_about_items_are_bounded() {
        let item = |length| ChangedItem { path: vec![b'x'; length], is_directory: false };
        let mut batch = ItemBatch::default();
        assert!((1..MOST).all(|_| batch.push(item(1)).is_none()));
        assert_eq!(batch.push(item(1)).map(|items| items.len()), Some(MOST));
        assert!(batch.take().is_none() && batch.push(item(BYTES)).is_none());
        assert_eq!(batch.push(item(1)).map(|items| items.len()), Some(1), "the long one goes alone");
        assert_eq!(batch.take().map(|items| items.len()), Some(1));
    }
}
