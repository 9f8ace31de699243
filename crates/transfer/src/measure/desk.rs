//! One end of the control link of a measurement: a thread that speaks, one that listens, and waiting for what is
//! heard, for a wish to stop, for other threads of this end, and until a deadline.

use std::io;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, never, select};
use icdc_protocol::Message;
use icdc_protocol::measure::Word;
use icdc_protocol::message::Refusal;
use icdc_units::{Span, Time};

use crate::clock;
use crate::connect::speaker::{Speaker, SpeakerEnd};
use crate::connect::ssh::{kind, receive};
use crate::error::SessionError;
use crate::link::{Inlet, Link, LinkControl};
use crate::stop::StopSignal;

/// Messages that wait to be heard; then the other end waits.
const DEPTH: usize = 64;

pub(super) struct Desk {
    speaker: Speaker,
    end: SpeakerEnd,
    heard: Receiver<Heard>,
    stopped: Receiver<()>,
    /// Keeps `stopped` open once the wish has been uttered.
    _stop: Sender<()>,
    /// Requested once nothing more can come of it: the other end is gone or wants to end, or this end shall stop.
    ended: StopSignal,
    control: LinkControl,
}

/// What comes from the other end, or instead of it.
pub(super) enum Heard {
    Accepted,
    Refused(Refusal),
    Word(Word),
    /// The other end's user wants it to end.
    Interrupt,
    /// So does this end's.
    Stop,
    Gone(SessionError),
}

/// What [`Desk::next`] waited for.
pub(super) enum Next<E> {
    Heard(Heard),
    Worker(E),
    Deadline,
}

impl Desk {
    pub(super) fn open(link: Link, stop: &StopSignal) -> io::Result<Self> {
        let Link { outlet, inlet, control } = link;
        let (speaker, end) = Speaker::start(outlet)?;
        let (tell, heard) = bounded(DEPTH);
        let ended = StopSignal::new();
        let listener = std::thread::Builder::new().name("listener".into());
        let hears_end = ended.clone();
        listener.spawn(move || listen(inlet, &tell, &hears_end))?;
        let (wish, stopped) = bounded(1);
        let (on_stop, ends) = (wish.clone(), ended.clone());
        stop.on_request(move || {
            let _ = on_stop.try_send(());
            ends.request();
        });
        Ok(Self { speaker, end, heard, stopped, _stop: wish, ended, control })
    }

    pub(super) fn say(&self, word: Word) {
        self.speaker.say(Message::Measure(word));
    }

    pub(super) fn tell(&self, message: Message) {
        self.speaker.say(message);
    }

    pub(super) fn ended(&self) -> &StopSignal {
        &self.ended
    }

    /// Waits for whatever comes first.
    pub(super) fn next<E>(&self, workers: &Receiver<E>, deadline: Time) -> Next<E> {
        // An end that never stops talking does not put it off.
        if clock::now() >= deadline {
            return Next::Deadline;
        }
        let gone = || Heard::Gone(SessionError::Cut("the other end is gone".into()));
        select! {
            recv(self.heard) -> heard => Next::Heard(heard.unwrap_or_else(|_| gone())),
            recv(self.stopped) -> _ => Next::Heard(Heard::Stop),
            recv(workers) -> event => match event {
                Ok(event) => Next::Worker(event),
                // They have ended; there is still the rest to wait for.
                Err(_) => self.next(&never(), deadline),
            },
            default(Duration::from_nanos((deadline - clock::now()).as_nanos())) => Next::Deadline,
        }
    }

    /// What comes next, where this end has nothing to do but wait for it.
    pub(super) fn hear(&self, awaited: &str, patience: Span) -> Result<Heard, SessionError> {
        self.hear_in(awaited, patience, clock::now())
    }

    /// The same with a patience that began at `since`.
    pub(super) fn hear_in(&self, awaited: &str, patience: Span, since: Time) -> Result<Heard, SessionError> {
        match self.next(&never::<()>(), since + patience) {
            Next::Heard(heard) => Ok(heard),
            Next::Worker(()) | Next::Deadline => Err(SessionError::Cut(format!("no {awaited} came within {patience}"))),
        }
    }

    /// The next word of the other end, where nothing but one makes sense.
    pub(super) fn word(&self, awaited: &str, patience: Span) -> Result<Word, SessionError> {
        match self.hear(awaited, patience)? {
            Heard::Word(word) => Ok(word),
            other => Err(other.unexpected(awaited)),
        }
    }

    /// Waits until the receiver lets this end send.
    pub(super) fn go(&self, patience: Span) -> Result<(), SessionError> {
        match self.word("Go", patience)? {
            Word::Go => Ok(()),
            word => Err(Heard::Word(word).unexpected("Go")),
        }
    }

    /// Ends this end's direction and waits for the other end to end its own, so that its last words arrive.
    pub(super) fn close(self, patience: Span) {
        let Self { end, heard, control, .. } = self;
        drop(end);
        let deadline = clock::now() + patience;
        while let Ok(said) = heard.recv_timeout(Duration::from_nanos((deadline - clock::now()).as_nanos())) {
            if matches!(said, Heard::Gone(_)) {
                break;
            }
        }
        control.shutdown();
    }
}

impl Heard {
    /// The error that this is where `awaited` should have come.
    pub(super) fn unexpected(self, awaited: &str) -> SessionError {
        match self {
            Self::Refused(refusal) => SessionError::Refused(refusal),
            Self::Interrupt | Self::Stop => SessionError::Interrupted,
            Self::Gone(error) => error,
            Self::Accepted => SessionError::Protocol(format!("Accepted instead of {awaited}")),
            Self::Word(word) => SessionError::Protocol(format!("{} instead of {awaited}", word_name(&word))),
        }
    }
}

fn word_name(word: &Word) -> &'static str {
    match word {
        Word::Ready { .. } => "Ready",
        Word::Go => "Go",
        Word::Samples(_) => "Samples",
        Word::Received(_) => "Received",
        Word::Arrivals(_) => "Arrivals",
        Word::Sent(_) => "Sent",
    }
}

fn listen(mut inlet: Box<dyn Inlet>, tell: &Sender<Heard>, ended: &StopSignal) {
    loop {
        let heard = match receive(inlet.as_mut()) {
            Ok(Message::Ping) => continue,
            Ok(Message::Measure(word)) => Heard::Word(word),
            Ok(Message::Accepted) => Heard::Accepted,
            Ok(Message::Refused(refusal) | Message::Abort(refusal)) => Heard::Refused(refusal),
            Ok(Message::Interrupt) => Heard::Interrupt,
            Ok(other) => Heard::Gone(SessionError::Protocol(format!("unexpected {} in a measurement", kind(&other)))),
            Err(error) => Heard::Gone(error.into()),
        };
        let last = matches!(heard, Heard::Gone(_));
        if matches!(heard, Heard::Gone(_) | Heard::Refused(_) | Heard::Interrupt) {
            ended.request();
        }
        // Nobody listens any more once the measurement is over.
        if tell.send(heard).is_err() || last {
            return;
        }
    }
}
