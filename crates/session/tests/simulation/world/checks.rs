//! What must hold in a world.

use std::collections::BTreeMap;

use icdc_protocol::message::RefusalKind;
use icdc_session::SessionError;
use icdc_session::weight::Pending;
use icdc_units::ByteCount;

use super::{Session, World};
use crate::audit::{Path, is_like, show};
use crate::disk::{Disk, Inode, Kind};
use crate::environment::SessionId;
use crate::older;
use crate::receiver::staging;
use crate::sender::scan::{Announced, What};

/// Items that the sender has given up, whose ends are on their way to the book.
const GIVEN_UP: usize = 16;
/// Bytes of the longest path.
const HEAVIEST: u64 = 64;

impl World {
    /// The ends understand each other, and where nothing befalls neither is left without a reason.
    pub(super) fn check_reason(&mut self, session: SessionId, outcome: &Result<(), SessionError>) {
        if self.sessions[session].forged {
            return;
        }
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
        let Session { sender, forged, .. } = &self.sessions[session];
        if !sender.machine().is_over() && !forged {
            self.env.violate(format!(
                "{session} puts the run's journal away, and the sender does not know that all is done"
            ));
        }
    }

    /// Neither end keeps more than it may.
    pub(super) fn check_memory(&mut self, session: SessionId) {
        let Session { sender, receiver, forged, .. } = &self.sessions[session];
        if *forged {
            return;
        }
        let (window, backlog) = (self.plan.window, sender.machine().backlog());
        self.most_announced = self.most_announced.max(backlog.items);
        let bytes = |directories: usize| window.bytes + ByteCount::new(HEAVIEST * (1 + directories as u64));
        let mut problem = None;
        if backlog.items > window.items || backlog.bytes > bytes(0) {
            problem = Some(format!("the sender keeps {backlog:?} of a window of {window:?}"));
        }
        if let Some(receiver) = receiver {
            let backlog = receiver.names.book.backlog();
            if backlog.items > window.items + GIVEN_UP || backlog.bytes > bytes(backlog.directories + GIVEN_UP) {
                problem = Some(format!("the book keeps {backlog:?} of a window of {window:?}"));
            }
            if receiver.is_overfull() {
                problem = Some("more blocks have arrived than the ring has".into());
            }
        }
        if let Some(problem) = problem {
            self.env.violate(format!("{session}: {problem}"));
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
        let extra = if self.plan.deletes { self.extra(&last) } else { None };
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
        let extra = extra.map(|path| format!("{} is not at the source, and was not deleted", show(&path)));
        if let Some(problem) = problem.or(extra) {
            self.env.violate(problem);
        }
    }

    /// A snapshot is made only of what was copied completely, and has nothing else in it.
    pub(super) fn check_snapshot(&mut self, session: SessionId) {
        let Session { sender, receiver: Some(receiver), forged: false, .. } = &self.sessions[session] else { return };
        let failed = receiver.names.failed() + sender.machine().counts().failed;
        if failed > 0 {
            return self.env.violate(format!("{session} makes a snapshot, and {failed} items have failed"));
        }
        self.check_copied(session);
    }

    /// An item in one of the directories that were announced that was not announced itself.
    fn extra(&self, announced: &BTreeMap<Path, &Announced>) -> Option<Path> {
        let directories = announced.iter().filter(|(_, announced)| matches!(announced.what, What::Directory { .. }));
        directories.into_iter().find_map(|(path, _)| {
            let directory = look_up(&self.env.disk, path)?;
            let names = self.env.disk.names(directory).map(|(name, _)| name).filter(|name| !staging::is_staging(name));
            let mut paths = names.map(|name| [path.as_slice(), &[name.to_vec()]].concat());
            paths.find(|path| !announced.contains_key(path))
        })
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
        if older::state(&self.env.disk) != self.older {
            return self.env.violate("the older copy was changed".into());
        }
        if self.plan.incidents.is_empty()
            && !self.env.faults.any()
            // The journal of a snapshot is elsewhere, and would change no time.
            && !self.plan.snapshots
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

/// What a receiver whose session went well has in mind nevertheless, or has not told.
pub(super) fn left_in_mind(session: &Session, outcome: &Result<(), SessionError>) -> Option<String> {
    let Session { receiver: Some(receiver), sender, forged: false, .. } = session else { return None };
    if outcome.is_err() {
        return None;
    }
    let backlog = receiver.names.book.backlog();
    if backlog != Pending::default() {
        return Some(format!("the book keeps {backlog:?} of a session that is complete"));
    }
    let backlog = sender.machine().backlog();
    if sender.machine().is_settled() && backlog != Pending::default() {
        return Some(format!("the sender keeps {backlog:?} of a session that is complete"));
    }
    // Of what has failed, nobody sends what got lost.
    if receiver.filling() > 0 && receiver.names.failed() + sender.machine().counts().failed == 0 {
        return Some(format!("{} blocks of a session that is complete wait for parts", receiver.filling()));
    }
    let items = sender.scan.announced.values().filter(|item| !matches!(item.what, What::Directory { .. })).count();
    let told = receiver.names.looked_at() + receiver.names.failed();
    (session.is_dry && told != items as u64).then(|| format!("of {items} items a dry run tells {told}"))
}

pub(super) fn look_up(disk: &Disk, path: &Path) -> Option<Inode> {
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
