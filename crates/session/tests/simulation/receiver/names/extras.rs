//! What the source does not have, on the simulated disk.

use icdc_protocol::message::{EntryId, SnapshotTime};
use icdc_session::failure::Failure;
use icdc_session::receiver::book::action::{DirectoryExtras, Extra, ListedExtras, MadeSnapshot};
use icdc_session::receiver::book::item::{DirectoryId, ModificationTime};
use icdc_session::receiver::book::obstacles::Replaced;
use icdc_session::receiver::book::source_names::SourceNames;

use super::super::staging;
use super::{DEVICE, Names};
use crate::disk::{Inode, Kind, Write};
use crate::environment::Environment;
use crate::mutations::Mutation;

impl Names {
    pub(super) fn list_extras(
        &self,
        directory: DirectoryId,
        mut found: DirectoryExtras,
        names: &SourceNames,
        env: &Environment,
    ) -> Result<ListedExtras, Failure> {
        let directory = *self.directories.get(&directory).ok_or("it is not open")?;
        let extra = |(name, inode): (&[u8], Inode)| {
            let is_directory = *env.disk.kind(inode) == Kind::Directory;
            Extra { name: name.to_vec(), device: DEVICE, inode: inode.0, is_directory, replaced_by: None }
        };
        let forgets = env.has(Mutation::SourceNamesAreForgotten);
        let is_extra = |name: &[u8]| !staging::is_staging(name) && (forgets || !names.contains(name));
        found.extras = env.disk.names(directory).filter(|(name, _)| is_extra(name)).map(extra).collect();
        Ok(ListedExtras { found, items: env.disk.names(directory).count() as u64 })
    }
}

/// Those of the items that are still the ones that were listed.
fn there(found: &DirectoryExtras, env: &Environment) -> Vec<(Inode, Vec<u8>, Inode)> {
    let directory = Inode(found.place.inode);
    let still = |extra: &Extra| env.disk.find(directory, &extra.name).filter(|inode| inode.0 == extra.inode);
    found.extras.iter().filter_map(|extra| Some((directory, extra.name.clone(), still(extra)?))).collect()
}

pub(super) fn count_extras(found: &[DirectoryExtras], env: &Environment) -> u64 {
    fn count(inode: Inode, env: &Environment) -> u64 {
        1 + env.disk.names(inode).map(|(_, inner)| count(inner, env)).sum::<u64>()
    }
    found.iter().flat_map(|found| there(found, env)).map(|(_, _, inode)| count(inode, env)).sum()
}

/// Removes an item with everything in it.
pub(super) fn delete(directory: Inode, name: &[u8], inode: Inode, env: &mut Environment) {
    if *env.disk.kind(inode) != Kind::Directory {
        let _ = env.disk.remove(directory, name);
        return;
    }
    let inner: Vec<_> = env.disk.names(inode).map(|(name, inner)| (name.to_vec(), inner)).collect();
    inner.into_iter().for_each(|(name, inner)| delete(inode, &name, inner, env));
    let _ = env.disk.remove_directory(directory, name);
}

impl Names {
    /// Deletes the items, and gives the names of obstacles to what replaces them.
    pub(super) fn delete_extras(
        &mut self,
        found: &[DirectoryExtras],
        env: &mut Environment,
    ) -> (Replaced, Option<Vec<u8>>) {
        let (mut replaced, mut failed) = (Vec::new(), None);
        for found in found {
            let directory = Inode(found.place.inode);
            let before = env.disk.contents(directory).mtime;
            for (_, name, inode) in there(found, env) {
                let is_extra = |extra: &Extra| extra.name == name && extra.replaced_by.is_none();
                if self.options.snapshot.is_some()
                    && found.extras.iter().any(is_extra)
                    && env.random.permille(env.faults.names)
                {
                    failed.get_or_insert(name);
                    continue;
                }
                delete(directory, &name, inode, env);
            }
            for extra in &found.extras {
                if let Some(id) = extra.replaced_by {
                    replaced.push((id, self.replace(id, directory, &extra.name, env)));
                }
            }
            env.disk.write(directory, Write::Mtime(before));
        }
        if !env.has(Mutation::ReplacementsAreNotFlushed) {
            env.disk.sync_filesystem();
        }
        (replaced, failed)
    }

    /// Gives the snapshot its name, or fails.
    pub(super) fn make_snapshot(&mut self, env: &mut Environment) -> Result<MadeSnapshot, Failure> {
        let time = self.options.snapshot.ok_or("none is asked for")?.time;
        if !self.options.dry_run {
            if env.random.permille(env.faults.names) {
                return Err(Failure::full("directory"));
            }
            self.snapshot = (true, true);
        }
        let earlier = [100_000, 90_000].into_iter().filter_map(|ago| SnapshotTime::new(time.seconds() - ago));
        self.snapshot.1 = true;
        Ok(MadeSnapshot { time, all: earlier.collect() })
    }

    fn replace(
        &mut self,
        id: EntryId,
        directory: Inode,
        name: &[u8],
        env: &mut Environment,
    ) -> Result<Option<ModificationTime>, Failure> {
        let made = self.made.get(&id).cloned();
        let staging = made.as_ref().map(|made| made.staging.clone()).or_else(|| self.aside.remove(&id));
        let staging = staging.ok_or("is not staged")?;
        env.disk.rename(directory, &staging, name).map_err(|error| Failure::from(format!("{error:?}")))?;
        Ok(made.map(|made| self.named(id, made, env)))
    }
}
