//! Items of a mirror that the destination has under another name, from the decision until the sender
//! is told.
//!
//! ```text
//! Verdict::Undecided ─► FindCandidates ─► Examine, once more
//! Verdict::Candidates ─► Candidates ─► the sender's answer ─┬─ gone, digest ─► CompareCandidate ─┬─ equal ─► TakeCandidate
//!                                                          └─ none ─► Examine                 └─ not ─► the next, or Examine
//! TakeCandidate ─► batch, as what has arrived ─► Wants: Renamed
//! ```

use icdc_protocol::message::{
    CandidateAnswer, CandidatePlace, Candidates, EntryId, FileDigest, Message, SourceKind, Want,
};
use icdc_units::Time;

use super::Book;
use super::action::{Action, CandidateRoot, Examination, Notification, Question, Target};
use super::item::DirectoryId;
use super::links::Progress;
use super::state::{Comparison, ItemState, SessionStage, Tracked};
use crate::{Failure, SessionError};

impl<P> Book<P> {
    /// Lets a new item wait, unanswered, until it is known which files the destination has: one of
    /// them may be it under another name. The first that waits has them searched for.
    pub(super) fn await_candidates(&mut self, id: EntryId) {
        self.remember(id, Progress::Coming);
        self.set_state(id, ItemState::AwaitingCandidates);
        if !std::mem::replace(&mut self.finds_candidates, true) {
            let roots = self.candidate_roots();
            self.ask(Action::FindCandidates(roots));
        }
    }

    /// Directories of the destination in which files may have been renamed: the copies of sources that
    /// are alone in them. Of others, the sender of one source does not know what the others have.
    fn candidate_roots(&self) -> Vec<CandidateRoot> {
        let SessionStage::Running(run) = &self.stage else { return Vec::new() };
        let is_alone = run.sources.len() == 1;
        let mut roots: Vec<CandidateRoot> = Vec::new();
        for (number, (target, source)) in (0..).zip(run.targets.iter().zip(&run.sources)) {
            let directory = DirectoryId::Source(number);
            let (name, source_path) = match target {
                Target::Named { name, .. } if source.kind == SourceKind::Directory => {
                    (Some(name.clone()), source.name.clone())
                }
                Target::Contents(_) if is_alone => (None, Vec::new()),
                Target::Contents(_) => return Vec::new(),
                Target::Named { .. } | Target::Imagined => continue,
            };
            if roots.iter().any(|root| root.name == name) {
                return Vec::new();
            }
            roots.push(CandidateRoot { source: number, directory, name, source_path });
        }
        roots
    }

    /// Handles the end of [`Action::FindCandidates`]: examinations know now what the destination has.
    pub fn on_candidates_found(&mut self, now: Time) {
        self.last = now;
        if !self.phase.is_open() {
            return;
        }
        let mut waiting: Vec<EntryId> = Vec::new();
        for (id, tracked) in self.items.iter_mut() {
            if tracked.state == ItemState::AwaitingCandidates {
                tracked.state = ItemState::Examined;
                waiting.push(*id);
            }
        }
        waiting.sort_unstable();
        if !waiting.is_empty() {
            let examine = |id| Examination { id, question: Question::Anything };
            self.ask(Action::Examine(waiting.into_iter().map(examine).collect()));
        }
        self.proceed();
    }

    /// Asks the sender whether one of these files of the destination has become an item.
    pub(super) fn ask_about_candidates(&mut self, id: EntryId, places: Vec<CandidatePlace>) {
        self.remember(id, Progress::Coming);
        self.set_state(id, ItemState::Asked);
        self.reply(Message::Candidates(Candidates { id, places }));
    }

    /// Handles the sender's answer about candidates, or the digest that it was asked for.
    pub(super) fn candidates_answered(&mut self, answer: CandidateAnswer) -> Result<(), SessionError> {
        let CandidateAnswer { id, gone, digest } = answer;
        let state = self.items.get(&id).map(|tracked| tracked.state);
        if state == Some(ItemState::AskedDigest) {
            self.digest_told(id, digest);
            return Ok(());
        }
        let Some(ItemState::Asked) = state else {
            return match self.next > id {
                true => Ok(()),
                false => Err(SessionError::Protocol(format!("answers for item {id}, which it has not announced"))),
            };
        };
        match digest {
            _ if !self.phase.is_open() => {}
            _ if self.settings.options.dry_run && gone != 0 => {
                self.notify_renamed(id, None);
                self.leave(id, Progress::Published);
                self.answer(id, vec![Want::Renamed(None)]);
            }
            Some(digest) => self.compare_next(id, Comparison { digest, left: gone }),
            None => self.want_after_all(id),
        }
        Ok(())
    }

    /// Has the next candidate compared with the digest of its item.
    fn compare_next(&mut self, id: EntryId, Comparison { digest, left }: Comparison) {
        if left == 0 {
            return self.want_after_all(id);
        }
        let number = left.trailing_zeros() as usize;
        let left = left & (left - 1);
        self.set_state(id, ItemState::ComparingCandidate(number, Comparison { digest, left }));
        self.ask(Action::CompareCandidate { id, number, digest });
    }

    /// Handles the comparison of a candidate with the digest of its item.
    pub(super) fn candidate_compared(&mut self, id: EntryId, number: usize, comparison: Comparison, same: bool) {
        if same {
            self.set_state(id, ItemState::Renaming(comparison.digest));
            self.wanted += 1;
            self.ask(Action::TakeCandidate { id, number });
        } else {
            self.compare_next(id, comparison);
        }
    }

    /// Requests the contents of an item that the destination does not have.
    pub(super) fn want_after_all(&mut self, id: EntryId) {
        if self.phase.is_open() {
            self.set_state(id, ItemState::Examined);
            self.ask(Action::Examine(vec![Examination { id, question: Question::Contents }]));
        } else {
            self.fail(id, Failure::Passing("is to be sent".into()));
        }
    }

    /// Notifies the user of an item that the destination had under another name.
    pub(super) fn notify_renamed(&mut self, id: EntryId, digest: Option<FileDigest>) {
        if let Some(Tracked { item, .. }) = self.items.get(&id) {
            let (path, size) = (item.path.clone(), item.size());
            self.notify(Notification::Renamed { path, size, digest });
        }
    }
}
