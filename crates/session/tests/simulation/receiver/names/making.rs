//! What has staging names and final ones.

use icdc_protocol::message::{Done, Entry, EntryId, EntryKind, FileDigest, Message};
use icdc_protocol::run_journal::{ItemKey, Record};
use icdc_session::failure::Failure;
use icdc_session::receiver::book::action::{
    Extra, Guard, Method, Names as NamesToFlush, NotFinished, NotRenamed, NotStaged, Piece, Publication, Reference,
    ReferencePlace,
};
use icdc_session::receiver::book::item::{DirectoryId, DirectoryPlace, ModificationTime};
use icdc_units::ByteCount;

use super::extras::delete;
use super::{Contents, DEVICE, Made, Names};
use crate::audit::Unfinished;
use crate::disk::{Disk, Inode, Kind, Write};
use crate::environment::Environment;
use crate::mutations::Mutation;
use crate::older;
use crate::receiver::staging;
use crate::source::File;

impl Names {
    /// Makes something under the staging name of an item in place of what an earlier run left.
    fn make_part(
        &mut self,
        id: EntryId,
        env: &mut Environment,
        make: impl FnOnce(&mut Disk, Inode, &[u8]) -> Inode,
    ) -> Result<Inode, Failure> {
        let (directory, name) = self.place_of(id).ok_or("its directory is not open")?;
        if env.random.permille(env.faults.names) {
            return Err(Failure::full("part"));
        }
        let staging = staging::part(&name);
        if let Some(left) = env.disk.find(directory, &staging) {
            delete(directory, &staging, left, env);
        }
        let _ = env.disk.remove(directory, &staging::blocks(&name));
        let inode = make(&mut env.disk, directory, &staging);
        self.made.insert(id, Made { directory, name, staging, inode, is_durable: false });
        Ok(inode)
    }

    pub(super) fn stage(
        &mut self,
        piece: &Piece,
        payload: &Contents,
        env: &mut Environment,
    ) -> Result<ByteCount, NotStaged> {
        let bytes = payload.bytes.get(piece.offset..piece.offset + piece.length).unwrap_or_default().to_vec();
        if *blake3::hash(&bytes).as_bytes() != piece.digest {
            return Err(NotStaged::Damaged);
        }
        let Some(item) = self.book.item(piece.id).cloned() else { return Err(NotStaged::Failed("is unknown".into())) };
        if env.random.permille(env.faults.write) {
            return Err(NotStaged::Failed(Failure::full("part")));
        }
        let make = |disk: &mut Disk, directory, name: &[u8]| disk.create(directory, name).expect("the name is free");
        let inode = self.make_part(piece.id, env, make).map_err(NotStaged::Failed)?;
        env.disk.write(inode, Write::Bytes(0, bytes));
        restore(&mut env.disk, inode, &item.entry);
        Ok(ByteCount::from(piece.length))
    }

    pub(super) fn amend(&mut self, id: EntryId, env: &mut Environment) -> Result<bool, Failure> {
        let item = self.book.item(id).cloned().ok_or("is unknown")?;
        let (directory, name) = self.place_of(id).ok_or("its directory is not open")?;
        let inode = env.disk.find(directory, &name).ok_or("is gone")?;
        if self.run.is_none() && !self.is_as_found(directory, &name, env) {
            return Err("was changed since it was examined".into());
        }
        if env.random.permille(env.faults.names) {
            return Err("cannot be given its mode".into());
        }
        let mtime = (item.entry.mtime_seconds, item.entry.mtime_nanos);
        let found = env.disk.contents(inode);
        let wanted = [
            (found.mode != item.entry.mode).then_some(Write::Mode(item.entry.mode)),
            (found.mtime != mtime).then_some(Write::Mtime(mtime)),
        ];
        let differs = wanted.iter().any(Option::is_some);
        wanted.into_iter().flatten().for_each(|change| env.disk.write(inode, change));
        Ok(differs)
    }

    /// Makes an item from its counterpart in the older copy; the number of its bytes that are not durable, or `None` if
    /// that is not possible.
    pub(super) fn take_reference(
        &mut self,
        id: EntryId,
        reference: Reference,
        env: &mut Environment,
    ) -> Option<ByteCount> {
        let (directory, name) = self.place_of(id)?;
        let from = match reference.place {
            ReferencePlace::Older(_) => older::counterpart(&env.disk, &self.path_of(directory, &name))?,
            ReferencePlace::Itself => env.disk.find(directory, &name)?,
        };
        self.take(id, from, reference.method, env)
    }

    /// Makes an item from another file; the number of its bytes that are not durable, or `None` if that is not possible.
    pub(super) fn take(
        &mut self,
        id: EntryId,
        from: Inode,
        method: Method,
        env: &mut Environment,
    ) -> Option<ByteCount> {
        let item = self.book.item(id).cloned()?;
        if method == Method::Link || env.has(Mutation::OlderCopyIsAmended) {
            let link = |disk: &mut Disk, directory, name: &[u8]| {
                disk.link(directory, name, from).expect("the name is free");
                from
            };
            self.make_part(id, env, link).ok()?;
            if method == Method::Copy {
                restore(&mut env.disk, from, &item.entry);
            }
            return Some(ByteCount::ZERO);
        }
        let contents = env.disk.contents(from).clone();
        let make = |disk: &mut Disk, directory, name: &[u8]| disk.create(directory, name).expect("the name is free");
        let inode = self.make_part(id, env, make).ok()?;
        let bytes = ByteCount::new(contents.length.max(contents.bytes.len() as u64));
        if contents.length > 0 {
            env.disk.write(inode, Write::Length(contents.length));
        } else {
            env.disk.write(inode, Write::Bytes(0, contents.bytes));
        }
        for (index, number) in contents.blocks {
            env.disk.write(inode, Write::Block(index, number));
        }
        restore(&mut env.disk, inode, &item.entry);
        Some(bytes)
    }

    /// Path from the root of a name in an open directory.
    pub(super) fn path_of(&self, directory: Inode, name: &[u8]) -> Vec<Vec<u8>> {
        let mut path = self.paths.get(&directory).cloned().unwrap_or_default();
        path.push(name.to_vec());
        path
    }

    pub(super) fn make_symlink(&mut self, id: EntryId, env: &mut Environment) -> Result<(), Failure> {
        let item = self.book.item(id).cloned().ok_or("is unknown")?;
        let EntryKind::Symlink { target } = &item.entry.kind else { return Err("is no link".into()) };
        let make = |disk: &mut Disk, directory, name: &[u8]| {
            disk.make_symlink(directory, name, target).expect("the name is free")
        };
        let inode = self.make_part(id, env, make)?;
        restore(&mut env.disk, inode, &item.entry);
        Ok(())
    }

    pub(super) fn make_link(&mut self, id: EntryId, from: Option<Inode>, env: &mut Environment) -> Result<(), Failure> {
        let from = from.ok_or("the file it is a further name of is not there")?;
        let make = |disk: &mut Disk, directory, name: &[u8]| {
            disk.link(directory, name, from).expect("the name is free");
            from
        };
        self.make_part(id, env, make).map(drop)
    }

    pub(super) fn rename(
        &mut self,
        item: &Publication,
        is_hung_up: bool,
        env: &mut Environment,
    ) -> Result<Option<ModificationTime>, NotRenamed> {
        let failed = |reason: &str| NotRenamed::Failed(reason.into());
        let Some(made) = self.made.get(&item.id).cloned() else {
            env.violate(format!("renames item {}, which is not made", item.id));
            return Err(failed("is not made"));
        };
        if env.disk.find(made.directory, &made.staging) != Some(made.inode) {
            return Err(failed("another copy has written it at the same time"));
        }
        if item.guard != Guard::Lock && is_hung_up && !env.has(Mutation::OldSessionWakes) {
            return Err(failed("the sender has gone"));
        }
        if item.guard == Guard::AsFound && !self.is_as_found(made.directory, &made.name, env) {
            return Err(NotRenamed::Changed);
        }
        if env.random.permille(env.faults.names) {
            let failure = Failure::from("cannot be renamed");
            return Err(if made.is_durable { failure.passing() } else { failure }.into());
        }
        if let Some(obstacle) = obstacle_at(made.directory, &made.name, |kind| *kind == Kind::Directory, env) {
            self.book.on_obstacle(item.id, place_of(made.directory), obstacle);
            return Err(failed("a directory is in the way"));
        }
        let renamed = env.disk.rename(made.directory, &made.staging, &made.name);
        renamed.map_err(|error| Failure::from(format!("cannot be renamed: {error:?}")))?;
        if item.digest.is_none() {
            let _ = env.disk.remove(made.directory, &made.staging);
        }
        Ok(Some(self.named(item.id, made, env)))
    }

    /// Whether the name of the only item of a run without a journal belongs to what had it when this was asked before,
    /// or when it was examined.
    fn is_as_found(&mut self, directory: Inode, name: &[u8], env: &Environment) -> bool {
        let found = env.disk.occupant(directory, name);
        std::mem::replace(&mut self.found, found) == found || env.takes_any_for_found()
    }

    /// Something made has its final name; returns its modification time.
    pub(super) fn named(&mut self, id: EntryId, made: Made, env: &mut Environment) -> ModificationTime {
        let mut path = self.paths.get(&made.directory).cloned().unwrap_or_default();
        path.push(made.name.clone());
        if let Err(what) = env.audit.check_published(&env.disk, made.inode, &path) {
            env.violate(what);
        }
        if !made.is_durable {
            self.made.remove(&id);
        }
        if let Ok(revision) = env.audit.revision_of(env.disk.contents(made.inode)) {
            let file = Unfinished { directory: made.directory, name: made.name, revision };
            env.audit.is_named(&file);
            // Without a journal of the run, or with holes in the file, nobody knows it again.
            if self.run.is_none() || env.audit.version(revision).is_some_and(File::is_sparse) {
                env.audit.is_gone(&file);
            }
        }
        let (seconds, nanos) = env.disk.contents(made.inode).mtime;
        ModificationTime { seconds, nanos }
    }

    pub(super) fn flush_names(&mut self, names: &NamesToFlush, env: &mut Environment) -> Result<(), Failure> {
        if env.random.permille(env.faults.sync) {
            let is_told = !env.has(Mutation::UnflushedNamesAreToldDone);
            return if is_told { Err("input/output error".into()) } else { Ok(()) };
        }
        let is_found = self.made.is_empty() && env.has(Mutation::NamesOfFoundAreNotFlushed);
        if is_found || env.has(Mutation::NamesAreNotFlushed) {
            return Ok(());
        }
        match names {
            NamesToFlush::OnFileSystems(_) => env.disk.sync_filesystem(),
            NamesToFlush::In(directories) => {
                for inode in directories.iter().filter_map(|directory| self.directories.get(directory)) {
                    let mark = env.disk.begin_sync();
                    env.disk.synced(*inode, mark);
                }
            }
        }
        Ok(())
    }

    pub(super) fn note_published(&mut self, published: &[(ItemKey, FileDigest)], env: &mut Environment) {
        let Some(run) = &mut self.run else { return };
        if env.random.permille(env.faults.write) || env.has(Mutation::NoPublicationIsNoted) {
            return;
        }
        for (key, digest) in published {
            run.note(&Record::Published { key: *key, digest: *digest });
        }
        run.write(&mut env.disk);
    }

    pub(super) fn finish_directory(
        &mut self,
        entry: &Entry,
        may_change: bool,
        env: &mut Environment,
    ) -> Result<(), NotFinished> {
        if self.options.dry_run {
            return Ok(());
        }
        let Some(inode) = self.directories.get(&DirectoryId::Entry(entry.id)) else {
            env.violate(format!("finishes directory {}, which is not open", entry.id));
            return Err(NotFinished::Failed("is not open".into()));
        };
        let found = env.disk.contents(*inode);
        if !may_change && (found.mode, found.mtime) != (entry.mode, (entry.mtime_seconds, entry.mtime_nanos)) {
            return Err(NotFinished::Differs);
        }
        if env.random.permille(env.faults.names) {
            return Err(NotFinished::Failed("cannot be given its metadata".into()));
        }
        restore(&mut env.disk, *inode, entry);
        self.restored.insert(entry.id, (*inode, (entry.mtime_seconds, entry.mtime_nanos)));
        Ok(())
    }

    /// The sender is told that items are done: of directories the time is durable, too.
    pub(super) fn check_done(&mut self, message: &Message, env: &mut Environment) {
        let Message::Done(items) = message else { return };
        for Done { id, outcome } in items {
            let Some((inode, time)) = self.restored.remove(id) else { continue };
            let entries = self.directories.iter().filter(|(id, _)| matches!(id, DirectoryId::Entry(_)));
            // Another source may still fill it, and then sets its time once more.
            let is_alone = entries.filter(|(_, other)| **other == inode).count() == 1;
            let is_set = env.disk.contents(inode).mtime == time;
            if outcome.is_ok() && is_alone && is_set && env.disk.durable(inode).mtime != time {
                env.violate(format!("directory {id} is told done, and its time is not durable"));
            }
        }
    }

    pub(super) fn put_away(&mut self, contents: Option<(DirectoryId, Box<Entry>)>, env: &mut Environment) {
        self.put_away = true;
        if let Some(run) = &mut self.run {
            env.audit.is_put_away();
            let base = run.directory();
            for path in run.remove(&mut env.disk, self.holder) {
                remove_left_behind(&mut env.disk, base, &path);
            }
        }
        if let Some((directory, entry)) = contents
            && !env.has(Mutation::ContentsKeepTheTime)
            && let Some(inode) = self.directories.get(&directory)
        {
            restore(&mut env.disk, *inode, &entry);
        }
    }
}

/// The item of this name as an obstacle, if its kind makes it one.
pub(super) fn obstacle_at(
    directory: Inode,
    name: &[u8],
    is_obstacle: impl Fn(&Kind) -> bool,
    env: &Environment,
) -> Option<Extra> {
    let inode = env.disk.find(directory, name).filter(|inode| is_obstacle(env.disk.kind(*inode)))?;
    let is_directory = *env.disk.kind(inode) == Kind::Directory;
    Some(Extra { name: name.to_vec(), device: DEVICE, inode: inode.0, is_directory, replaced_by: None })
}

pub(super) fn place_of(directory: Inode) -> DirectoryPlace {
    DirectoryPlace { device: DEVICE, inode: directory.0 }
}

fn remove_left_behind(disk: &mut Disk, base: Inode, path: &[u8]) {
    let mut components: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
    let Some(name) = components.pop() else { return };
    let directory = components.iter().try_fold(base, |directory, name| disk.find(directory, name));
    let Some(directory) = directory else { return };
    let before = disk.contents(directory).mtime;
    let _ = disk.remove(directory, &staging::part(name));
    let _ = disk.remove(directory, &staging::blocks(name));
    disk.write(directory, Write::Mtime(before));
}

fn restore(disk: &mut Disk, inode: Inode, entry: &Entry) {
    disk.write(inode, Write::Mode(entry.mode));
    disk.write(inode, Write::Mtime((entry.mtime_seconds, entry.mtime_nanos)));
}
