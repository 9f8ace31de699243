//! How a large file is opened: the lock of what lies there, and the files that are made in its place.

use icdc_protocol::limits::BLOCK_SIZE;
use icdc_session::failure::Failure;
use icdc_session::receiver::files::Opened;

use super::{Claimed, Data, OpenFile, Plan, discard};
use crate::disk::{Holder, Inode};
use crate::environment::Environment;
use crate::mutations::Mutation;
use crate::receiver::file_journal::FileJournal;
use crate::receiver::staging::{self, Claim};

impl Data {
    /// Makes or reopens the files of the item whose open is next, unless their lock has to be waited for.
    pub(super) fn try_open(&mut self, env: &mut Environment, is_hung_up: bool) {
        let Some(waiting) = &mut self.waiting else { return };
        let id = waiting.id;
        let Some(plan) = self.planned.get(&id) else {
            self.waiting = None;
            return env.violate(format!("opens file {id}, which nobody expects"));
        };
        let outcome = if let Some(Claimed { part, journal, has_waited }) = plan.claimed.clone() {
            Ok((part, Some(journal), has_waited))
        } else {
            match staging::claim(&mut env.disk, plan.directory, &staging::part(&plan.name), self.holder) {
                Claim::Busy if env.agenda.now() < waiting.until => {
                    waiting.has_waited = true;
                    return;
                }
                Claim::Busy => Err(Failure::from("another copy is writing it; wait for its end or stop it")),
                // It may be a newer run's, which goes on from it.
                Claim::Taken(inode) if is_hung_up && !env.has(Mutation::OldSessionWakes) => {
                    env.disk.unlock(inode, self.holder);
                    Err(Failure::Passing("the sender has gone".into()))
                }
                left if env.random.permille(env.faults.names) => {
                    if let Claim::Taken(inode) = left {
                        env.disk.unlock(inode, self.holder);
                    }
                    Err(Failure::full("part"))
                }
                left => Ok(make(env, plan, left, self.holder, waiting.has_waited)),
            }
        };
        self.waiting = None;
        let Some(plan) = self.planned.remove(&id) else { return };
        let outcome = match outcome {
            Ok((part, journal, has_waited)) => {
                let journaled = journal.is_some();
                // Who has gone may have been followed by a newer run, even where no lock tells of it.
                let is_old = (has_waited || is_hung_up) && !env.has(Mutation::OldSessionWakes);
                let is_changed = env.disk.occupant(plan.directory, &plan.name) != plan.found;
                let needs_sender = is_old || is_changed && !env.takes_any_for_found();
                self.open.insert(id, OpenFile { plan, part, journal });
                Ok(Opened { journaled, needs_sender })
            }
            Err(failure) => {
                self.arrived.remove(&id);
                Err(failure)
            }
        };
        env.note(format_args!("{} data opened {id}: {outcome:?}", self.holder));
        self.files.on_opened(id, outcome);
    }
}

/// Makes the files of an item in place of what an earlier run left.
fn make(
    env: &mut Environment,
    plan: &Plan,
    left: Claim,
    holder: Holder,
    has_waited: bool,
) -> (Inode, Option<FileJournal>, bool) {
    if env.audit.noted_of(&plan.unfinished) != plan.noted {
        // Another session has been faster since this one has looked, and has gone.
        env.audit.is_gone(&plan.unfinished);
    }
    discard(env, plan);
    let part = env.disk.create(plan.directory, &staging::part(&plan.name)).expect("the name is free");
    env.disk.lock(part, holder);
    if let Claim::Taken(inode) = left {
        env.disk.unlock(inode, holder);
    }
    let journal = (plan.header.size > BLOCK_SIZE as u64).then(|| {
        let blocks = env.disk.create(plan.directory, &staging::blocks(&plan.name)).expect("the name is free");
        FileJournal::begin(&mut env.disk, blocks, &plan.header)
    });
    (part, journal, has_waited)
}
