//! Packet loss for reasons other than a full queue.
//!
//! [`Model`] is the description, [`Loss`] the running process. Every process is a function of its
//! seed and of the number of packets offered, of nothing else: a run can be repeated.

mod burst;
mod listed;
mod random;

use serde::{Deserialize, Serialize};

pub use burst::Burst;
pub use listed::Listed;
pub use random::Random;

/// Description of the packet loss of a path that is not due to a full queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Model {
    /// No packet is lost.
    #[default]
    None,
    /// Each packet is lost independently, with this probability.
    Random(f64),
    /// Packets are lost in bursts (Gilbert's model): see [`Burst`].
    Burst {
        /// Share of all packets that is lost.
        ratio: f64,
        /// Mean length of a burst, in packets; at least 1.
        mean_length: f64,
    },
    /// Exactly these packets are lost, numbered from 1 in order of arrival.
    Listed(Vec<u64>),
}

/// Running process that decides for each packet whether the path loses it.
#[derive(Clone, Debug)]
pub enum Loss {
    /// No packet is lost.
    None,
    /// Each packet is lost independently.
    Random(Random),
    /// Packets are lost in bursts.
    Burst(Burst),
    /// Packets with listed numbers are lost.
    Listed(Listed),
}

impl Loss {
    /// Starts the process that `model` describes.
    #[must_use]
    pub fn new(model: &Model, seed: u64) -> Self {
        match model {
            Model::None => Self::None,
            Model::Random(ratio) => Self::Random(Random::new(*ratio, seed)),
            Model::Burst { ratio, mean_length } => Self::Burst(Burst::new(*ratio, *mean_length, seed)),
            Model::Listed(numbers) => Self::Listed(Listed::new(numbers)),
        }
    }

    /// Decides whether the next packet that arrives is lost; to be called once for each.
    pub fn loses_next(&mut self) -> bool {
        match self {
            Self::None => false,
            Self::Random(process) => process.loses_next(),
            Self::Burst(process) => process.loses_next(),
            Self::Listed(process) => process.loses_next(),
        }
    }
}
