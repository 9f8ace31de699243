//! What must hold in a world.

use std::collections::BTreeMap;

use icdc_protocol::message::RefusalKind;
use icdc_session::SessionError;

use super::{Session, World};
use crate::audit::{Path, is_like, show};
use crate::disk::{Disk, Inode, Kind};
use crate::environment::SessionId;
use crate::receiver::staging;
use crate::sender::scan::What;

impl World {
    /// The ends understand each other, and where nothing befalls neither is left without a reason.
    pub(super) fn check_reason(&mut self, session: SessionId, outcome: &Result<(), SessionError>) {
        let is_broken = match outcome {
            Err(SessionError::Protocol(_)) => true,
            Err(SessionError::Refused(refusal)) => refusal.kind == RefusalKind::Protocol,
            _ => false,
        };
        if is_broken {
            self.env.violate(format!("the ends do not understand each other: {outcome:?}"));
        }
        if matches!(outcome, Err(SessionError::Cut(_))) && !self.sessions[session].disturbed {
            self.env.violate(format!("an end of {session} has not learned why the other one went: {outcome:?}"));
        }
    }

    /// The run's journal may go only when the sender knows that everything is done.
    pub(super) fn check_put_away(&mut self, session: SessionId) {
        if !self.sessions[session].sender.machine().is_over() {
            self.env.violate(format!(
                "{session} puts the run's journal away, and the sender does not know that all is done"
            ));
        }
    }

    /// Everything that was announced is at the destination as it was announced.
    pub(super) fn check_copied(&mut self, session: SessionId) {
        let found = &self.sessions[session];
        let landed = found.landed.clone().or_else(|| found.receiver.as_ref()?.names.landed());
        let Some(landed) = landed else {
            return self.env.violate(format!("{session} has copied everything to nowhere"));
        };
        let mut problem = None;
        let mut promises = Vec::new();
        // What is announced later may replace what came before.
        let mut last = BTreeMap::new();
        for announced in found.sender.scan.announced.values() {
            let path: Path = landed[announced.place.root].iter().chain(&announced.place.path).cloned().collect();
            last.insert(path, announced);
        }
        for (path, announced) in last {
            let found = look_up(&self.env.disk, &path);
            let is_right = match (&announced.what, found.map(|inode| (inode, self.env.disk.kind(inode)))) {
                (What::File, Some((inode, Kind::File))) => {
                    let file = announced.file.as_ref();
                    promises.extend(file.map(|file| (path.clone(), file.revision)));
                    file.is_some_and(|file| {
                        let contents = self.env.disk.contents(inode);
                        is_like(file, contents) && contents.mtime.0 == file.mtime()
                    })
                }
                (What::Link { revision }, Some((inode, Kind::File))) => {
                    self.env.audit.revision_of(self.env.disk.contents(inode)) == Ok(*revision)
                }
                (What::Directory { .. }, Some((_, Kind::Directory))) => true,
                (What::Symlink { target }, Some((_, Kind::Symlink(found)))) => found == target,
                _ => false,
            };
            if !is_right {
                problem.get_or_insert(format!("{} was copied and is not what was announced", show(&path)));
            }
        }
        promises.into_iter().for_each(|(path, revision)| self.env.audit.promise(path, revision));
        if let Some(problem) = problem
            && !self.env.audit.may_have_lost()
        {
            self.env.violate(problem);
        }
    }

    /// All is quiet.
    pub(super) fn check_end(&mut self) {
        if self.copies_left > 0 {
            let session = self.command.as_ref().and_then(|command| command.session);
            return self
                .env
                .violate(format!("nothing happens any more, and the copy is not done (session {session:?})"));
        }
        if let Some(session) = self.sessions.iter().position(|session| session.receiver.is_some()) {
            return self.env.violate(format!("nothing happens any more, and the receiver of {session} has not ended"));
        }
        if let Some(session) = self.sessions.iter().position(Session::still_sends) {
            return self.env.violate(format!("nothing happens any more, and the sender of {session} has not ended"));
        }
        if let Err(what) = self.env.audit.check_tree(&self.env.disk) {
            return self.env.violate(format!("in the end {what}"));
        }
        if self.plan.incidents.is_empty()
            && !self.env.faults.any()
            && let Some(problem) = self.copied_by.and_then(|session| self.wrong_time(session))
        {
            return self.env.violate(problem);
        }
        if self.plan.incidents.is_empty()
            && let Some(left) = left_behind(&self.env.disk, self.env.disk.root(), &mut Vec::new())
        {
            self.env.violate(format!("{left} was left behind"));
        }
    }

    /// A directory that does not have its time, when nothing has befallen.
    fn wrong_time(&self, session: SessionId) -> Option<String> {
        let Session { landed, sender, .. } = &self.sessions[session];
        let landed = landed.as_ref()?;
        sender.scan.announced.values().find_map(|announced| {
            let What::Directory { mtime } = announced.what else { return None };
            let path: Path = landed[announced.place.root].iter().chain(&announced.place.path).cloned().collect();
            let found = self.env.disk.contents(look_up(&self.env.disk, &path)?).mtime;
            (found != (mtime, 0)).then(|| format!("{} has the time {found:?}", show(&path)))
        })
    }
}

fn look_up(disk: &Disk, path: &Path) -> Option<Inode> {
    path.iter().try_fold(disk.root(), |directory, name| disk.find(directory, name))
}

/// Something unfinished that is still there.
fn left_behind(disk: &Disk, directory: Inode, path: &mut Path) -> Option<String> {
    for (name, inode) in disk.names(directory) {
        path.push(name.to_vec());
        if staging::is_staging(name) {
            return Some(show(path));
        }
        if *disk.kind(inode) == Kind::Directory
            && let Some(found) = left_behind(disk, inode, path)
        {
            return Some(found);
        }
        path.pop();
    }
    None
}
