//! Where the sources of a run land, and how it begins.

use icdc_protocol::message::{Begin, Message, ReceiptPart, SourceKind};
use icdc_protocol::receipt::facts::Facts;
use icdc_session::SessionError;
use icdc_session::failure::Failure;
use icdc_session::receiver::book::action::{Action, NewDirectory, NotBegun, Target};
use icdc_session::receiver::book::item::{DirectoryId, DirectoryPlace};

use super::making::{obstacle_at, place_of};
use super::{DESTINATION, DEVICE, Done, Names, Placement};
use crate::disk::{Disk, Inode, Kind};
use crate::environment::Environment;
use crate::mutations::Mutation;
use crate::receiver::run_log::RunLog;
use crate::receiver::staging;

impl Names {
    /// What is told at the beginning of a receipt, the first time; `None` if none is made.
    pub(super) fn begin_receipt(&mut self) -> Option<Message> {
        let placement = self.placement.as_ref().filter(|_| self.options.receipt && !self.has_begun_receipt)?;
        self.has_begun_receipt = true;
        let facts = Facts::of_head().with("directory", "/").into_head();
        let name = placement.inside.is_none().then(|| DESTINATION.to_vec());
        Some(Message::Receipt(ReceiptPart::Begun { facts, name }))
    }

    pub(super) fn begin_run(&mut self, has_waited: bool, patient: bool, env: &mut Environment) -> Done {
        let Some(placement) = self.placement.clone() else {
            env.violate("a run begins that was not placed".into());
            return Done::Through;
        };
        let is_run = is_run(&placement.begin) && !self.options.dry_run;
        let root = env.disk.root();
        let inside = match placement.inside {
            Some(None) if self.options.dry_run => {
                self.book.on_begun(Ok(vec![Target::Imagined; placement.begin.sources.len()]));
                return Done::Through;
            }
            Some(None) => match env.disk.make_directory(root, DESTINATION) {
                Ok(made) => {
                    if !env.has(Mutation::DestinationIsNotFlushed) {
                        let mark = env.disk.begin_sync();
                        env.disk.synced(root, mark);
                    }
                    Some(made)
                }
                Err(error) => {
                    let failure = SessionError::Local(format!("{error:?}"));
                    self.book.on_begun(Err(NotBegun::Failed(failure)));
                    return Done::Through;
                }
            },
            Some(Some(there)) => Some(there),
            None => None,
        };
        let (base, target) = inside.map_or((root, Some(DESTINATION)), |inside| (inside, None));
        if is_run {
            let mut run = match self.run.take() {
                Some(run) => run,
                None => {
                    let id = (&placement.begin.job, target, &self.transfer);
                    match RunLog::find(&mut env.disk, base, id, self.options.resume, self.holder) {
                        Some(run) => run,
                        None if patient => return Done::Waits(Box::new(Action::BeginRun)),
                        None => {
                            let failure = SessionError::Local("another copy is writing it".into());
                            self.book.on_begun(Err(NotBegun::Failed(failure)));
                            return Done::Through;
                        }
                    }
                }
            };
            if has_waited || run.is_overtaken(&env.disk) {
                // What it has found before is out of date.
                if !has_waited {
                    return Done::Waits(Box::new(Action::BeginRun));
                }
                let resuming = run.resuming;
                self.run = Some(run);
                self.book.on_begun(Err(NotBegun::HasWaited { resuming }));
                return Done::Through;
            }
            run.begin(&mut env.disk, self.transfer, self.holder);
            self.run = Some(run);
        }
        let mut targets = Vec::new();
        for (number, source) in placement.begin.sources.iter().enumerate() {
            let id = DirectoryId::Source(number as u32);
            let directory = inside.unwrap_or(root);
            self.directories.insert(id, directory);
            let path = if inside.is_some() { vec![DESTINATION.to_vec()] } else { Vec::new() };
            self.paths.insert(directory, path);
            let place = DirectoryPlace { device: DEVICE, inode: directory.0 };
            targets.push(match (inside, source.kind) {
                (Some(_), SourceKind::Contents) => Target::Contents(place),
                (Some(_), _) => Target::Named { directory: place, name: source.name.clone() },
                (None, _) => Target::Named { directory: place, name: DESTINATION.to_vec() },
            });
        }
        self.book.on_begun(Ok(targets));
        Done::Through
    }

    /// The directory that is there, for a dry run; `None` if there is none.
    pub(super) fn look(&mut self, wanted: &NewDirectory, env: &Environment) -> Option<DirectoryPlace> {
        let above = *self.directories.get(&wanted.parent)?;
        let inode = match &wanted.name {
            None => above,
            Some(name) => env.disk.find(above, name).filter(|found| *env.disk.kind(*found) == Kind::Directory)?,
        };
        self.directories.insert(DirectoryId::Entry(wanted.id), inode);
        Some(DirectoryPlace { device: DEVICE, inode: inode.0 })
    }

    pub(super) fn make_directory(
        &mut self,
        wanted: &NewDirectory,
        env: &mut Environment,
    ) -> Result<DirectoryPlace, Failure> {
        let above = self.directories.get(&wanted.parent).copied();
        let above = above.ok_or_else(|| Failure::from("its directory is not open"))?;
        let inode = match &wanted.name {
            None => above,
            Some(_) if env.random.permille(env.faults.names) => return Err(Failure::full("directory")),
            Some(name) => {
                let mut under = name.clone();
                if let Some(obstacle) = obstacle_at(above, name, |kind| *kind != Kind::Directory, env)
                    && self.book.on_obstacle(wanted.id, place_of(above), obstacle)
                {
                    under = staging::part(name);
                    if env.disk.find(above, &under).is_some_and(|left| *env.disk.kind(left) != Kind::Directory) {
                        let _ = env.disk.remove(above, &under);
                    }
                    self.aside.insert(wanted.id, under.clone());
                }
                let made = env.disk.make_directory(above, &under);
                let made = made.map_err(|error| Failure::from(format!("cannot be made: {error:?}")))?;
                let mut path = self.paths.get(&above).cloned().unwrap_or_default();
                path.push(name.clone());
                self.paths.insert(made, path);
                made
            }
        };
        self.directories.insert(DirectoryId::Entry(wanted.id), inode);
        Ok(DirectoryPlace { device: DEVICE, inode: inode.0 })
    }
}

fn is_run(begin: &Begin) -> bool {
    begin.sources.len() > 1 || begin.sources.iter().any(|source| source.kind != SourceKind::Item)
}

pub(super) fn place(disk: &Disk, begin: &Begin) -> Placement {
    let root = disk.root();
    let single = begin.sources.len() == 1;
    let contents = begin.sources.iter().any(|source| source.kind == SourceKind::Contents);
    let continues_here = single
        && begin.sources[0].kind == SourceKind::Directory
        && RunLog::is_there(disk, root, &begin.job, Some(DESTINATION));
    let existing = disk.find(root, DESTINATION).filter(|found| *disk.kind(*found) == Kind::Directory);
    let inside = match existing.filter(|_| !continues_here) {
        Some(directory) => Some(Some(directory)),
        None if contents || !single => Some(existing),
        None => None,
    };
    Placement { inside, begin: begin.clone() }
}

/// The directory that holds the first target, if it is there, and the name of the target if that is DST itself.
pub(super) fn base_of(disk: &Disk, placement: &Placement) -> Option<(Inode, Option<&'static [u8]>)> {
    match placement.inside {
        None => Some((disk.root(), Some(DESTINATION))),
        Some(inside) => inside.map(|inside| (inside, None)),
    }
}
