//! The metrics of a part at one instant, read from that part's own counters.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::Format;

/// Value of a metric's sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// An integer count, exact for all of `u64`.
    Count(u64),
    /// Any other value.
    Real(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Count(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

/// Metrics of one part of the program (relay, copy, pace), with their values at one instant, to be
/// written as text.
#[derive(Debug, Default)]
pub struct Reading {
    /// Labels that all samples have.
    common: Labels,
    families: Vec<Family>,
}

/// Names and values of labels.
type Labels = Vec<(&'static str, String)>;

/// A metric of one name with its samples, one for each combination of labels.
#[derive(Debug)]
struct Family {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    samples: Vec<(Labels, Value)>,
}

/// Units that a metric's name may end in, the longest first.
const UNITS: [&str; 4] = ["bytes_per_second", "seconds", "bytes", "ratio"];

impl Reading {
    /// A reading without metrics and common labels.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a label to all samples.
    #[must_use]
    pub fn with_label(mut self, name: &'static str, value: &str) -> Self {
        self.common.push((name, value.to_owned()));
        self
    }

    /// Adds a counter, named without `_total`. `help` is a sentence without its full stop.
    pub fn counter<L: IntoLabels>(
        &mut self,
        name: &'static str,
        help: &'static str,
        samples: impl IntoIterator<Item = (L, Value)>,
    ) {
        self.add(name, help, MetricType::Counter, samples);
    }

    /// Adds a gauge. `help` is a sentence without its full stop.
    pub fn gauge<L: IntoLabels>(
        &mut self,
        name: &'static str,
        help: &'static str,
        samples: impl IntoIterator<Item = (L, Value)>,
    ) {
        self.add(name, help, MetricType::Gauge, samples);
    }

    /// Adds a metric of this kind with its samples.
    fn add<L: IntoLabels>(
        &mut self,
        name: &'static str,
        help: &'static str,
        kind: MetricType,
        samples: impl IntoIterator<Item = (L, Value)>,
    ) {
        let samples = samples.into_iter().map(|(labels, value)| (labels.into_labels(), value)).collect();
        self.families.push(Family { name, help, kind, samples });
    }

    /// All metrics as text in this format.
    #[must_use]
    pub fn text(self, format: Format) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        format.text(&registry)
    }
}

/// Labels of one sample: `()` for none, or an array of names and values.
pub trait IntoLabels {
    /// The labels as owned pairs of name and value.
    fn into_labels(self) -> Vec<(&'static str, String)>;
}

impl IntoLabels for () {
    fn into_labels(self) -> Labels {
        Labels::new()
    }
}

impl<V: Into<String>, const N: usize> IntoLabels for [(&'static str, V); N] {
    fn into_labels(self) -> Labels {
        self.map(|(name, value)| (name, value.into())).into()
    }
}

impl Collector for Reading {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        // A family without samples tells nothing.
        for family in self.families.iter().filter(|family| !family.samples.is_empty()) {
            let (name, unit) = split_unit(family.name);
            let help = format!("{}.", family.help);
            let mut metric = encoder.encode_descriptor(name, &help, unit.as_ref(), family.kind)?;
            for (labels, value) in &family.samples {
                let labels: Labels = self.common.iter().chain(labels).cloned().collect();
                let sample = metric.encode_family(&labels)?;
                match (family.kind, *value) {
                    (MetricType::Counter, Value::Count(value)) => ConstCounter::new(value).encode(sample)?,
                    (MetricType::Counter, Value::Real(value)) => ConstCounter::new(value).encode(sample)?,
                    (_, Value::Count(value)) => ConstGauge::new(value).encode(sample)?,
                    (_, Value::Real(value)) => ConstGauge::new(value).encode(sample)?,
                }
            }
        }
        Ok(())
    }
}

/// Splits a metric's name into the rest and its unit: the encoder joins them again, and writes the
/// unit.
pub(crate) fn split_unit(name: &str) -> (&str, Option<Unit>) {
    for unit in UNITS {
        if let Some(rest) = name.strip_suffix(unit).and_then(|rest| rest.strip_suffix('_')) {
            return (rest, Some(Unit::Other(unit.to_owned())));
        }
    }
    (name, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading() -> Reading {
        let mut reading = Reading::new().with_label("device", "a\"b\\c\nd");
        reading.counter("icdc_pace_late_seconds", "Time lost", [((), 1.5.into())]);
        reading.gauge("icdc_pace_waiting", "Frames that wait", [([("class", "x")], u64::MAX.into())]);
        reading.gauge("icdc_pace_nothing", "No samples", Vec::<((), Value)>::new());
        reading
    }

    #[test]
    fn both_formats_have_the_same_samples_and_names_cannot_break_them() {
        let classic = "# HELP icdc_pace_late_seconds_total Time lost.\n# TYPE icdc_pace_late_seconds_total counter\n\
            icdc_pace_late_seconds_total{device=\"a\\\"b\\\\c\\nd\"} 1.5\n\
            # HELP icdc_pace_waiting Frames that wait.\n# TYPE icdc_pace_waiting gauge\n\
            icdc_pace_waiting{device=\"a\\\"b\\\\c\\nd\",class=\"x\"} 18446744073709551615\n";
        assert_eq!(reading().text(Format::Classic), classic);
        let open = reading().text(Format::OpenMetrics);
        assert!(
            open.contains("# TYPE icdc_pace_late_seconds counter\n# UNIT icdc_pace_late_seconds seconds\n"),
            "{open}"
        );
        assert!(open.ends_with("\n# EOF\n"), "{open}");
        let samples = |text: &str| text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
        assert_eq!(samples(&open), samples(classic));
    }
}
