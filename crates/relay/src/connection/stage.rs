//! The stages of a connection, each with its data, and what leads from one to the next.

use std::sync::Arc;

use icdc_protocol::relay::Destination;
use icdc_protocol::relay::peer::Verdict;
use icdc_units::{ByteCount, Time};

use super::channel::Channel;
use super::client_protocol::Greeting;
use super::next_hop::{NextHop, Refusal, Route};
use crate::config::NextRelay;
use crate::flow::Flow;
use crate::leg::Leg;

/// Stage of a relayed connection, with its data.
pub(super) enum Stage {
    /// The client makes its request.
    Greeting(Greeting),
    /// The next hop is to be chosen.
    Routing(Box<Pending>),
    /// A name is being resolved.
    Resolving(Resolving),
    /// TCP connects to the next hop.
    Connecting(Connecting),
    /// The TLS handshake with the next relay is in progress.
    Securing(Securing),
    /// The next relay has the request and has not answered; the client's data already follows.
    Requesting(Requesting),
    /// Data flows in both directions.
    Relaying(Relaying),
    /// The client, whose request has failed, gets its reply.
    Closing(Closing),
    /// The connection is over.
    Closed,
}

/// Request of a client that has not reached its destination, with the data that the client has sent
/// behind it.
pub(super) struct Pending {
    pub(super) route: Route,
    /// Data that the client has sent behind its request.
    pub(super) up: Flow,
}

/// Data of the stage [`Stage::Resolving`].
pub(super) struct Resolving {
    pub(super) pending: Box<Pending>,
    /// Number of the query; answers to earlier ones may come late.
    pub(super) query: u64,
    pub(super) target: Target,
    pub(super) deadline: Time,
}

/// For what a name is being resolved.
pub(super) enum Target {
    /// The destination, which is then reached directly or as the routes say.
    Destination { directly: bool },
    /// The name is the next relay's.
    Relay(Arc<NextRelay>),
}

/// Data of the stage [`Stage::Connecting`].
pub(super) struct Connecting {
    pub(super) pending: Box<Pending>,
    pub(super) hop: NextHop,
    pub(super) far: Leg,
    pub(super) deadline: Time,
}

/// Data of the stage [`Stage::Securing`].
pub(super) struct Securing {
    pub(super) pending: Box<Pending>,
    pub(super) relay: Arc<NextRelay>,
    pub(super) far: Leg,
    pub(super) deadline: Time,
}

/// Data of the stage [`Stage::Requesting`].
pub(super) struct Requesting {
    pub(super) route: Route,
    pub(super) relay: Arc<NextRelay>,
    /// The leg was open before the request came.
    pub(super) was_warm: bool,
    /// Bytes of the answer that have arrived.
    pub(super) answer: Vec<u8>,
    pub(super) deadline: Time,
    pub(super) channel: Box<Channel>,
}

/// Data of the stage [`Stage::Relaying`].
pub(super) struct Relaying {
    pub(super) destination: Destination,
    pub(super) hop: NextHop,
    pub(super) channel: Box<Channel>,
}

/// Data of the stage [`Stage::Closing`]: a client whose request has failed has until the deadline
/// to read the reply, which its leg sends.
pub(super) struct Closing {
    pub(super) deadline: Time,
    /// Requested destination and hop, for the status.
    pub(super) destination: Option<String>,
    pub(super) via: Option<String>,
}

/// Result of a stage's step.
pub(super) enum Transition {
    /// The connection stays in this stage and waits for an event.
    Wait(Stage),
    /// The connection stays in this stage and has more to do, after a turn of the others.
    Yield(Stage),
    /// The connection enters this stage, and its step follows at once.
    Next(Stage),
    /// The connection is over in this stage.
    End(Stage, End),
}

/// End of a relayed connection.
#[derive(Debug)]
pub(super) enum End {
    /// Both sides have ended their direction.
    Finished,
    /// The client has closed, or is not admitted. A client that expects a reply gets it before the
    /// connection is closed; with TLS, an empty one lets it read the alert.
    Rejected { reason: String, reply: Option<Vec<u8>> },
    /// The destination could not be reached.
    Unreachable(Refusal),
    /// A leg failed.
    Aborted(String),
    /// Nothing has happened for too long; what was awaited.
    TimedOut(&'static str),
}

impl End {
    /// End of a connection whose destination cannot be reached: the verdict for the client, and the
    /// reason for the log.
    pub(super) fn unreachable(verdict: Verdict, why: impl Into<String>) -> Self {
        Self::Unreachable(Refusal(verdict, why.into()))
    }
}

impl Pending {
    /// Continues with the next candidate, because this one has failed.
    pub(super) fn next_candidate(mut self: Box<Self>, failed: &impl std::fmt::Display, why: Refusal) -> Transition {
        self.route.failed(failed, why);
        Transition::Next(Stage::Routing(self))
    }
}

impl Resolving {
    /// Continues with the next candidate, because the name was not resolved.
    pub(super) fn failed(self, why: Refusal) -> Transition {
        let name = match self.target {
            Target::Destination { .. } => self.pending.route.request.destination.to_string(),
            Target::Relay(relay) => NextHop::Relay(relay).to_string(),
        };
        self.pending.next_candidate(&name, why)
    }
}

impl Stage {
    /// Name of the stage in the relay's status.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Greeting(_) => "greeting",
            Self::Routing(_) => "routing",
            Self::Resolving(_) => "resolving",
            Self::Connecting(_) => "connecting",
            Self::Securing(_) => "securing",
            Self::Requesting(_) => "requesting",
            Self::Relaying(_) => "relaying",
            Self::Closing(_) => "closing",
            Self::Closed => "closed",
        }
    }

    /// The leg to the next hop, from the beginning of connecting to it until the connection closes;
    /// else `None`.
    pub(super) fn far(&self) -> Option<&Leg> {
        match self {
            Self::Connecting(Connecting { far, .. }) | Self::Securing(Securing { far, .. }) => Some(far),
            Self::Requesting(Requesting { channel, .. }) | Self::Relaying(Relaying { channel, .. }) => {
                Some(&channel.far)
            }
            Self::Greeting(_) | Self::Routing(_) | Self::Resolving(_) | Self::Closing(_) | Self::Closed => None,
        }
    }

    /// The leg to the next hop, from the beginning of connecting to it until the connection closes;
    /// else `None`.
    pub(super) fn far_mut(&mut self) -> Option<&mut Leg> {
        match self {
            Self::Connecting(Connecting { far, .. }) | Self::Securing(Securing { far, .. }) => Some(far),
            Self::Requesting(Requesting { channel, .. }) | Self::Relaying(Relaying { channel, .. }) => {
                Some(&mut channel.far)
            }
            Self::Greeting(_) | Self::Routing(_) | Self::Resolving(_) | Self::Closing(_) | Self::Closed => None,
        }
    }

    /// The flows of data, while the stage is Requesting or Relaying; else `None`.
    pub(super) fn channel(&self) -> Option<&Channel> {
        match self {
            Self::Requesting(Requesting { channel, .. }) | Self::Relaying(Relaying { channel, .. }) => Some(channel),
            _ => None,
        }
    }

    /// The flows of data, while the stage is Requesting or Relaying; else `None`.
    pub(super) fn channel_mut(&mut self) -> Option<&mut Channel> {
        match self {
            Self::Requesting(Requesting { channel, .. }) | Self::Relaying(Relaying { channel, .. }) => Some(channel),
            _ => None,
        }
    }

    /// Bytes in user space that the client has sent behind its request, before there is a channel.
    pub(super) fn early_bytes(&self) -> ByteCount {
        match self {
            Self::Routing(pending)
            | Self::Resolving(Resolving { pending, .. })
            | Self::Connecting(Connecting { pending, .. })
            | Self::Securing(Securing { pending, .. }) => ByteCount::from(pending.up.buffered()),
            _ => ByteCount::ZERO,
        }
    }

    /// Destination that the client has requested; `None` before it is known, and once the
    /// connection is closed.
    pub(super) fn destination(&self) -> Option<String> {
        match self {
            Self::Routing(pending)
            | Self::Resolving(Resolving { pending, .. })
            | Self::Connecting(Connecting { pending, .. })
            | Self::Securing(Securing { pending, .. }) => Some(pending.route.request.destination.to_string()),
            Self::Requesting(Requesting { route, .. }) => Some(route.request.destination.to_string()),
            Self::Relaying(Relaying { destination, .. }) => Some(destination.to_string()),
            Self::Closing(closing) => closing.destination.clone(),
            Self::Greeting(_) | Self::Closed => None,
        }
    }

    /// Name of the next hop, `direct` or the next relay; `None` before it is known, and once the
    /// connection is closed.
    pub(super) fn via(&self) -> Option<String> {
        match self {
            Self::Resolving(Resolving { target: Target::Destination { .. }, .. }) => Some("direct".to_owned()),
            Self::Resolving(Resolving { target: Target::Relay(relay), .. })
            | Self::Securing(Securing { relay, .. })
            | Self::Requesting(Requesting { relay, .. }) => Some(relay.place.to_string()),
            Self::Connecting(Connecting { hop, .. }) | Self::Relaying(Relaying { hop, .. }) => Some(hop.via()),
            Self::Closing(closing) => closing.via.clone(),
            Self::Greeting(_) | Self::Routing(_) | Self::Closed => None,
        }
    }
}
