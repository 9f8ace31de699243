//! What the book asks for is carried out.

use icdc_protocol::block_map::BlockMap;
use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::{EntryId, EntryKind, Message, ReceiptPart, SnapshotNews};
use icdc_protocol::receipt::facts::Facts;
use icdc_session::SessionError;
use icdc_session::failure::Failure;
use icdc_session::receiver::book::action::{Action, Basis, Notification, Placed, ReferencePlace};
use icdc_session::receiver::book::resume::verdict::Verdict;
use icdc_session::receiver::files::{Expected, Length};
use icdc_units::ByteCount;

use super::extras::count_extras;
use super::facts::Known;
use super::placing::{base_of, place};
use super::{Contents, Done, Existing, Names, Report, header_of, revision_of};
use crate::audit::Unfinished;
use crate::disk::Inode;
use crate::environment::Environment;
use crate::mutations::Mutation;
use crate::older;
use crate::receiver::data::Plan;
use crate::receiver::run_log::RunLog;
use crate::receiver::staging;

impl Names {
    /// The process is killed: of what it was at, a part may be done.
    pub(crate) fn kill(mut self, env: &mut Environment) {
        if self.waiting.is_some() {
            // It was waiting for a lock, and nothing behind that has begun.
            return;
        }
        let Some(action) = self.book.poll() else { return };
        let mut some = |count: usize| env.random.below(count as u64 + 1) as usize;
        let begun = match action {
            Action::MakeDirectories(mut all) => {
                all.truncate(some(all.len()));
                Action::MakeDirectories(all)
            }
            Action::Stage { mut pieces, payload } => {
                pieces.truncate(some(pieces.len()));
                Action::Stage { pieces, payload }
            }
            Action::Rename(mut all) => {
                all.truncate(some(all.len()));
                Action::Rename(all)
            }
            Action::NotePublished(mut all) => {
                all.truncate(some(all.len()));
                Action::NotePublished(all)
            }
            Action::RemoveJournals(mut all) => {
                all.truncate(some(all.len()));
                Action::RemoveJournals(all)
            }
            Action::PutAway { .. } if some(1) == 1 => Action::PutAway { contents: None },
            _ => return,
        };
        env.note(format_args!("{} names was at {begun:?}", self.holder));
        self.carry_out(begun, false, false, false, env, &mut Vec::new());
    }

    pub(super) fn carry_out(
        &mut self,
        action: Action<Contents>,
        has_waited: bool,
        patient: bool,
        is_hung_up: bool,
        env: &mut Environment,
        reports: &mut Vec<Report>,
    ) -> Done {
        let now = env.agenda.now();
        let busy = || SessionError::Local("another copy is writing it; wait for its end or stop it".into());
        match action {
            Action::Place { begin, is_journaled } => {
                let placement = place(&env.disk, &begin);
                let base = base_of(&env.disk, &placement);
                let mut resuming = false;
                if let (true, Some((base, target))) = (is_journaled, base) {
                    let id = (&begin.job, target, &self.transfer);
                    match RunLog::find(&mut env.disk, base, id, self.options.resume, self.holder) {
                        Some(run) => {
                            resuming = run.resuming;
                            self.run = Some(run);
                        }
                        None if patient => return Done::Waits(Box::new(Action::Place { begin, is_journaled })),
                        None => {
                            self.book.on_placed(Err(busy()));
                            return Done::Through;
                        }
                    }
                }
                self.placement = Some(placement);
                let forgets = env.has(Mutation::OldSessionWakes);
                let (has_waited, peer_is_gone) = (has_waited && !forgets, is_hung_up && !forgets);
                self.book.on_placed(Ok(Placed { resuming, has_waited, peer_is_gone }));
            }
            Action::BeginRun => {
                reports.extend(self.begin_receipt().map(|message| Report::Reply(Box::new(message))));
                return self.begin_run(has_waited, patient, env);
            }
            Action::AddToReceipt(_) if env.has(Mutation::LinesAreLost) => {}
            Action::AddToReceipt(lines) => drop(self.receipt.update(&lines)),
            Action::EndReceipt(outcome) => {
                let part = match outcome {
                    Ok(_) => ReceiptPart::Signed {
                        facts: Facts::of_foot().with("items", "0").into_foot(),
                        key: *self.receipt.finalize().as_bytes(),
                        signature: [[0; 32]; 2],
                    },
                    Err(reason) => ReceiptPart::Refused(reason),
                };
                reports.push(Report::Reply(Box::new(Message::Receipt(part))));
            }
            Action::MakeDirectories(wanted) if self.options.dry_run => {
                let found = wanted.iter().map(|wanted| (wanted.id, Ok(self.look(wanted, env)))).collect();
                self.book.on_directories_made(found);
            }
            Action::MakeDirectories(wanted) => {
                let made =
                    wanted.iter().map(|wanted| (wanted.id, self.make_directory(wanted, env).map(Some))).collect();
                self.book.on_directories_made(made);
            }
            Action::Examine(items) => {
                if patient && items.iter().any(|item| self.is_part_busy(item.id, env)) {
                    return Done::Waits(Box::new(Action::Examine(items)));
                }
                let mut verdicts = Vec::new();
                for item in &items {
                    if let (None, Some((directory, name))) = (&self.run, self.place_of(item.id)) {
                        self.found = env.disk.occupant(directory, &name);
                    }
                    let mut facts = self.facts(item.id, has_waited, env);
                    let verdict = self.book.decide(*item, &mut facts);
                    let (claimed, choices) = (facts.claimed, facts.choices.unwrap_or_default());
                    if let Some(claimed) = claimed {
                        self.claimed.insert(item.id, claimed);
                    }
                    if verdict == Ok(Verdict::Skip { amend: false })
                        && let Some((directory, name)) = self.place_of(item.id)
                    {
                        self.left_firsts.extend(env.disk.find(directory, &name).map(|inode| (item.id, inode)));
                    }
                    if let Ok(Verdict::Candidates(_)) = &verdict {
                        self.renames.keep(item.id, choices);
                    }
                    verdicts.push((item.id, verdict));
                }
                self.book.on_examined(verdicts);
            }
            Action::Amend(ids) => {
                let amended = ids.into_iter().map(|id| (id, self.amend(id, env))).collect();
                self.book.on_amended(amended);
            }
            Action::NoteStaged { id, path } => {
                if let Some(run) = &mut self.run {
                    if env.random.permille(env.faults.write) {
                        self.book.on_lost(now, id, Failure::full("journal"));
                    } else {
                        run.staged(&path);
                        run.write(&mut env.disk);
                    }
                }
            }
            Action::Expect { id, held, basis } => {
                let existing = basis.and_then(|basis| self.existing(id, basis, env));
                self.expect((id, held, existing), env, reports);
            }
            Action::Describe(id) => reports.push(Report::Describe(id)),
            Action::DescribeChunks(id) => reports.push(Report::DescribeChunks(id)),
            Action::Compare { id, digest } | Action::CompareExisting { id, digest } => {
                let inode = self.place_of(id).and_then(|(directory, name)| env.disk.find(directory, &name));
                reports.push(Report::Compare { id, inode, digest });
            }
            Action::TakeReference { id, reference } => {
                let taken = self.take_reference(id, reference, env);
                self.book.on_reference_taken(now, id, taken);
            }
            Action::FindCandidates(roots) => self.find_candidates(roots, env),
            Action::CompareCandidate { id, number, digest } => {
                let report = self.compare_candidate((id, number), digest, env);
                reports.extend(report);
            }
            Action::TakeCandidate { id, number } => {
                let taken = self.take_candidate((id, number), env);
                self.book.on_reference_taken(now, id, taken);
            }
            Action::Stage { pieces, payload } => {
                let staged = pieces.iter().map(|piece| (piece.id, self.stage(piece, &payload, env))).collect();
                self.book.on_staged(staged);
            }
            Action::MakeSymlink(id) => {
                let outcome = self.make_symlink(id, env);
                self.book.on_link_made(id, outcome);
            }
            // No sender of the simulation announces one.
            Action::MakeSpecial(id) => self.book.on_link_made(id, Err("there are none".into())),
            Action::MakeLink { id, first } => {
                let to = self.book.item(id).and_then(|item| match item.entry.kind {
                    EntryKind::HardLink { to, .. } => Some(to),
                    _ => None,
                });
                // It may wait until what has its name is deleted.
                let made = to.and_then(|to| self.made.get(&to)).map(|made| made.inode);
                let from = self.directories.get(&first.directory).copied();
                let from = made.or_else(|| env.disk.find(from?, &first.name));
                let outcome = self.make_link(id, from, env);
                self.book.on_link_made(id, outcome);
            }
            Action::Flush(_) => {
                let outcome = if env.random.permille(env.faults.sync) {
                    Err(Failure::Passing("input/output error".into()))
                } else {
                    if !env.has(Mutation::FlushDoesNothing) {
                        env.disk.sync_filesystem();
                    }
                    Ok(())
                };
                self.book.on_flushed(outcome);
            }
            Action::Rename(items) => {
                let outcomes = items.iter().map(|item| (item.id, self.rename(item, is_hung_up, env))).collect();
                self.book.on_renamed(outcomes);
            }
            Action::FlushNames(names) => {
                let outcome = self.flush_names(&names, env);
                self.book.on_names_flushed(outcome);
            }
            Action::NotePublished(published) => self.note_published(&published, env),
            Action::RemoveJournals(ids) => {
                for id in ids {
                    if let Some(made) = self.made.remove(&id) {
                        if env.disk.find(made.directory, &made.staging).is_none() {
                            let _ = env.disk.remove(made.directory, &staging::blocks(&made.name));
                        }
                        env.disk.unlock(made.inode, self.holder);
                    }
                }
            }
            Action::RemoveLeft { .. } if env.has(Mutation::LeftJournalsStay) => {}
            Action::RemoveLeft { directory, name, with_data } => {
                if let Some(directory) = self.directories.get(&directory) {
                    if with_data {
                        let _ = env.disk.remove(*directory, &staging::part(&name));
                    }
                    // With an unfinished file beside it, it is that of another item of this name.
                    if env.disk.find(*directory, &staging::part(&name)).is_none()
                        || env.has(Mutation::LeftJournalsAlwaysGo)
                    {
                        let _ = env.disk.remove(*directory, &staging::blocks(&name));
                    }
                }
            }
            Action::Discard(id) => {
                if let Some(made) = self.made.remove(&id) {
                    if !made.is_durable {
                        let _ = env.disk.remove(made.directory, &made.staging);
                    }
                    env.disk.unlock(made.inode, self.holder);
                }
            }
            Action::NoteReleased { path } => {
                if let Some(run) = &mut self.run {
                    run.released(&path);
                }
            }
            Action::Forget(id) => {
                reports.push(Report::Forget(id));
                if let Some(claimed) = self.claimed.remove(&id) {
                    env.disk.unlock(claimed.part, self.holder);
                }
            }
            Action::FinishDirectory { entry, may_change, .. } => {
                let outcome = self.finish_directory(&entry, may_change, env);
                self.book.on_directory_finished(&entry, outcome);
            }
            Action::ListExtras { directory, found, names } => {
                let listed = self.list_extras(directory, found, &names, env);
                self.book.on_extras_listed(listed);
            }
            Action::CountExtras(found) => {
                let count = count_extras(&found, env);
                self.book.on_extras_counted(found, Ok(count));
            }
            Action::DeleteExtras { found, .. } => {
                let (replaced, failed) =
                    if self.options.dry_run { (Vec::new(), None) } else { self.delete_extras(&found, env) };
                let failed = failed.filter(|_| !env.has(Mutation::DeletionFailuresAreForgotten));
                self.book.on_extras_deleted(replaced, failed);
            }
            Action::MakeSnapshot => {
                let made = self.make_snapshot(env);
                self.book.on_snapshot_made(made);
            }
            Action::RemoveSnapshots(times) => {
                if !self.snapshot.1 {
                    env.violate("an older snapshot is removed, and none was made".into());
                }
                self.book.on_snapshots_removed(times.into_iter().map(|time| (time, Ok(()))).collect());
            }
            Action::PutAway { contents } => {
                self.put_away(contents, env);
            }
            Action::Ask(ready) => {
                let (number, question) = self.questions.ask(ready, env);
                reports.extend(question.map(|question| Report::Reply(Box::new(question))));
                self.book.on_asked(number);
            }
            Action::Reply(message) => {
                self.check_done(&message, env);
                reports.push(Report::Reply(Box::new(message)));
            }
            Action::Notify(Notification::Failed { .. } | Notification::Snapshot(SnapshotNews::NotMade(_))) => {
                self.failed += 1;
            }
            Action::Notify(
                Notification::WouldReceive { .. }
                | Notification::Skipped { .. }
                | Notification::Linked { .. }
                | Notification::Renamed { .. }
                | Notification::Kept { .. },
            ) => self.looked_at += 1,
            Action::Notify(_) => {}
            Action::Complete => reports.push(Report::Complete),
            Action::Fail(error) => reports.push(Report::Fail(error)),
        }
        Done::Through
    }

    fn is_part_busy(&self, id: EntryId, env: &Environment) -> bool {
        let is_large = self.book.item(id).is_some_and(|item| item.size() > ByteCount::from(BLOCK_SIZE));
        is_large
            && self.options.resume
            && self.place_of(id).is_some_and(|(directory, name)| {
                let part = env.disk.find(directory, &staging::part(&name));
                part.is_some_and(|part| env.disk.is_locked(part, self.holder))
            })
    }

    fn facts<'a>(&self, id: EntryId, has_waited: bool, env: &'a mut Environment) -> Known<'a> {
        let item = self.book.item(id).cloned();
        let (directory, name) = self.place_of(id).unwrap_or((env.disk.root(), Vec::new()));
        let counterpart = older::counterpart(&env.disk, &self.path_of(directory, &name));
        let run = self.run.clone();
        let forgets = env.has(Mutation::RenamedIsForgotten);
        let size = item.as_ref().map_or(0, |item| item.size().as_u64());
        let choices = self.renames.choices(&env.disk, size);
        let first = item.as_ref().and_then(|item| match item.entry.kind {
            EntryKind::HardLink { to, .. } => Some((to, *self.left_firsts.get(&to)?)),
            _ => None,
        });
        Known {
            forgets,
            disk: &mut env.disk,
            holder: self.holder,
            directory,
            name,
            counterpart,
            item,
            run,
            has_waited,
            claimed: None,
            choices,
            first,
        }
    }

    /// The file from which blocks of an item are put together.
    fn existing(&self, id: EntryId, basis: Basis, env: &Environment) -> Option<Existing> {
        match basis {
            Basis::AtSamePlace(place) => self.file_at(id, place, env).map(Existing::SamePlace),
            Basis::AtAnyPlace(place) => self.file_at(id, place?, env).map(Existing::AnyPlace),
        }
    }

    fn file_at(&self, id: EntryId, place: ReferencePlace, env: &Environment) -> Option<Inode> {
        let (directory, name) = self.place_of(id)?;
        match place {
            ReferencePlace::Itself => env.disk.find(directory, &name),
            ReferencePlace::Older(_) => older::counterpart(&env.disk, &self.path_of(directory, &name)),
        }
    }

    fn expect(
        &mut self,
        (id, held, existing): (EntryId, Option<BlockMap>, Option<Existing>),
        env: &mut Environment,
        reports: &mut Vec<Report>,
    ) {
        let (Some(item), Some((directory, name))) = (self.book.item(id), self.place_of(id)) else {
            return env.violate(format!("expects file {id}, which is not in the book"));
        };
        let (length, sparse) = match item.entry.kind {
            EntryKind::File { size, sparse, .. } => (Length::Known(ByteCount::new(size)), sparse),
            EntryKind::Stream => (Length::Stream, false),
            _ => return env.violate(format!("expects item {id}, which is no file")),
        };
        let header = header_of(&item.entry, &name);
        let revision = revision_of(&header.version);
        let unfinished = Unfinished { directory, name: name.clone(), revision };
        let claimed = self.claimed.remove(&id);
        let plan = Plan {
            found: env.disk.occupant(directory, &name),
            directory,
            name,
            header,
            noted: env.audit.noted_of(&unfinished),
            unfinished,
            mode: item.entry.mode,
            mtime: (item.entry.mtime_seconds, item.entry.mtime_nanos),
            claimed,
        };
        let expected = Expected { length, sparse, held, in_place: false };
        reports.push(Report::Expect { id, plan: Box::new(plan), expected, existing });
    }
}
