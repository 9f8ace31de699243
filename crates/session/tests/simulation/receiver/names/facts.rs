//! What lies at the destination, as far as it bears on one item.

use icdc_protocol::block_map::BlockMap;
use icdc_protocol::message::{EntryId, FileDigest, Special};
use icdc_protocol::run_journal::ItemKey;
use icdc_session::failure::Failure;
use icdc_session::receiver::book::item::{Item, ModificationTime};
use icdc_session::receiver::book::resume::facts::{Facts, Kind as Found, Lookup, PublishedBy, Stat};
use icdc_units::ByteCount;

use super::{header_of, renaming};
use crate::disk::{Disk, Holder, Inode, Kind, Write};
use crate::older;
use crate::receiver::data::Claimed;
use crate::receiver::file_journal::FileJournal;
use crate::receiver::run_log::RunLog;
use crate::receiver::staging::{self, Claim};

/// What lies at the destination that bears on one item.
pub(super) struct Known<'a> {
    /// A journal beside a file that has its final name is overlooked.
    pub(super) forgets: bool,
    pub(super) disk: &'a mut Disk,
    pub(super) holder: Holder,
    pub(super) directory: Inode,
    pub(super) name: Vec<u8>,
    /// The item's counterpart in the older copy.
    pub(super) counterpart: Option<Inode>,
    pub(super) item: Option<Item>,
    pub(super) run: Option<RunLog>,
    pub(super) has_waited: bool,
    pub(super) claimed: Option<Claimed>,
    /// Files that may have become the item, as far as it is known which there are.
    pub(super) choices: Option<Vec<renaming::File>>,
    /// The file that is left alone and of which the item is a further name.
    pub(super) first: Option<(EntryId, Inode)>,
}

impl Known<'_> {
    fn attributes(&self, inode: Inode) -> Stat {
        let contents = self.disk.contents(inode);
        let kind = match self.disk.kind(inode) {
            Kind::File => Found::File,
            Kind::Directory => Found::Directory,
            Kind::Symlink(_) => Found::Symlink,
        };
        let size = ByteCount::new(contents.length.max(contents.bytes.len() as u64));
        let mtime = ModificationTime { seconds: contents.mtime.0, nanos: contents.mtime.1 };
        Stat { kind, size, mtime, mode: contents.mode, owner: (0, 0), names: self.disk.count_names(inode) }
    }
}

impl Facts for Known<'_> {
    fn stat(&mut self) -> Option<Stat> {
        let inode = self.disk.find(self.directory, &self.name)?;
        Some(self.attributes(inode))
    }

    fn describes_files(&self) -> bool {
        true
    }

    fn finds_moved(&self) -> bool {
        true
    }

    fn shown_time(&mut self, wanted: ModificationTime) -> ModificationTime {
        wanted
    }

    fn link_target(&mut self) -> Option<Vec<u8>> {
        match self.disk.kind(self.disk.find(self.directory, &self.name)?) {
            Kind::Symlink(target) => Some(target.clone()),
            _ => None,
        }
    }

    fn special(&mut self) -> Option<Special> {
        None
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }

    fn published(&mut self, key: &ItemKey) -> Option<(FileDigest, PublishedBy)> {
        let (digest, ours) = self.run.as_ref()?.published(key)?;
        Some((digest, if ours { PublishedBy::ThisRun } else { PublishedBy::AnEarlierRun }))
    }

    fn journals_without_part(&mut self) -> Vec<BlockMap> {
        let Some(item) = &self.item else { return Vec::new() };
        if self.forgets || self.disk.find(self.directory, &staging::part(&self.name)).is_some() {
            return Vec::new();
        }
        let header = header_of(&item.entry, &self.name);
        FileJournal::find(self.disk, self.directory, &self.name, &header).map(|(_, held)| held).into_iter().collect()
    }

    fn claim_part(&mut self, cleared: bool) -> Result<Option<BlockMap>, Failure> {
        let Some(item) = &self.item else { return Ok(None) };
        let header = header_of(&item.entry, &self.name);
        let part = match staging::claim(self.disk, self.directory, &staging::part(&self.name), self.holder) {
            Claim::Nothing => return Ok(None),
            Claim::Busy => return Err("another copy is writing it; wait for its end or stop it".into()),
            Claim::Taken(part) => part,
        };
        let Some((journal, held)) = FileJournal::find(self.disk, self.directory, &self.name, &header) else {
            self.disk.unlock(part, self.holder);
            return Ok(None);
        };
        if cleared {
            self.disk.write(part, Write::Punch(held.iter().map(|(index, _)| index).collect()));
        }
        self.claimed = Some(Claimed { part, journal, has_waited: self.has_waited });
        Ok(Some(held))
    }

    fn ended_part(&mut self) -> Option<BlockMap> {
        None
    }

    fn references(&self) -> usize {
        usize::from(older::is_there(self.disk))
    }

    fn reference(&mut self, _: usize) -> Option<Stat> {
        self.counterpart.map(|inode| self.attributes(inode))
    }

    fn has_xattrs(&mut self, _: Option<usize>) -> bool {
        true
    }

    fn is_further_name(&mut self, first: EntryId) -> bool {
        let found = self.disk.find(self.directory, &self.name);
        found.is_some_and(|inode| self.first == Some((first, inode)))
    }

    fn is_as_compared(&mut self) -> bool {
        true
    }

    fn user(&self) -> u32 {
        0
    }

    fn candidates(&mut self) -> Lookup {
        match self.choices.as_deref() {
            None => Lookup::Unknown,
            Some([]) => Lookup::Nothing,
            Some(files) => Lookup::Found(files.iter().map(|file| file.place.clone()).collect()),
        }
    }
}
