//! Items that are made from files which the destination has under other names.

use std::collections::{BTreeMap, BTreeSet};

use icdc_protocol::limits::MAX_CANDIDATES;
use icdc_protocol::message::{CandidatePlace, EntryId, FileDigest};
use icdc_session::receiver::book::action::{CandidateRoot, Method};
use icdc_units::ByteCount;

use super::super::staging;
use super::{Job, Names, Report};
use crate::disk::{Disk, Inode, Kind};
use crate::environment::Environment;
use crate::mutations::Mutation;

/// A file of the destination.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) place: CandidatePlace,
    directory: Inode,
    name: Vec<u8>,
    pub(super) inode: Inode,
}

/// Files that may have become items, by their size alone: of one time there are not enough that are not the same.
#[derive(Debug, Default)]
pub(super) struct Renames {
    /// `None` until they are found.
    files: Option<Vec<File>>,
    found: BTreeMap<EntryId, Vec<File>>,
    taken: BTreeSet<Inode>,
}

impl Renames {
    /// Files of this size that were not taken; `None` while the files are not known.
    pub(super) fn choices(&self, disk: &Disk, size: u64) -> Option<Vec<File>> {
        let size_of = |file: &File| {
            let contents = disk.contents(file.inode);
            contents.length.max(contents.bytes.len() as u64)
        };
        let is_alike = |file: &&File| !self.taken.contains(&file.inode) && file.is_there(disk) && size_of(file) == size;
        Some(self.files.as_ref()?.iter().filter(is_alike).take(MAX_CANDIDATES).cloned().collect())
    }

    pub(super) fn keep(&mut self, id: EntryId, found: Vec<File>) {
        self.found.insert(id, found);
    }

    fn of(&self, (id, number): (EntryId, usize)) -> Option<&File> {
        self.found.get(&id)?.get(number).filter(|file| !self.taken.contains(&file.inode))
    }
}

impl File {
    fn is_there(&self, disk: &Disk) -> bool {
        disk.find(self.directory, &self.name) == Some(self.inode)
    }
}

impl Names {
    pub(super) fn find_candidates(&mut self, roots: Vec<CandidateRoot>, env: &Environment) {
        let mut files = Vec::new();
        for CandidateRoot { source, directory, name, .. } in roots {
            let directory = self.directories.get(&directory).copied();
            let root = match name {
                Some(name) => directory.and_then(|directory| env.disk.find(directory, &name)),
                None => directory,
            };
            if let Some(root) = root {
                find(&env.disk, root, &mut Vec::new(), source, &mut files);
            }
        }
        self.renames.files = Some(files);
        self.push(Job::CandidatesFound);
    }

    pub(super) fn compare_candidate(
        &mut self,
        which: (EntryId, usize),
        digest: FileDigest,
        env: &Environment,
    ) -> Option<Report> {
        let (id, _) = which;
        if env.has(Mutation::CandidatesAreTrusted) {
            self.push(Job::Compared { id, same: true });
            return None;
        }
        let inode = self.renames.of(which).map(|file| file.inode);
        Some(Report::Compare { id, inode, digest })
    }

    /// Makes an item from its candidate; the number of its bytes that are not durable, or `None` if that is not possible.
    pub(super) fn take_candidate(&mut self, which: (EntryId, usize), env: &mut Environment) -> Option<ByteCount> {
        let (id, _) = which;
        let file = self.renames.of(which).filter(|file| file.is_there(&env.disk))?.clone();
        self.renames.taken.insert(file.inode);
        let mode = self.book.item(id)?.entry.mode;
        let has_mode = env.disk.contents(file.inode).mode == mode;
        let method = if has_mode && !env.random.once_in(4) { Method::Link } else { Method::Copy };
        self.take(id, file.inode, method, env)
    }
}

fn find(disk: &Disk, directory: Inode, path: &mut Vec<Vec<u8>>, source: u32, files: &mut Vec<File>) {
    for (name, inode) in disk.names(directory).filter(|(name, _)| !staging::is_staging(name)) {
        path.push(name.to_vec());
        match disk.kind(inode) {
            Kind::Directory => find(disk, inode, path, source, files),
            Kind::File => {
                let place = CandidatePlace { source, path: path.join(&b'/') };
                files.push(File { place, directory, name: name.to_vec(), inode });
            }
            Kind::Symlink(_) => {}
        }
        path.pop();
    }
}
