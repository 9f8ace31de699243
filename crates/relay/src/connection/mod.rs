//! One relayed connection, from the first byte of its client to the last of either side.
//!
//! ```text
//! Greeting ─► Resolving ─► Connecting ─► Securing ─► Passing ─► finished
//!     │           └────────────┴─ next way ─┘           └─► broken: both legs are reset
//!     └─► Farewell: a client that expects an answer is told why not
//! ```
//!
//! | file | what |
//! |---|---|
//! | `greeting` | where the client wants to go |
//! | `ways` | the ways there |
//! | `reach` | the ways tried, one after the other |
//! | `passing` | data in both directions |
//! | `watch` | what time does: deadlines, idleness, memory, buffers |

mod greeting;
mod passing;
mod reach;
mod watch;
mod ways;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use icdc_protocol::relay::peer::Verdict;
use icdc_protocol::relay::socks5;
use icdc_units::{ByteCount, Span, Time};

use crate::clients::Place;
use crate::config::{Config, Listener, ListenerKind};
use crate::flow::{Flow, Turn};
use crate::house::count;
use crate::leg::{Arrived, Leg};
use crate::mailbox::Guest;
use crate::rooms;
use crate::tools::{Side, Tools};
use greeting::Greeting;
use ways::{Question, Wish};

pub(crate) use watch::Watched;

/// How long a client that is turned away has to take its answer.
const FAREWELL: Span = Span::from_secs(2);
/// How often it is read from in one turn meanwhile.
const FAREWELL_READS: u32 = 16;

/// A client, the way that it takes, and the bytes on it.
pub(crate) struct Connection {
    pub(crate) id: u64,
    listener: Arc<Listener>,
    config: Arc<Config>,
    place: Place,
    /// Who opened it, as far as this relay knows.
    client: SocketAddr,
    near: Leg,
    far: Option<Leg>,
    stage: Stage,
    /// When the stage must be over.
    deadline: Time,
    began: Time,
    wish: Option<Wish>,
    /// What has come of the next relay's answer, while it is waited for.
    answer: Option<Vec<u8>>,
    up: Flow,
    down: Flow,
    /// What of it stands in the counters.
    counted: (u64, u64),
    /// What of it had moved when time last looked at it, and when that had changed.
    watched: (u64, u64),
    moved_at: Time,
    held: ByteCount,
    paused: Paused,
}

/// Directions in which nothing more is read for now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Paused {
    up: bool,
    down: bool,
}

enum Stage {
    Greeting(Greeting),
    Resolving(Question),
    Connecting,
    Securing,
    Passing,
    Farewell,
}

/// What is next.
pub(crate) enum Next {
    /// Something has to happen first.
    Wait,
    /// Another stage has begun.
    Again,
    /// There is more to do; others first.
    More,
}

/// How a connection ends.
#[derive(Debug)]
pub(crate) enum End {
    /// Both sides have said everything.
    Finished,
    /// The client went away, or is not let in.
    TurnedAway(String),
    /// The destination could not be had.
    NotReached(Verdict, String),
    /// One of the legs broke.
    Broken(String),
    /// Nothing has happened for too long.
    TimedOut(&'static str),
}

/// Whether a connection goes on.
pub(crate) enum Fate {
    /// Until an event.
    Lives,
    /// As soon as others have had their turn.
    Busy,
    /// No.
    Over,
}

impl Connection {
    pub(crate) fn new(id: u64, guest: Guest, now: Time) -> io::Result<Self> {
        let Guest { socket, client, listener, config, place } = guest;
        let mut near = Leg::new(socket)?;
        if let ListenerKind::Peer(tls) = &listener.kind {
            near.between_relays = true;
            if let Some(tls) = tls {
                if rooms::largest(&config).is_some() {
                    near.narrow();
                }
                let session = rustls::ServerConnection::new(Arc::clone(tls)).map_err(io::Error::other)?;
                near.secure(session.into());
            }
        }
        let deadline = now + config.limits.greeting;
        let stage = Stage::Greeting(Greeting::new(&listener.kind));
        Ok(Self {
            id,
            listener,
            config,
            place,
            client,
            near,
            far: None,
            stage,
            deadline,
            began: now,
            wish: None,
            answer: None,
            up: Flow::new(now),
            down: Flow::new(now),
            counted: (0, 0),
            watched: (0, 0),
            moved_at: now,
            held: ByteCount::ZERO,
            paused: Paused::default(),
        })
    }

    pub(crate) fn near(&mut self) -> &mut Leg {
        &mut self.near
    }

    pub(crate) fn far(&mut self) -> Option<&mut Leg> {
        self.far.as_mut()
    }

    /// What the kernel says of a leg that has failed, unless a stage finds that out for itself.
    pub(crate) fn failure_at(&self, side: Side) -> Option<io::Error> {
        match (side, &self.stage) {
            (_, Stage::Farewell) => None,
            (Side::Near, _) => self.near.error(),
            (Side::Far, Stage::Passing) if self.answer.is_none() => self.far.as_ref().and_then(Leg::error),
            (Side::Far, _) => None,
        }
    }

    /// Whether it is a connection that another relay keeps warm.
    pub(crate) fn is_unused(&self) -> bool {
        matches!(&self.stage, Stage::Greeting(greeting) if greeting.is_untouched())
    }

    /// Does all that can be done now.
    pub(crate) fn drive(&mut self, tools: &mut Tools) -> Fate {
        loop {
            let next = match &self.stage {
                Stage::Greeting(_) => self.greet(tools),
                Stage::Resolving(_) => Ok(Next::Wait),
                Stage::Connecting => self.connect(tools),
                Stage::Securing => self.shake_hands(tools),
                Stage::Passing => self.pass(tools),
                Stage::Farewell => match self.bid_farewell(tools) {
                    Turn::Finished => return Fate::Over,
                    Turn::More => Ok(Next::More),
                    Turn::Waiting => Ok(Next::Wait),
                },
            };
            match next {
                Ok(Next::Wait) => return Fate::Lives,
                Ok(Next::Again) => {}
                Ok(Next::More) => return Fate::Busy,
                Err(end) => match self.end(&end, tools) {
                    Fate::Over => return Fate::Over,
                    // It says farewell.
                    _ => continue,
                },
            }
        }
    }

    /// Ends it: counted and told, and a client that expects an answer gets one first.
    pub(crate) fn end(&mut self, end: &End, tools: &Tools) -> Fate {
        let counters = &tools.house.counters;
        self.settle_counts(tools);
        self.tell(end);
        count(match end {
            End::Finished => &counters.finished,
            End::TurnedAway(_) => &counters.turned_away,
            End::NotReached(..) => &counters.not_reached,
            End::Broken(_) => &counters.broken,
            End::TimedOut(_) => &counters.timed_out,
        });
        if let End::NotReached(verdict, _) = end
            && !matches!(self.stage, Stage::Farewell)
            && self.answer_near(*verdict)
        {
            self.begin_farewell(tools.now);
            return Fate::Busy;
        }
        if matches!(end, End::TurnedAway(_)) && matches!(self.stage, Stage::Farewell) {
            return Fate::Busy;
        }
        Fate::Over
    }

    /// Takes it apart; the sockets of one that has `finished` are closed in order, all others are reset.
    pub(crate) fn close(self, finished: bool) {
        if finished || matches!(self.stage, Stage::Farewell) {
            self.near.close();
            if let Some(far) = self.far.filter(|_| finished) {
                far.close();
            }
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.up.finished && self.down.finished
    }

    fn begin_farewell(&mut self, now: Time) {
        self.far = None;
        self.stage = Stage::Farewell;
        self.deadline = now + FAREWELL;
    }

    /// Lets the client have its answer: it must not be overtaken by the reset that unread bytes would cause. One that
    /// says more and more does not keep others from their turn.
    fn bid_farewell(&mut self, tools: &mut Tools) -> Turn {
        match self.near.end_writing() {
            Ok(true) => {}
            Ok(false) => return Turn::Waiting,
            Err(_) => return Turn::Finished,
        }
        for _ in 0..FAREWELL_READS {
            match self.near.read(&mut tools.scratch) {
                Ok(Arrived::Bytes(_)) => {}
                Ok(Arrived::Later) => return Turn::Waiting,
                Ok(Arrived::End) | Err(_) => return Turn::Finished,
            }
        }
        Turn::More
    }

    /// Tells the client what became of its wish, if it expects that; whether it does.
    fn answer_near(&mut self, verdict: Verdict) -> bool {
        let bound = self.far.as_ref().and_then(Leg::local);
        match &self.listener.kind {
            ListenerKind::Socks5(_) => self.near.send_first(&socks5::reply(verdict, bound)),
            ListenerKind::Peer(_) => self.near.send_first(&verdict.encode()),
            ListenerKind::Forward(_) | ListenerKind::Transparent => return false,
        }
        true
    }

    fn tell(&self, end: &End) {
        let client = self.client;
        let to = self.wish.as_ref().map(|wish| wish.destination.to_string()).unwrap_or_default();
        let (up, down) = (self.up.moved, self.down.moved);
        let listener = self.listener.kind.word();
        match end {
            End::Finished => tracing::debug!(%client, listener, to, up, down, "finished"),
            End::TurnedAway(why) => tracing::info!(%client, listener, "turned away: {why}"),
            End::NotReached(verdict, why) if why.is_empty() => {
                tracing::info!(%client, listener, to, "not reached: {verdict}");
            }
            End::NotReached(_, why) => tracing::info!(%client, listener, to, "not reached: {why}"),
            End::Broken(why) => tracing::info!(%client, listener, to, up, down, "broken: {why}"),
            End::TimedOut(what) => tracing::info!(%client, listener, to, up, down, "timed out: {what}"),
        }
    }
}
