//! The start of a session: from the sender's first message until its announcements are processed.
//!
//! A session that had to wait for an earlier one may be that of a client killed long ago, and a
//! newer run may have finished meanwhile: nothing is done until the sender has answered. What it
//! has announced by then waits in one queue, in the order of its arrival.

use icdc_filter::NamePattern;
use icdc_protocol::limits::MAX_SOURCES;
use icdc_protocol::message::{Begin, Message, Source, SourceKind};

use super::Book;
use super::action::{Action, Answer, NotBegun, Placed, Target};
use super::questions::Step;
use super::state::{Confirmation, Opening, Queue, Run, SessionStage};
use crate::SessionError;

impl<P> Book<P> {
    /// Accepts a message of the sender, and processes announcements as far as is allowed yet.
    pub(super) fn announce(&mut self, message: Message) -> Result<(), SessionError> {
        match message {
            Message::Sources(sources) => return self.take_sources(sources),
            Message::Begin(begin) => return self.begin(begin),
            Message::Confirmed => {
                self.confirmed();
                return Ok(());
            }
            Message::CandidateAnswer(answer) => return self.candidates_answered(answer),
            Message::Problem(problem) => {
                if problem.error {
                    self.fail_receipt(&problem.path);
                }
                self.first_failed.get_or_insert(problem.path);
                return Ok(());
            }
            Message::LeftOut { .. } if self.settings.options.delete.is_none() => {
                return Err(SessionError::Protocol("it tells what it leaves out, and was not asked to".into()));
            }
            Message::Entries(_)
            | Message::DirEnd { .. }
            | Message::LeftOut { .. }
            | Message::FileEnd(_)
            | Message::End => {}
            _ => return Err(SessionError::Protocol("a message that only a receiver may send".into())),
        }
        match &mut self.stage {
            SessionStage::Fresh { .. } => Err(SessionError::Protocol("something came before Begin".into())),
            SessionStage::Placing(opening)
            | SessionStage::Unconfirmed(opening)
            | SessionStage::Beginning { opening, .. } => opening.queue.keep(message),
            SessionStage::Running(run) => {
                run.queue.push_back(message);
                self.process_announced()
            }
            SessionStage::Broken => Ok(()),
        }
    }

    /// Records sources that come ahead of those of `Begin`.
    fn take_sources(&mut self, more: Vec<Source>) -> Result<(), SessionError> {
        match &mut self.stage {
            SessionStage::Fresh { sources } if sources.len() + more.len() < MAX_SOURCES => sources.extend(more),
            SessionStage::Fresh { .. } => return Err(SessionError::Protocol("too many sources".into())),
            SessionStage::Broken => {}
            _ => return Err(SessionError::Protocol("sources came after Begin".into())),
        }
        Ok(())
    }

    /// Handles the sender's `Begin`: all sources are known now.
    fn begin(&mut self, mut begin: Begin) -> Result<(), SessionError> {
        match &mut self.stage {
            SessionStage::Fresh { sources } if sources.len() + begin.sources.len() > MAX_SOURCES => {
                return Err(SessionError::Protocol("too many sources".into()));
            }
            SessionStage::Fresh { sources } => drop(begin.sources.splice(..0, sources.drain(..))),
            SessionStage::Broken => return Ok(()),
            _ => return Err(SessionError::Protocol("began twice".into())),
        }
        if let Some(asked) = &self.settings.asked {
            refuse_unasked(&begin.sources, asked)?;
        }
        let many = begin.sources.len() > 1
            || begin.sources.iter().any(|source| source.kind.is_directory())
            || self.settings.options.snapshot.is_some();
        self.is_journaled = many && !self.settings.options.dry_run;
        let is_journaled = self.is_journaled;
        self.stage = SessionStage::Placing(Opening { sources: begin.sources.clone(), queue: Queue::default() });
        self.ask(Action::Place { begin, is_journaled });
        Ok(())
    }

    /// Handles the outcome of [`Action::Place`].
    pub fn on_placed(&mut self, outcome: Result<Placed, SessionError>) {
        self.answered(Answer::Placed);
        let SessionStage::Placing(opening) = std::mem::replace(&mut self.stage, SessionStage::Broken) else { return };
        let outcome = outcome.and_then(|placed| {
            let Placed { resuming, has_waited, peer_is_gone } = placed;
            self.is_resuming = resuming;
            if peer_is_gone {
                // A newer run of the same command may have completed since.
                let reason = "the sender closed the connection before the session began";
                return Err(SessionError::Cut(reason.into()));
            }
            if has_waited {
                self.get_confirmed(opening, resuming);
            } else {
                self.stage = SessionStage::Beginning { opening, sender: Confirmation::Assumed { resuming } };
                self.ask(Action::BeginRun);
            }
            Ok(())
        });
        self.end_on_error(outcome);
    }

    /// Asks the sender, by a `Ready`, whether it is still connected.
    fn get_confirmed(&mut self, opening: Opening, resuming: bool) {
        self.stage = SessionStage::Unconfirmed(opening);
        self.ready(resuming, Step::Begin);
    }

    /// Requests the start of the run, once the sender has confirmed that it is connected.
    pub(super) fn begin_confirmed(&mut self) {
        match std::mem::replace(&mut self.stage, SessionStage::Broken) {
            SessionStage::Unconfirmed(opening) => {
                self.stage = SessionStage::Beginning { opening, sender: Confirmation::Confirmed };
                self.ask(Action::BeginRun);
            }
            other => self.stage = other,
        }
    }

    /// Handles the outcome of [`Action::BeginRun`].
    pub fn on_begun(&mut self, outcome: Result<Vec<Target>, NotBegun>) {
        self.answered(Answer::Begun);
        let stage = std::mem::replace(&mut self.stage, SessionStage::Broken);
        let SessionStage::Beginning { opening, sender } = stage else { return };
        let outcome = match (outcome, sender) {
            (Ok(targets), sender) => {
                let Opening { sources, queue } = opening;
                self.stage = SessionStage::Running(Run { sources, targets, queue: queue.messages, answering: None });
                if let Confirmation::Assumed { resuming } = sender {
                    self.ready(resuming, Step::Nothing);
                }
                self.process_announced()
            }
            // Others may have waited as well and taken the lock before: each has ended since.
            (Err(NotBegun::HasWaited { resuming }), _) => {
                self.is_resuming = resuming;
                self.get_confirmed(opening, resuming);
                Ok(())
            }
            (Err(NotBegun::Failed(error)), _) => Err(error),
        };
        self.end_on_error(outcome);
    }
}

/// Fails if a source is not among the paths `asked` for: a sender that was asked for certain paths
/// does not choose the names at the destination.
fn refuse_unasked(sources: &[Source], mut asked: &[Vec<u8>]) -> Result<(), SessionError> {
    let mut is_asked_for = |source: &Source| {
        let Some(place) = asked.iter().position(|path| is_answer(source, path)) else { return false };
        // A pattern may have several answers.
        asked = &asked[place + usize::from(!is_pattern(&asked[place]))..];
        true
    };
    match sources.iter().find(|source| !is_asked_for(source)) {
        None => Ok(()),
        Some(other) => {
            let name = String::from_utf8_lossy(&other.name).escape_debug().to_string();
            Err(SessionError::Protocol(format!("it offers {name}, which was not asked for")))
        }
    }
}

/// Whether a requested path is one that several names may match.
fn is_pattern(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|component| NamePattern::parse(component).is_some())
}

/// Whether this source is what the requested `path` denotes, or one of what it matches.
fn is_answer(source: &Source, path: &[u8]) -> bool {
    let trimmed = &path[..path.iter().rposition(|byte| *byte != b'/').map_or(0, |end| end + 1)];
    let last = trimmed.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let matches = || NamePattern::parse(last).is_some_and(|pattern| pattern.matches(&source.name));
    match source.kind {
        // Only the far end knows the name of its user's home directory.
        _ if trimmed == b"~" => true,
        SourceKind::Contents => trimmed.len() < path.len() || matches!(last, b"" | b"." | b".."),
        SourceKind::Item | SourceKind::Directory => source.name == last || matches(),
        SourceKind::Stream => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pattern_does_not_match_was_not_asked_for() {
        let offers = |asked: &[&str], names: &[&str]| {
            let asked: Vec<Vec<u8>> = asked.iter().map(|path| path.as_bytes().to_vec()).collect();
            let source =
                |name: &&str| Source { name: name.as_bytes().to_vec(), kind: SourceKind::Item, identity: None };
            refuse_unasked(&names.iter().map(source).collect::<Vec<_>>(), &asked).is_ok()
        };
        assert!(offers(&["d/*.nc"], &["a.nc", "b.nc"]) && offers(&["d/*.nc"], &["*.nc"]));
        assert!(offers(&["x", "*.nc", "*", "y"], &["x", "a.nc", "b.nc", "b", "y"]));
        assert!(offers(&["*/a"], &["a", "a"]) && !offers(&["d/a"], &["a", "a"]));
        for name in ["a.sh", ".a.nc", ".nc"] {
            assert!(!offers(&["d/*.nc"], &[name]) && !offers(&["d/*.nc"], &["a.nc", name]), "{name}");
        }
        assert!(!offers(&["*.nc", "y"], &["y", "a.nc"]), "in their order");
    }
}
