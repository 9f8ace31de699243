//! Settings of a lab: its paths, mode and hosts.

use icdc_path::loss::Model;
use icdc_units::{ByteCount, Span};
use serde::{Deserialize, Serialize};

use crate::heading::Heading;

/// Ratio of the largest buffers to the bandwidth-delay product: Linux advertises half of a receive
/// buffer as window, and overhead takes of the other half (Tamatsukuri et al., "TCP/IP on a 10 Gbps
/// IPv6 network", figures 3 and 6).
const BUFFER_PER_BANDWIDTH_DELAY: u64 = 3;
/// Least TCP buffer that the hosts may have (`SOCK_MIN_RCVBUF`, rounded up).
pub const LEAST_BUFFER: ByteCount = ByteCount::new(4096);
/// Linux's default for the largest receive buffer (tcp(7)).
pub const USUAL_RECEIVE_BUFFER: ByteCount = ByteCount::from_mib(6);
/// Linux's default for the largest send buffer (tcp(7)).
const USUAL_SEND: ByteCount = ByteCount::from_mib(4);

/// Settings of a lab: the two directions of its path, and the set-up of its hosts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Settings of the path from host a to host b.
    pub forward: icdc_path::Settings,
    /// Settings of the path from host b to host a.
    pub backward: icdc_path::Settings,
    /// Mode in which packets cross.
    pub mode: Mode,
    /// Limits of the hosts' TCP buffers.
    pub buffers: Buffers,
    /// Acknowledgement policy of the hosts; `None`: that of their mode, every second packet or once
    /// per batch.
    #[serde(default)]
    pub acknowledge: Option<Acknowledge>,
    /// Whether the hosts' TCP asks for marks in place of drops (RFC 3168); whether the path gives
    /// any is the directions' own setting.
    #[serde(default)]
    pub ecn: bool,
    /// Whether processors may sleep while packets are in flight: saves power, costs punctuality.
    #[serde(default)]
    pub let_sleep: bool,
    /// Whether programs on the hosts may use the wire's processors too, behind the wire. This costs
    /// punctuality, and suits small machines whose programs need more than the other processors.
    #[serde(default)]
    pub share_processors: bool,
    /// Whether hosts are as Debian and Ubuntu configure them, whatever the settings of this
    /// machine: TCP buffers up to 6 MiB and 4 MiB, in place of `buffers`; 208 KiB for programs that
    /// set a size; CUBIC.
    #[serde(default)]
    pub stock: bool,
    /// Number of frames sent by host a that are listed one by one, for scenarios that examine each.
    #[serde(default)]
    pub listed: u64,
}

/// Limits of the hosts' TCP buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Buffers {
    /// Largest socket buffers as the path needs, and never less than Linux's default.
    #[default]
    Fitting,
    /// Largest socket buffers of this size, which may be less than the path needs.
    AtMost(ByteCount),
    /// Largest socket buffers as this machine limits them.
    Untouched,
}

/// Acknowledgement policy of a host for packets in order, once its receive window has stopped
/// growing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Acknowledge {
    /// The receiver acknowledges each packet.
    EveryPacket,
    /// The receiver acknowledges every second packet.
    EverySecond,
    /// The receiver acknowledges once all packets that arrive together (GRO).
    Batch,
}

/// Mode in which packets cross the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Packets cross one by one: segmentation offload is off on the hosts' devices.
    #[default]
    Exact,
    /// Packets cross as the hosts' stacks hand them over, many segments at once (segmentation
    /// offload), each charged by itself.
    Fast,
}

impl Settings {
    /// Equal paths both ways, except that the return path loses nothing.
    #[must_use]
    pub fn symmetric(forward: icdc_path::Settings) -> Self {
        let backward = icdc_path::Settings { loss: Model::None, ..forward.clone() };
        Self { forward, backward, ..Self::default() }
    }

    /// Largest TCP buffers of the hosts, for receiving and for sending; `None`: the machine's.
    #[must_use]
    pub fn largest_buffers(&self) -> Option<(ByteCount, ByteCount)> {
        let fitting = self.bandwidth_delay() * BUFFER_PER_BANDWIDTH_DELAY;
        match self.buffers {
            _ if self.stock => Some((USUAL_RECEIVE_BUFFER, USUAL_SEND)),
            Buffers::Untouched => None,
            Buffers::AtMost(size) => Some((size, size)),
            Buffers::Fitting => Some((fitting.max(USUAL_RECEIVE_BUFFER), fitting.max(USUAL_SEND))),
        }
    }

    /// Acknowledgement policy of the hosts; if none is set, the mode's own.
    #[must_use]
    pub fn acknowledgements(&self) -> Acknowledge {
        self.acknowledge.unwrap_or(match self.mode {
            Mode::Exact => Acknowledge::EverySecond,
            Mode::Fast => Acknowledge::Batch,
        })
    }

    /// Settings of one direction of the path.
    #[must_use]
    pub fn direction(&self, heading: Heading) -> &icdc_path::Settings {
        match heading {
            Heading::Forward => &self.forward,
            Heading::Backward => &self.backward,
        }
    }

    /// Time from a host to the other and back on an idle path.
    #[must_use]
    pub fn round_trip(&self) -> Span {
        self.forward.delay + self.backward.delay
    }

    /// Bandwidth-delay product: the faster rate times the round trip.
    #[must_use]
    pub fn bandwidth_delay(&self) -> ByteCount {
        self.forward.rate.max(self.backward.rate) * self.round_trip()
    }
}
