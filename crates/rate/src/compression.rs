//! Decision about compression: while it brings more data over the path than it costs.
//!
//! ```text
//!  w     rate at which bytes reach the receiver's host, while the network limits, or a ceiling that
//!        somebody has set to the rate
//!  r_l   what a byte on the way stands for at level l, by trials of the data itself (r_0 = 1)
//!  s_l   what one thread compresses per second at level l, by the same trials
//!  p     processors that nothing of this process uses, but for compressing
//!
//!  g_l = min(w · r_l, s_l · p)      g_0 = w          what level l would bring
//!
//!  network limits      the level with the greatest g_l, if that is GAIN above what there is
//!  processors limit    a level lower
//!  a disk limits       none, unless what arrives is more than w: the path alone would not bring it
//! ```
//!
//! Trials. Blocks that are compressed are trials of their level; besides, of some blocks the first
//! bytes are compressed at every level and thrown away, but only while the network limits. What
//! limits is known after a while, when a slow path's queue is full of what was sent as it is: so the
//! first blocks are compressed at the lowest level, whatever limits.
//!
//! After a level was lowered it is not raised for a time that doubles with each repetition.
//!
//! Memory of an [`Neighbours`]: where a block did not shrink, 1, 2, 4 … of the following ones are not
//! tried, until one shrinks.

use icdc_units::{ByteCount, Rate, Span, Time};

/// Highest level that is chosen. At levels above, zstd becomes several times slower for a few per
/// cent less data. Chosen: no test fails at 2 and 5.
pub const TOP_LEVEL: u8 = 3;
/// Time over which what limits is observed: about a round trip of a long path. Chosen: no test fails
/// at 125 ms and 500 ms.
const PERIOD: Span = Span::from_millis(250);
/// Number of blocks at the beginning that are compressed before it is known what limits: as many as
/// wait between the disk and the socket. Chosen: no test fails at 4 and 16.
const OPENING: u32 = 8;
/// Of so many blocks one is sampled, while none is compressed, and while they are. Chosen: at 16 test
/// `data_that_begins_to_shrink_is_seen_soon` fails; at 4 no test fails.
const SAMPLE_ONE_IN: u32 = 8;
/// Change of what arrives for which a level is left for another, in per cent. Chosen: no test fails at
/// 105 and 120.
const GAIN_PERCENT: u64 = 110;
/// Most blocks in sequence that are not tried. Chosen: 128 MiB of a large file; not varied.
const MOST_SKIPPED: u32 = 32;
/// Number of trials of a level after which older ones count half: what a disk has in one place is often
/// of one kind. Chosen: no test fails at 16 and 64.
const MEMORY: u32 = 32;
/// Least time for which a level that was lowered is not raised, and the longest. Chosen: no test fails
/// at half and at twice of both.
const HOLD: [Span; 2] = [Span::from_secs(3), Span::from_secs(60)];

/// The user's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// None.
    Never,
    /// As this module decides.
    Auto,
    /// Always at this level.
    Level(u8),
}

/// Part of the transfer that limits its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bottleneck {
    /// The path, or a limit that somebody has set to what is sent over it.
    Network,
    /// A disk at either end.
    Disk,
    /// Digests, compression or encryption.
    Processor,
    /// The transfer begins, scans or ends.
    None,
}

/// Reason for which nothing is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A disk limits.
    Disk,
    /// No processor is idle, or compressing takes longer than sending.
    Processor,
    /// The data does not shrink.
    Data,
}

/// State of the transfer at one time.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    /// Part that has limited the rate since the last observation.
    pub limits: Bottleneck,
    /// Bytes that have reached the receiver's host so far.
    pub delivered: ByteCount,
    /// Bytes that those stand for.
    pub stand_for: ByteCount,
    /// Processor time that this process has used so far, other than for compressing.
    pub worked: Span,
}

/// Treatment of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    /// Level at which it is compressed; `None` to send it as it is.
    pub level: Option<u8>,
    /// Whether its first bytes are tried at each level up to [`TOP_LEVEL`].
    pub sample: bool,
}

/// Result of compressing a block or a sample.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trial {
    /// Length of the data.
    pub plain: ByteCount,
    /// Length that it was compressed to, or that of the data.
    pub compressed: ByteCount,
    /// Time that this took.
    pub took: Span,
}

/// A change of the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Level from now on; 0 for none.
    pub level: u8,
    /// Reason for none; `None` with a level.
    pub reason: Option<Reason>,
}

/// Memory of whether neighbouring blocks, such as those of one file, shrink.
#[derive(Clone, Copy, Debug, Default)]
pub struct Neighbours {
    /// Number of blocks that are not tried.
    skip: u32,
    /// Number that was skipped last; 0 if the last trial has shrunk.
    skipped: u32,
}

/// The decision for one transfer.
#[derive(Debug)]
pub struct Compression {
    setting: Setting,
    processors: u64,
    level: u8,
    reason: Option<Reason>,
    /// Results by level, the first of level 1, and their number since older ones were halved.
    trials: [(Trial, u32); TOP_LEVEL as usize],
    /// Number of blocks so far.
    blocks: u32,
    /// Part that limited in the last period; `None` before the first has ended.
    limits: Option<Bottleneck>,
    period: Option<Period>,
    /// Rate of the network when it limited last.
    network: Option<Rate>,
    /// Time until which the level is not raised, and the length of the next such time.
    hold: (Time, Span),
}

/// A period in progress.
#[derive(Clone, Copy, Debug)]
struct Period {
    begun: Time,
    at_begin: Observed,
    last: Time,
    /// Time by what limited: network, disk, processor.
    limited: [Span; 3],
}

/// Observations of a period.
struct Seen {
    span: Span,
    network: Rate,
    goodput: Rate,
    /// Processor time that was left.
    idle: Span,
}

impl Compression {
    /// A decision that begins, for a process that may use so many processors.
    #[must_use]
    pub fn new(setting: Setting, processors: u64) -> Self {
        let level = match setting {
            Setting::Level(level) => level,
            Setting::Never | Setting::Auto => 0,
        };
        let trials = [(Trial::default(), 0); TOP_LEVEL as usize];
        let hold = (Time::ORIGIN, HOLD[0]);
        let (reason, limits, period, network) = (None, None, None, None);
        Self { setting, processors, level, reason, trials, blocks: 0, limits, period, network, hold }
    }

    /// Level at which blocks are compressed; 0 for none.
    #[must_use]
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Reason for which none is compressed; `None` where blocks are, where the user has decided, and
    /// before it is known.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        self.reason
    }

    /// Decides about the next block, by its neighbours before it.
    pub fn next(&mut self, neighbours: &mut Neighbours) -> Attempt {
        let number = self.blocks;
        self.blocks = self.blocks.saturating_add(1);
        let level = match self.setting {
            Setting::Never => return Attempt::default(),
            Setting::Level(level) => return Attempt { level: neighbours.tries().then_some(level), sample: false },
            Setting::Auto if self.limits.is_none() && number < OPENING => 1,
            Setting::Auto => self.level,
        };
        let is_of_use = matches!(self.limits, None | Some(Bottleneck::Network));
        let sample = is_of_use && number.is_multiple_of(SAMPLE_ONE_IN);
        Attempt { level: (level > 0 && neighbours.tries()).then_some(level), sample }
    }

    /// Takes the result of a sample at this level, or of a block.
    pub fn on_trial(&mut self, level: u8, trial: Trial) {
        let Some((sum, number)) = self.trials.get_mut(usize::from(level).wrapping_sub(1)) else { return };
        *number += 1;
        if *number > MEMORY {
            *sum = Trial { plain: sum.plain / 2, compressed: sum.compressed / 2, took: sum.took / 2 };
            *number = MEMORY / 2;
        }
        sum.plain += trial.plain;
        sum.compressed += trial.compressed;
        sum.took += trial.took;
    }

    /// Observes the transfer, and decides once a period has ended; returns what has changed.
    pub fn on_tick(&mut self, now: Time, observed: Observed) -> Option<Change> {
        if self.setting != Setting::Auto {
            return None;
        }
        let fresh = Period { begun: now, at_begin: observed, last: now, limited: [Span::ZERO; 3] };
        let period = self.period.get_or_insert(fresh);
        let elapsed = now - period.last;
        period.last = now;
        let place = match observed.limits {
            Bottleneck::Network => Some(0),
            Bottleneck::Disk => Some(1),
            Bottleneck::Processor => Some(2),
            Bottleneck::None => None,
        };
        if let Some(place) = place {
            period.limited[place] += elapsed;
        }
        let span = now - period.begun;
        if span < PERIOD {
            return None;
        }
        let Period { at_begin, limited, .. } = std::mem::replace(period, fresh);
        let (place, longest) = limited.into_iter().enumerate().max_by_key(|(_, span)| *span)?;
        if longest * 2 < span {
            return None;
        }
        let seen = Seen {
            span,
            network: (observed.delivered - at_begin.delivered) / span,
            goodput: (observed.stand_for - at_begin.stand_for) / span,
            idle: span * self.processors - (observed.worked - at_begin.worked),
        };
        let before = (self.level, self.reason);
        let limits = [Bottleneck::Network, Bottleneck::Disk, Bottleneck::Processor][place];
        self.limits = Some(limits);
        self.decide(now, limits, &seen);
        let after = (self.level, self.reason);
        (after != before).then_some(Change { level: self.level, reason: self.reason })
    }

    /// Changes level or reason by what has limited in a period.
    fn decide(&mut self, now: Time, limits: Bottleneck, seen: &Seen) {
        match limits {
            Bottleneck::Network => {
                self.network = Some(seen.network);
                self.choose(now, seen);
            }
            Bottleneck::Processor => {
                let lower = self.level.saturating_sub(1);
                self.lower(now, lower, Reason::Processor);
            }
            Bottleneck::Disk => {
                let brings_more = self.network.is_some_and(|network| seen.goodput * 100 > network * GAIN_PERCENT);
                if self.level == 0 || !brings_more {
                    self.lower(now, 0, Reason::Disk);
                }
            }
            Bottleneck::None => {}
        }
    }

    /// Changes to a lower level, or stays at none.
    fn lower(&mut self, now: Time, level: u8, reason: Reason) {
        if self.level > 0 {
            let (_, pause) = self.hold;
            self.hold = (now + pause, (pause * 2).min(HOLD[1]));
        }
        self.set(level, reason);
    }

    /// Sets the level; the reason is of use where that is none.
    fn set(&mut self, level: u8, reason: Reason) {
        self.level = level;
        self.reason = (level == 0).then_some(reason);
    }

    /// Changes to the level that brings most.
    fn choose(&mut self, now: Time, seen: &Seen) {
        let Some((best, rate)) = (1..=TOP_LEVEL)
            .filter_map(|level| Some((level, self.brings(level, seen)?)))
            // Of equals the lowest.
            .rev()
            .max_by_key(|(_, rate)| *rate)
        else {
            return;
        };
        let is_gain = |rate: Rate, other: Rate| rate * 100 >= other * GAIN_PERCENT;
        let present = match self.level {
            0 => seen.network,
            level => self.brings(level, seen).unwrap_or(seen.network),
        };
        if !is_gain(rate, seen.network) {
            let shrinks = (1..=TOP_LEVEL).any(|level| self.shrinks(level));
            return self.lower(now, 0, if shrinks { Reason::Processor } else { Reason::Data });
        }
        let may_rise = best <= self.level || now >= self.hold.0;
        if best != self.level && may_rise && is_gain(rate, present) {
            self.set(best, Reason::Data);
        } else if self.level > 0 && !is_gain(present, seen.network) {
            self.lower(now, best.min(self.level), Reason::Processor);
        }
    }

    /// Rate at which data would arrive at this level; `None` while it has not been tried.
    fn brings(&self, level: u8, seen: &Seen) -> Option<Rate> {
        let Trial { plain, compressed, took } = self.trial(level)?;
        let by_network = seen.network.scaled(plain.as_u64(), compressed.as_u64().max(1));
        let by_processors = (plain / took.max(Span::from_nanos(1))).scaled(seen.idle.as_nanos(), seen.span.as_nanos());
        Some(by_network.min(by_processors))
    }

    /// Whether trials at this level saved enough.
    fn shrinks(&self, level: u8) -> bool {
        self.trial(level).is_some_and(|trial| trial.plain * 100 >= trial.compressed * GAIN_PERCENT)
    }

    /// Sum of the trials at this level; `None` before the first.
    fn trial(&self, level: u8) -> Option<Trial> {
        let (trial, _) = self.trials.get(usize::from(level).checked_sub(1)?)?;
        (!trial.plain.is_zero()).then_some(*trial)
    }
}

impl Neighbours {
    /// Whether the next block is tried; counts it if not.
    fn tries(&mut self) -> bool {
        self.skip = match self.skip.checked_sub(1) {
            Some(left) => left,
            None => return true,
        };
        false
    }

    /// Takes whether a block that was tried has shrunk.
    pub fn on_tried(&mut self, has_shrunk: bool) {
        self.skipped = if has_shrunk { 0 } else { (self.skipped * 2).clamp(1, MOST_SKIPPED) };
        self.skip = self.skipped;
    }
}

#[cfg(test)]
mod tests;
