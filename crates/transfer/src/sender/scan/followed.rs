//! Scan of settled items in followed sources: batches of names, each announced by a walk along the list of them
//! from the source's root, until the following ends.

use std::sync::Arc;

use icdc_disk::tree::Stat;
use icdc_protocol::Features;
use icdc_session::SessionError;

use super::super::growing_file::{GrowingFile, Phase};
use super::super::listed::Listed;
use super::super::settled::{Next, Queue, Settled};
use super::super::sources::Root;
use super::batch::Following;
use super::children::{Children, Extent};
use super::{Level, Scan};
use crate::sender::source_version::version_of;

impl Scan<'_> {
    /// Announces what settles in the sources, until the following or the session ends.
    pub(in crate::sender) fn follow(mut self, roots: &[(u32, Root)], queue: &Arc<Queue>) {
        let over = self.executor.over.channel();
        loop {
            let (tree, batch) = match queue.next(over) {
                Ok(Next::Announce(tree, batch)) => (tree, batch),
                Ok(Next::End) => break,
                Ok(Next::Over) => return,
                Err(reason) => return self.executor.fail(SessionError::Local(reason)),
            };
            let root = roots.iter().find(|(number, _)| *number == tree);
            let names: Vec<_> = batch.iter().map(|(name, _)| name.clone()).filter(|name| !name.is_empty()).collect();
            self.listed = Some(Listed::given(names));
            let (queue, batch) = (Arc::clone(queue), batch.into_iter().collect());
            self.following = Some(Following { queue, batch, above_source: 0 });
            let done = root.map_or(Some(()), |(number, root)| self.announce_settled(*number, root));
            if let Some(Following { queue, batch, .. }) = self.following.take() {
                if done.is_none() {
                    return queue.give_back(batch.into_values().collect());
                }
                // Whatever is gone is found again where it is now; problems are told.
                batch.into_values().for_each(|settled| queue.left_alone(settled));
            }
        }
        self.end();
    }

    /// Announces the items of the batch, which are beneath this source. `None` when the session is over.
    fn announce_settled(&mut self, number: u32, root: &Root) -> Option<()> {
        if let Some(moving) = &mut self.moving {
            moving.root = Some((root.directory.clone(), root.name.clone()));
        }
        (self.above_root, self.device, self.source) = (root.above_transfer_root(), root.stat.dev, number);
        self.source_is_contents = root.name.is_none();
        let path = root.source.name.clone();
        if let Some(following) = &mut self.following {
            following.above_source = if path.is_empty() { 0 } else { path.len() + 1 };
        }
        let inner = match &root.name {
            None => Ok(root.directory.clone()),
            Some(name) => root.directory.open_directory(name),
        };
        let opened = inner.and_then(|inner| Ok((inner.own_stat()?, inner)));
        match opened {
            Ok((stat, inner)) => self.enter(inner, path, &stat, Extent::Listed),
            Err(error) => self.fail(path, error.to_string()),
        }
    }

    /// Takes the item at this path, which is about to be announced, out of the batch of settled
    /// items; `None` if it is not in it.
    pub(super) fn take_followed(&mut self, path: &[u8]) -> Option<Box<Settled>> {
        let following = self.following.as_mut()?;
        Some(Box::new(following.batch.remove(path.get(following.above_source..)?)?))
    }

    /// Whether the file at this path is no more what has settled: it is not announced, and settles again.
    pub(super) fn settles_again(&mut self, path: &[u8], stat: &Stat) -> bool {
        let Some(following) = &mut self.following else { return false };
        let Some(listed) = path.get(following.above_source..) else { return false };
        let now = version_of(stat);
        let changed = following.batch.get(listed).is_some_and(|settled| settled.version != now);
        if changed && let Some(settled) = following.batch.remove(listed) {
            following.queue.outdated(Settled { version: now, ..settled });
        }
        changed
    }

    /// The file at this path, if it is one that is to travel while it grows.
    pub(super) fn growing_at(&self, path: &[u8]) -> Option<Arc<GrowingFile>> {
        let following = self.following.as_ref()?;
        following.batch.get(path.get(following.above_source..)?)?.growing.clone()
    }

    /// Whether a file is to be announced as one that grows: it still has its name, and the receiver takes such files.
    pub(super) fn may_grow(&self, file: &GrowingFile, stat: &Stat) -> bool {
        file.is(stat) && file.phase() != Phase::Abandoned && self.executor.peer_has(Features::STREAMS)
    }

    /// Takes the directory that was just announced out of the batch, if it is in it.
    pub(super) fn note_followed_directory(&mut self, levels: &[Level]) {
        let (Some(following), Some(level)) = (&mut self.following, levels.last()) else { return };
        let Children::Named { above } = &level.children else { return };
        if let Some(settled) = following.batch.remove(above) {
            following.queue.directory_announced(settled);
        }
    }
}
