//! Properties of one direction of a path, checked before anything is built from them.

use icdc_units::{ByteCount, Rate, Span};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::codel::Parameters;
use crate::loss::Model;
use crate::{Change, Frame, WIRE_OVERHEAD};

/// Highest rate of a bottleneck or line that settings may have: beyond any Ethernet that is sold.
pub const MAX_RATE: Rate = Rate::from_bits_per_second(1_600_000_000_000);
/// Longest delay of one direction that settings may have, jitter included: thirty seconds are
/// beyond the Moon and back, and any TCP.
pub const MAX_DELAY: Span = Span::from_secs(30);
/// Maximum number of packets in the list of a [`Model::Listed`].
const MAX_LISTED: usize = 1_000_000;

/// Settings of one direction of an emulated or simulated path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Rate of the bottleneck, in bits on the wire.
    pub rate: Rate,
    /// Propagation delay of the direction.
    pub delay: Span,
    /// Greatest jitter: additional delay, drawn uniformly from zero to this.
    pub jitter: Span,
    /// Bytes on the wire that may wait at the bottleneck.
    pub queue: ByteCount,
    /// Parameters of CoDel, which keeps the queue short; `None`: drop-tail alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codel: Option<Parameters>,
    /// Model of the loss before the bottleneck.
    pub loss: Model,
    /// Rate of the line between host and path; `None`: infinite.
    pub line_rate: Option<Rate>,
    /// MTU: payload of the largest frame, in bytes.
    pub mtu: ByteCount,
    /// Seed of all randomness.
    pub seed: u64,
    /// Changes in the course of time, earliest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}

impl Default for Settings {
    /// 1 Gbit/s without delay or loss, MTU 1500, a queue of 2.5 MB.
    fn default() -> Self {
        Self {
            rate: Rate::from_bits_per_second(1_000_000_000),
            delay: Span::ZERO,
            jitter: Span::ZERO,
            queue: ByteCount::new(2_500_000),
            codel: None,
            loss: Model::None,
            line_rate: None,
            mtu: ByteCount::new(1500),
            seed: 1,
            changes: Vec::new(),
        }
    }
}

/// Reason for which settings are invalid.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum SettingsError {
    /// A rate below 8 bit/s or beyond [`MAX_RATE`].
    #[error("{what} of {rate} cannot be emulated: give 8bit to {MAX_RATE}")]
    Rate {
        /// Description of what has this rate.
        what: &'static str,
        /// The given rate.
        rate: Rate,
    },
    /// Delay and jitter together beyond [`MAX_DELAY`].
    #[error("a one-way delay of {delay} (jitter included) is too long: give {MAX_DELAY} at most")]
    Delay {
        /// The given delay.
        delay: Span,
    },
    /// The queue cannot take a single frame.
    #[error("a queue of {queue} cannot hold one frame: with this MTU give {least} or more")]
    Queue {
        /// The given limit.
        queue: ByteCount,
        /// Wire length of the largest frame.
        least: ByteCount,
    },
    /// An MTU outside 576 to 65535.
    #[error("an MTU of {0} cannot be used: give 576 to 65535 bytes")]
    Mtu(ByteCount),
    /// A loss ratio outside 0 to 1, or of 1 for bursts.
    #[error("a loss ratio of {0} makes no sense: give 0 to 1, such as 1e-6")]
    LossRatio(f64),
    /// A mean length of bursts that does not fit the ratio.
    #[error(
        "bursts of {mean_length} packets cannot make up a loss ratio of {ratio}: give a length of 1 or more, and of {least} or more for this ratio"
    )]
    BurstLength {
        /// The ratio asked for.
        ratio: f64,
        /// The length asked for.
        mean_length: f64,
        /// The least length for the ratio.
        least: f64,
    },
    /// CoDel with a target of zero, or an interval no longer than the target.
    #[error(
        "CoDel with a target of {target} in an interval of {interval} makes no sense: give a target above zero and a longer interval"
    )]
    Codel {
        /// The target asked for.
        target: Span,
        /// The interval asked for.
        interval: Span,
    },
    /// Changes that do not follow each other.
    #[error("the change after {0} stands behind a later one: give changes in the order of time")]
    Order(Span),
    /// The list has too many packets to be lost; their number.
    #[error("{0} packets are listed for loss: give 1000000 at most, or a ratio")]
    Listed(usize),
}

/// MTUs that are permitted, from IPv4's smallest reassembly buffer (RFC 791) on.
const MTU_RANGE: std::ops::RangeInclusive<u64> = 576..=65_535;
/// Bytes of an Ethernet header.
const ETHERNET_HEADER: ByteCount = ByteCount::new(14);

impl Settings {
    /// Wire length of the largest frame.
    #[must_use]
    pub fn largest_frame(&self) -> ByteCount {
        Frame::data(self.mtu + ETHERNET_HEADER).wire_length()
    }

    /// Most bytes of Ethernet frames, without the overhead on the wire, that can be in transit at
    /// once: the bottleneck's rate times the longest delay, its queue, and one frame.
    #[must_use]
    pub fn in_flight(&self) -> ByteCount {
        let rate = self.changes.iter().map(|change| change.rate).fold(self.rate, Rate::max);
        let delay = self.changes.iter().map(|change| change.delay).fold(self.delay, Span::max);
        let on_wire = rate * (delay + self.jitter) + self.queue + self.largest_frame();
        let largest = self.largest_frame().as_u64();
        on_wire.scaled(largest - WIRE_OVERHEAD.as_u64(), largest)
    }

    /// Checks the settings, as they are and after each change.
    ///
    /// # Errors
    /// See [`SettingsError`].
    pub fn check(&self) -> Result<(), SettingsError> {
        for (what, rate) in [("a bottleneck", Some(self.rate)), ("a line", self.line_rate)] {
            if let Some(rate) = rate.filter(|rate| rate.as_bytes_per_second() == 0 || *rate > MAX_RATE) {
                return Err(SettingsError::Rate { what, rate });
            }
        }
        if self.delay + self.jitter > MAX_DELAY {
            return Err(SettingsError::Delay { delay: self.delay + self.jitter });
        }
        if !MTU_RANGE.contains(&self.mtu.as_u64()) {
            return Err(SettingsError::Mtu(self.mtu));
        }
        if self.queue < self.largest_frame() {
            return Err(SettingsError::Queue { queue: self.queue, least: self.largest_frame() });
        }
        if let Some(Parameters { target, interval, .. }) = self.codel
            && (target.is_zero() || interval <= target)
        {
            return Err(SettingsError::Codel { target, interval });
        }
        let mut before = Span::ZERO;
        for &Change { after, rate, delay, .. } in &self.changes {
            if after < before {
                return Err(SettingsError::Order(after));
            }
            before = after;
            Self { rate, delay, changes: Vec::new(), ..self.clone() }.check()?;
        }
        check_loss(&self.loss)
    }
}

/// Checks the loss model's ratio, length of bursts, or length of its list.
fn check_loss(loss: &Model) -> Result<(), SettingsError> {
    match *loss {
        Model::Random(ratio) | Model::Burst { ratio, .. } if !(0.0..=1.0).contains(&ratio) => {
            Err(SettingsError::LossRatio(ratio))
        }
        // Every packet lost leaves no gaps for bursts to end in.
        Model::Burst { ratio, .. } if ratio >= 1.0 => Err(SettingsError::LossRatio(ratio)),
        Model::Burst { ratio, mean_length } => {
            let least = (ratio / (1.0 - ratio)).max(1.0);
            if mean_length >= least && mean_length.is_finite() {
                Ok(())
            } else {
                Err(SettingsError::BurstLength { ratio, mean_length, least })
            }
        }
        Model::Listed(ref numbers) if numbers.len() > MAX_LISTED => Err(SettingsError::Listed(numbers.len())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_settings_are_refused() {
        let usual = Settings::default;
        assert_eq!(usual().check(), Ok(()));
        let zero = Settings { rate: Rate::ZERO, ..usual() };
        assert!(matches!(zero.check(), Err(SettingsError::Rate { what: "a bottleneck", .. })));
        let line = Settings { line_rate: Some(Rate::MAX), ..usual() };
        assert!(matches!(line.check(), Err(SettingsError::Rate { what: "a line", .. })));
        let delay = Settings { delay: Span::from_secs(30), jitter: Span::from_nanos(1), ..usual() };
        assert!(matches!(delay.check(), Err(SettingsError::Delay { .. })));
        let queue = Settings { queue: ByteCount::new(1537), ..usual() };
        assert_eq!(
            queue.check().unwrap_err().to_string(),
            "a queue of 1.537kB cannot hold one frame: with this MTU give 1.538kB or more"
        );
        assert_eq!(Settings { queue: ByteCount::new(1538), ..usual() }.check(), Ok(()));
        for ratio in [-0.1, 1.1, f64::NAN] {
            let loss = Settings { loss: Model::Random(ratio), ..usual() };
            assert!(matches!(loss.check(), Err(SettingsError::LossRatio(_))), "{ratio}");
        }
        for (ratio, mean_length) in [(0.01, 0.5), (0.9, 2.0), (0.1, f64::NAN)] {
            let loss = Settings { loss: Model::Burst { ratio, mean_length }, ..usual() };
            assert!(matches!(loss.check(), Err(SettingsError::BurstLength { .. })), "{ratio} {mean_length}");
        }
        assert!(matches!(Settings { mtu: ByteCount::new(100), ..usual() }.check(), Err(SettingsError::Mtu(_))));
    }

    #[test]
    fn in_flight_is_rate_times_delay_and_the_queue() {
        let settings = Settings { delay: Span::from_millis(150), ..Settings::default() };
        // (18.75 MB + 2.5 MB + 1538 B) × 1514 / 1538.
        assert_eq!(settings.in_flight(), ByteCount::new(20_919_914));
    }
}
