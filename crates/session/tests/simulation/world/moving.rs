//! Items of a move: removed at the source, which everybody may rely on from then on.

use icdc_session::sender::Removed;

use super::World;
use super::checks::look_up;
use crate::audit::{Path, show};
use crate::environment::SessionId;
use crate::sender::reader::look;
use crate::sender::scan::What;
use crate::sender::{Removing, SenderEnd};

impl World {
    /// Removes what a sender is to remove at the source. A file must be durable at the destination, and stays there.
    pub(super) fn remove_moved(&mut self, session: SessionId) {
        while let Some(removing) = self.sessions[session].sender.removals.pop_front() {
            let outcome = match &removing {
                Removing::Item(id) | Removing::AtEnd(id, _) => self.remove_item(session, *id),
                Removing::Untold(id) => {
                    self.remove_item(session, *id);
                    continue;
                }
                Removing::Directory(_) | Removing::Rest => Removed::Gone,
            };
            let found = &mut self.sessions[session];
            found.sender.removed(removing, outcome, &mut self.env, &mut found.connections);
        }
    }

    fn remove_item(&mut self, session: SessionId, id: u32) -> Removed {
        let found = &self.sessions[session];
        let SenderEnd { scan, .. } = &found.sender;
        let announced = &scan.announced[&id];
        if announced.what == What::File && look(&self.source, announced) != announced.file.as_ref() {
            return Removed::Failed("changed".into());
        }
        let landed = found.landed.clone().or_else(|| found.receiver.as_ref()?.names.landed());
        let Some(landed) = landed.filter(|_| !found.forged && !self.env.forged) else { return Removed::Gone };
        let path: Path = landed[announced.place.root].iter().chain(&announced.place.path).cloned().collect();
        let revision = match (&announced.what, &announced.file) {
            (What::File, Some(file)) => file.revision,
            (What::Link { revision }, _) => *revision,
            _ => return Removed::Gone,
        };
        let there = look_up(&self.env.disk, &path);
        let durable = there.map(|inode| self.env.audit.revision_of(self.env.disk.durable(inode)));
        if durable != Some(Ok(revision)) {
            let shown = show(&path);
            self.env.violate(format!("{shown} was removed at the source and is not durable at the destination"));
        }
        self.env.audit.promise(path, revision);
        Removed::Gone
    }
}
