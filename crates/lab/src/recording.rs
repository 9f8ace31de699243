//! What a wire told of a stretch of time, as series for reports.

use icdc_report::{Plot, Series, Stroke, Uniform, Unit, views};
use icdc_units::{Rate, Span};

use crate::settings::Settings;
use crate::wire::page::{BIN, Bin, Gauge, Global, HISTORY, Page, Way};

/// One direction, a millisecond at a time.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// From the first millisecond with a packet to the last.
    pub bins: Vec<Bin>,
}

impl Recording {
    /// What the page still has of one direction, or of its last `most`.
    #[must_use]
    pub fn of(page: &Page, way: Way, most: Span) -> Self {
        let number = |nanos: u64| nanos / BIN.as_nanos();
        let now = number(page.global(Global::Heartbeat));
        // Deliveries are noted ahead, where they will be.
        let ahead = 60_000;
        let kept = (most.as_millis()).min(HISTORY - ahead);
        let first = number(page.global(Global::Started)).max(now.saturating_sub(kept));
        let mut bins: Vec<Bin> = (first..now + ahead).map(|number| page.bin(way, number).unwrap_or_default()).collect();
        let is_empty = |bin: &Bin| *bin == Bin::default();
        let end = bins.iter().rposition(|bin| !is_empty(bin)).map_or(0, |last| last + 1);
        bins.truncate(end);
        let begin = bins.iter().position(|bin| !is_empty(bin)).unwrap_or(0);
        bins.drain(..begin);
        Self { bins }
    }

    /// How long it is.
    #[must_use]
    pub fn length(&self) -> Span {
        BIN * self.bins.len() as u64
    }

    /// Wire rate of what the path delivered, millisecond by millisecond.
    #[must_use]
    pub fn throughput(&self) -> Uniform {
        Uniform::rates(Span::ZERO, BIN, self.bins.iter().map(|bin| bin.delivered.as_u64() as i64).collect())
    }

    /// The papers' figure, the queue, and the rate at which the host sent.
    #[must_use]
    pub fn plots(&self, settings: &icdc_path::Settings) -> Vec<Plot> {
        let series = |value: fn(&Bin) -> i64| Uniform::new(Span::ZERO, BIN, self.bins.iter().map(value).collect());
        let mut marks = Vec::new();
        for (name, count) in [
            ("drops, queue full", (|bin| i64::from(bin.queue_drops)) as fn(&Bin) -> i64),
            ("lost at random", |bin| i64::from(bin.lost)),
        ] {
            if self.bins.iter().any(|bin| count(bin) > 0) {
                marks.push(views::marks(name, series(count)));
            }
        }
        let offered =
            Uniform::rates(Span::ZERO, BIN, self.bins.iter().map(|bin| bin.offered.as_u64() as i64).collect());
        let sent = vec![Series::new("1 ms window", Stroke::Faint, offered).column("sent")];
        vec![
            views::throughput(self.throughput(), Some(settings.rate), marks),
            views::queue(series(|bin| bin.queue.as_u64() as i64), Some(settings.queue)),
            Plot::new("Sent by the host", Unit::BitsPerSecond, sent),
        ]
    }

    /// Mean over everything.
    #[must_use]
    pub fn mean_rate(&self) -> Rate {
        self.mean_rate_between(0, self.bins.len())
    }

    /// Mean over the milliseconds `from..to`.
    #[must_use]
    pub fn mean_rate_between(&self, from: usize, to: usize) -> Rate {
        let bins = self.bins.get(from..to.min(self.bins.len())).unwrap_or_default();
        if bins.is_empty() {
            return Rate::ZERO;
        }
        bins.iter().map(|bin| bin.delivered).sum::<icdc_units::ByteCount>() / (BIN * bins.len() as u64)
    }

    /// Greatest mean over a second.
    #[must_use]
    pub fn peak_rate(&self) -> Rate {
        let second = 1000.min(self.bins.len());
        let starts = (0..=self.bins.len() - second).step_by(10);
        starts.map(|start| self.mean_rate_between(start, start + second)).max().unwrap_or(Rate::ZERO)
    }

    /// Standard deviation of the 1 ms rates between two milliseconds, as a share of their mean: how far the two views
    /// of the papers differ.
    #[must_use]
    pub fn variation(&self, from: usize, to: usize) -> f64 {
        let bins = self.bins.get(from..to.min(self.bins.len())).unwrap_or_default();
        let count = bins.len().max(1) as f64;
        let mean = bins.iter().map(|bin| bin.delivered.as_u64() as f64).sum::<f64>() / count;
        let square = bins.iter().map(|bin| (bin.delivered.as_u64() as f64 - mean).powi(2)).sum::<f64>() / count;
        if mean > 0.0 { square.sqrt() / mean } else { 0.0 }
    }

    /// First millisecond at whose end the mean over the last second reaches `rate`.
    #[must_use]
    pub fn reaches(&self, rate: Rate, window: Span) -> Option<Span> {
        let length = window.as_millis() as usize;
        (1..=self.bins.len())
            .find(|&end| {
                let from = end.saturating_sub(length);
                self.mean_rate_between(from, end).scaled((end - from) as u64, length as u64) >= rate
            })
            .map(|end| BIN * end as u64)
    }
}

/// Why a recording must not be used, if so: what the machine did to packets that the path had not decided.
#[must_use]
pub fn invalid(page: &Page, settings: &Settings, tolerance: Span) -> Option<String> {
    let drops = page.global(Global::DeviceDrops);
    if drops > 0 {
        return Some(format!("{drops} packets were dropped by the hosts' devices"));
    }
    for way in Way::BOTH {
        for (gauge, what) in [
            (Gauge::RingOverflow, "packets found the ring full"),
            (Gauge::SendFailures, "packets were refused by the far device"),
            (Gauge::Truncated, "packets were longer than a slot"),
        ] {
            let count = page.gauge(way, gauge);
            if count > 0 {
                return Some(format!("{count} {what}"));
            }
        }
        if settings.mode == crate::Mode::Exact && page.gauge(way, Gauge::Superpackets) > 0 {
            return Some("packets of many segments came in exact mode".to_owned());
        }
        let late = Span::from_nanos(page.gauge(way, Gauge::Lateness999));
        if late > tolerance {
            return Some(format!("one packet in a thousand was more than {late} late ({tolerance} are tolerated)"));
        }
    }
    None
}
