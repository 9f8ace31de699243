//! The journal of one unfinished file on the simulated disk, in its real form.

use icdc_protocol::block_journal::{BlockJournal, HEADER_LENGTH, Header};
use icdc_protocol::block_map::BlockMap;
use icdc_protocol::message::Digest;

use super::staging;
use crate::disk::{Disk, Inode, Write};

/// See the module's description.
#[derive(Clone, Debug)]
pub(crate) struct FileJournal {
    codec: BlockJournal,
    inode: Inode,
    length: usize,
}

impl FileJournal {
    /// What the journal of the item `name` has, if it is about this version of the source.
    pub(crate) fn find(disk: &Disk, directory: Inode, name: &[u8], header: &Header) -> Option<(Self, BlockMap)> {
        let inode = disk.find(directory, &staging::blocks(name))?;
        let codec = BlockJournal::new(header);
        let parsed = codec.parse(&disk.contents(inode).bytes);
        if parsed.blocks.is_empty() {
            return None;
        }
        Some((Self { codec, inode, length: parsed.valid_length as usize }, parsed.blocks))
    }

    /// Begins one in an empty file.
    pub(crate) fn begin(disk: &mut Disk, inode: Inode, header: &Header) -> Self {
        let codec = BlockJournal::new(header);
        disk.write(inode, Write::Bytes(0, codec.header().to_vec()));
        Self { codec, inode, length: HEADER_LENGTH }
    }

    /// Notes blocks that are durable.
    pub(crate) fn append(&mut self, disk: &mut Disk, blocks: &[(u32, Digest)]) {
        let bytes: Vec<u8> = blocks.iter().flat_map(|(index, value)| self.codec.record(*index, value)).collect();
        let length = bytes.len();
        disk.write(self.inode, Write::Bytes(self.length, bytes));
        self.length += length;
    }
}
