//! The two text formats that Prometheus reads.

use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::registry::Registry;

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus's classic format, version 0.0.4, which node exporters and Pushgateways read.
    Classic,
    /// OpenMetrics 1.0, which a Prometheus asks for, with units.
    OpenMetrics,
}

impl Format {
    /// Format for a client's `Accept` header: OpenMetrics if that names it, else the classic one.
    pub(crate) fn accepted(accept: &str) -> Self {
        // A Prometheus before 2.49 names versions that differ in what they allow, not in what is
        // written here.
        if accept.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Classic }
    }

    /// Value of the header `Content-Type`.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Classic => prometheus_text::CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The metrics of a registry as text in this format.
    pub(crate) fn text(self, registry: &Registry) -> String {
        let mut text = String::new();
        let encoded = match self {
            Self::Classic => prometheus_text::encode(&mut text, registry),
            Self::OpenMetrics => text::encode(&mut text, registry),
        };
        encoded.expect("writing to a string succeeds");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::Format;

    #[test]
    fn a_prometheus_gets_what_it_asks_for() {
        // Prometheus 2.42.
        let accept = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
            text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(Format::accepted(accept), Format::OpenMetrics);
        assert_eq!(Format::accepted("*/*"), Format::Classic);
        assert_eq!(Format::accepted(""), Format::Classic);
    }
}
