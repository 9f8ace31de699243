//! Names that the user lists one by one, as the scan comes to them: from a list in this process, or
//! from another end, part by part.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver as Queue, RecvTimeoutError, Sender as Channel, TrySendError, bounded};
use icdc_protocol::listed::{ListedNames, list_order};
use icdc_session::SessionError;

use crate::name_list::{NameList, Names};

/// Parts of a list that are asked for ahead: enough for names as fast as they are examined, over
/// any path.
const AHEAD: usize = 8;
/// Interval at which a scan that waits for names looks whether its session is over.
const LOOK: Duration = Duration::from_millis(100);
/// Number of the next pass through a list that is asked for in this process.
static PASSES: AtomicU32 = AtomicU32::new(0);

/// Origin of a sender's list of names.
pub(crate) enum ListSource<'a> {
    /// The list is in this process.
    Own(NameList),
    /// The list is asked for.
    Asked(AskedList<'a>),
}

/// A list at another end, which gives a part of it for each request.
pub struct AskedList<'a> {
    /// Asks for the next part of this pass.
    ask: Box<dyn Fn(u32) + Send + 'a>,
    pass: u32,
    parts: Queue<ListedNames>,
}

/// Takes the parts of a list as they arrive.
#[derive(Clone, Debug)]
pub struct ListAnswers {
    pass: u32,
    parts: Channel<ListedNames>,
}

impl<'a> AskedList<'a> {
    /// A list that is asked for by `ask`, and what takes the answers.
    pub fn new(ask: impl Fn(u32) + Send + 'a) -> (Self, ListAnswers) {
        let pass = PASSES.fetch_add(1, Ordering::Relaxed);
        let (answers, parts) = bounded(AHEAD);
        (Self { ask: Box::new(ask), pass, parts }, ListAnswers { pass, parts: answers })
    }
}

impl ListAnswers {
    /// Takes a part that has arrived. One that an earlier session has asked for is dropped.
    ///
    /// # Errors
    /// More has arrived than was asked for.
    pub fn take(&self, part: ListedNames) -> Result<(), SessionError> {
        if part.pass != self.pass {
            return Ok(());
        }
        match self.parts.try_send(part) {
            Err(TrySendError::Full(_)) => {
                Err(SessionError::Protocol("more listed names came than were asked for".into()))
            }
            // Nobody waits for them at the end of a session.
            Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(()),
        }
    }
}

/// The names of a list in scan order, of which the first can be looked at.
pub(super) struct Listed<'a> {
    names: Source<'a>,
    ahead: VecDeque<Vec<u8>>,
    /// The name that was taken last.
    last: Option<Vec<u8>>,
}

/// Origin of the names of a list that are not known yet: none, a list in this process, or another
/// end.
enum Source<'a> {
    /// All names are known.
    Given,
    Own(Names),
    Asked {
        list: AskedList<'a>,
        has_begun: bool,
        has_ended: bool,
    },
}

impl<'a> Listed<'a> {
    /// The names of a list, of which none was fetched yet.
    pub(super) fn new(source: ListSource<'a>) -> Self {
        let names = match source {
            ListSource::Own(list) => Source::Own(list.names()),
            ListSource::Asked(list) => Source::Asked { list, has_begun: false, has_ended: false },
        };
        Self { names, ahead: VecDeque::new(), last: None }
    }

    /// A list of these names, which are in scan order.
    pub(super) fn given(names: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self { names: Source::Given, ahead: names.into_iter().collect(), last: None }
    }

    /// The next name, which stays; `None` at the end, or if the session `is_over`.
    pub(super) fn peek(&mut self, is_over: impl Fn() -> bool) -> Result<Option<&[u8]>, SessionError> {
        while self.ahead.is_empty() && self.fetch(&is_over)? {}
        Ok(self.ahead.front().map(Vec::as_slice))
    }

    /// Takes the name that was looked at.
    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        self.ahead.pop_front()
    }

    /// Gets more names; returns false at the end.
    fn fetch(&mut self, is_over: &impl Fn() -> bool) -> Result<bool, SessionError> {
        match &mut self.names {
            Source::Own(names) => {
                let unreadable = |error| SessionError::Local(format!("the list of names cannot be read: {error}"));
                self.ahead.extend(names.next().map_err(unreadable)?);
                Ok(!self.ahead.is_empty())
            }
            Source::Given | Source::Asked { has_ended: true, .. } => Ok(false),
            Source::Asked { list, has_begun, has_ended } => {
                if !std::mem::replace(has_begun, true) {
                    (0..AHEAD).for_each(|_| (list.ask)(list.pass));
                }
                let part = loop {
                    match list.parts.recv_timeout(LOOK) {
                        Ok(part) => break part,
                        Err(RecvTimeoutError::Timeout) if !is_over() => {}
                        Err(_) => return Ok(false),
                    }
                };
                *has_ended = part.ended;
                if !part.ended {
                    (list.ask)(list.pass);
                }
                for name in part.names {
                    let is_next = self.last.as_ref().is_none_or(|last| list_order(last, &name).is_lt());
                    if !is_next {
                        return Err(SessionError::Protocol("listed names come in no order".into()));
                    }
                    self.last = Some(name.clone());
                    self.ahead.push_back(name);
                }
                Ok(true)
            }
        }
    }
}
