//! The journal of a run on the simulated disk, in its real form.

use std::collections::BTreeMap;

use icdc_protocol::message::{Digest, FileDigest, TransferId};
use icdc_protocol::run_journal::{Published, Record, RunJournal};

use super::staging::{self, Claim};
use crate::disk::{Disk, Holder, Inode, Write};

/// See the module's description.
#[derive(Clone, Debug)]
pub(crate) struct RunLog {
    codec: RunJournal,
    directory: Inode,
    name: Vec<u8>,
    file: Option<Inode>,
    /// What has the name and is of no use.
    useless: Option<Inode>,
    published: Published,
    /// The last session that has written to it was one of the present run.
    continues: bool,
    left_behind: BTreeMap<[u8; 8], Vec<u8>>,
    pending: Vec<u8>,
    pub(crate) resuming: bool,
    length: usize,
}

impl RunLog {
    /// Whether an interrupted run of the job has left its journal.
    pub(crate) fn is_there(disk: &Disk, directory: Inode, job: &Digest, target: Option<&[u8]>) -> bool {
        let codec = RunJournal::new(job);
        disk.find(directory, &staging::run(target))
            .is_some_and(|inode| disk.contents(inode).bytes.starts_with(codec.header()))
    }

    /// Looks for the journal of an earlier run and keeps others from it; `None` while another session holds it.
    pub(crate) fn find(
        disk: &mut Disk,
        directory: Inode,
        (job, target, transfer): (&Digest, Option<&[u8]>, &TransferId),
        resume: bool,
        holder: Holder,
    ) -> Option<Self> {
        let codec = RunJournal::new(job);
        let mut log = Self {
            directory,
            name: staging::run(target),
            file: None,
            useless: None,
            published: codec.parse(&[]).published,
            codec,
            continues: false,
            left_behind: BTreeMap::new(),
            pending: Vec::new(),
            resuming: false,
            length: 0,
        };
        match staging::claim(disk, directory, &log.name, holder) {
            Claim::Busy => return None,
            Claim::Taken(inode) if resume => {
                let parsed = log.codec.parse(&disk.contents(inode).bytes);
                if parsed.valid_length > 0 {
                    log.length = parsed.valid_length as usize;
                    log.published = parsed.published;
                    log.continues = parsed.last_run == Some(*transfer);
                    log.left_behind = parsed.staged.into_iter().collect();
                    log.resuming = true;
                    log.file = Some(inode);
                } else {
                    log.useless = Some(inode);
                    disk.unlock(inode, holder);
                }
            }
            Claim::Taken(inode) => {
                log.useless = Some(inode);
                disk.unlock(inode, holder);
            }
            Claim::Nothing => {}
        }
        Some(log)
    }

    /// Whether another session has begun a journal since this one has looked.
    pub(crate) fn is_overtaken(&self, disk: &Disk) -> bool {
        self.file.is_none() && disk.find(self.directory, &self.name) != self.useless
    }

    /// Where it lies.
    pub(crate) fn directory(&self) -> Inode {
        self.directory
    }

    /// Digest under which an item was published, and whether that was this run.
    pub(crate) fn published(&self, key: &[u8; 16]) -> Option<(FileDigest, bool)> {
        let ours = self.continues && self.published.is_of_last_run(key);
        self.published.get(key).map(|digest| (digest, ours))
    }

    pub(crate) fn staged(&mut self, path: &[u8]) {
        let staging = short(path);
        self.left_behind.remove(&staging);
        self.note(&Record::Staged { staging, directory: path });
    }

    pub(crate) fn released(&mut self, path: &[u8]) {
        self.note(&Record::Released { staging: short(path) });
    }

    pub(crate) fn note(&mut self, record: &Record<'_>) {
        self.codec.encode(record, &mut self.pending);
    }

    /// Appends what was noted.
    pub(crate) fn write(&mut self, disk: &mut Disk) {
        let bytes = std::mem::take(&mut self.pending);
        if let (Some(inode), false) = (self.file, bytes.is_empty()) {
            let length = bytes.len();
            disk.write(inode, Write::Bytes(self.length, bytes));
            self.length += length;
        }
    }

    /// Begins the run, or goes on with it.
    pub(crate) fn begin(&mut self, disk: &mut Disk, transfer: TransferId, holder: Holder) {
        match self.file {
            Some(inode) => disk.write(inode, Write::Cut(self.length)),
            None => {
                // In place of what is of no use.
                let _ = disk.remove(self.directory, &self.name);
                let inode = disk.create(self.directory, &self.name).expect("the name is free");
                disk.lock(inode, holder);
                let header = self.codec.header().to_vec();
                self.length = header.len();
                disk.write(inode, Write::Bytes(0, header));
                let mark = disk.begin_sync();
                disk.synced(inode, mark);
                self.file = Some(inode);
            }
        }
        self.note(&Record::Session { transfer });
        self.write(disk);
    }

    /// The run is complete. Gives the paths of what earlier attempts have left of items that are not part of it.
    pub(crate) fn remove(&mut self, disk: &mut Disk, holder: Holder) -> Vec<Vec<u8>> {
        if let Some(inode) = self.file.take() {
            let _ = disk.remove(self.directory, &self.name);
            disk.unlock(inode, holder);
        }
        std::mem::take(&mut self.left_behind).into_values().collect()
    }
}

fn short(path: &[u8]) -> [u8; 8] {
    let mut id = [0; 8];
    id.copy_from_slice(&blake3::hash(path).as_bytes()[..8]);
    id
}
