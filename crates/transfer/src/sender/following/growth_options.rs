//! Which followed files may travel while they grow.

use icdc_disk::tree::{Kind, Stat};
use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::{Choice, SendOptions};

/// Most files that travel while they grow at a time: others wait until they have settled.
const MOST: usize = 4;
/// Length in bytes from which on a file may travel while it grows: shorter ones are sent at once when they have settled.
const LEAST: u64 = 4 * BLOCK_SIZE as u64;
/// Ends of names under which programs write files that they rename when they are complete.
const TEMPORARY: [&[u8]; 6] = [b"~", b".tmp", b".temp", b".part", b".partial", b".filepart"];

/// Options that decide which followed files may travel while they grow.
#[derive(Clone, Copy, Debug)]
pub(super) struct GrowthOptions {
    /// Whether any may: not if it depends on the size or the time that a file has at its end, or if it is removed then.
    may: bool,
    /// Whether attributes are carried whose change is not seen in a file's description.
    pub(super) has_attributes: bool,
}

impl GrowthOptions {
    /// The options of this sending end.
    pub(super) fn of(send: &SendOptions) -> Self {
        let Choice { min_size, max_size, newer_than, older_than, .. } = &send.choice;
        let is_choosy = min_size.is_some() || max_size.is_some() || newer_than.is_some() || older_than.is_some();
        Self { may: !send.moves && !is_choosy, has_attributes: send.preserve.attributes() }
    }

    /// Whether one more file may travel while it grows, beside so many.
    pub(super) fn has_room(&self, growing: usize) -> bool {
        self.may && growing < MOST
    }

    /// Whether the file of this name may travel while it grows.
    pub(super) fn may_grow(&self, name: &[u8], stat: &Stat) -> bool {
        let is_temporary = name.starts_with(b".") || TEMPORARY.iter().any(|end| name.ends_with(end));
        stat.kind == Kind::File && stat.nlink == 1 && stat.size >= LEAST && !is_temporary
    }
}
