//! The metrics of a daemon, `icdc serve`: counters that live as long as it does.

use std::sync::atomic::AtomicU64;

use icdc_units::{ByteCount, Span};
use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry, Unit};

use crate::reading::split_unit;
use crate::{Format, RunResult};

/// Upper bounds of the buckets of session durations, in seconds: from a small file to days.
const DURATIONS: [f64; 10] = [0.1, 1.0, 10.0, 60.0, 300.0, 1800.0, 7200.0, 21_600.0, 86_400.0, 604_800.0];

/// Counters and gauges of a daemon (`icdc serve`) that live as long as it does. All methods may be
/// called from any thread.
#[derive(Debug)]
pub struct ServeMetrics {
    registry: Registry,
    running: Family<Label<SessionKind>, Gauge>,
    ended: Family<(Label<SessionKind>, Label<RunResult>), Counter>,
    durations: Histogram,
    received: Counter,
    sent: Counter,
    refused: Family<Label<RefusedReason>, Counter>,
    handshakes: Family<Label<Handshake>, Counter>,
    unauthenticated: Gauge<u64, AtomicU64>,
    keys: Gauge<u64, AtomicU64>,
    reloads: Family<Label<Reload>, Counter>,
    audit_written: Counter,
    audit_lost: Counter,
}

/// An enum whose values are the values of one label.
trait LabelValue {
    /// Name of the label.
    const NAME: &'static str;
    /// Text of the label's value.
    fn value(self) -> &'static str;
}

/// The label and its value in the form that the encoder of metrics takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Label<V>(V);

impl<V: LabelValue + Copy> EncodeLabelSet for Label<V> {
    fn encode(&self, encoder: &mut LabelSetEncoder) -> std::fmt::Result {
        [(V::NAME, self.0.value())].encode(encoder)
    }
}

/// Declares a label: its type, its name, and its values with what they mean.
macro_rules! label {
    ($(#[$of:meta])* $visible:vis enum $type:ident as $name:literal { $($(#[$meant:meta])* $variant:ident = $value:literal,)+ }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $visible enum $type { $($(#[$meant])* $variant,)+ }

        impl $type {
            const ALL: &[Self] = &[$(Self::$variant),+];
        }

        impl LabelValue for $type {
            const NAME: &'static str = $name;

            fn value(self) -> &'static str {
                match self { $(Self::$variant => $value),+ }
            }
        }
    };
}

label! {
    /// Kind of a session, by the client's request.
    pub enum SessionKind as "kind" {
        /// The client sends files to this daemon.
        Receive = "receive",
        /// The client gets files from this daemon.
        Send = "send",
        /// A transfer to or from another far end, on behalf of the client.
        Drive = "drive",
        /// Admission of a key for one transfer.
        Admit = "admit",
        /// A measurement from memory to memory.
        Measure = "measure",
        /// The client lists what is there.
        List = "list",
        /// The client makes, removes or renames items.
        Change = "change",
    }
}

impl LabelValue for RunResult {
    const NAME: &'static str = "result";

    fn value(self) -> &'static str {
        self.word()
    }
}

label! {
    /// Reason for refusing a connection or a request.
    pub enum RefusedReason as "reason" {
        /// The key is not in `authorized_keys`.
        UnknownKey = "unknown_key",
        /// The key has expired.
        ExpiredKey = "expired_key",
        /// The key may not be used from this address.
        Address = "address",
        /// The key may not do what the request asks for.
        NotAllowed = "not_allowed",
        /// The key, or the daemon, has reached a limit (sessions, bytes, quota).
        Limit = "limit",
        /// The connection did not authenticate in time, made room for others, or did not speak
        /// TLS.
        Unauthenticated = "unauthenticated",
        /// The client speaks another release's protocol.
        Version = "version",
        /// The client broke the protocol, or asked for something invalid.
        Request = "request",
        /// The audit log cannot be written, and the daemon is configured to refuse requests then.
        Audit = "audit",
        /// An internal error of the daemon.
        Internal = "internal",
    }
}

label! {
    /// End of a TLS handshake.
    pub enum Handshake as "result" {
        /// Both ends know each other's key.
        Ok = "ok",
        /// The handshake failed.
        Failed = "failed",
    }
}

label! {
    /// End of a reload of identity and keys.
    enum Reload as "result" {
        Applied = "applied",
        Failed = "failed",
    }
}

impl ServeMetrics {
    /// Declares all metrics of a daemon, each zero; `version` is its release.
    #[must_use]
    pub fn new(version: &str) -> Self {
        let mut page = Page(Registry::default());
        let build = Info::new([("version", version.to_owned())]);
        page.0.register("icdc_serve_build", "Release of the daemon", build);
        let running = page.family("icdc_serve_sessions_running", "Sessions that run", labels(SessionKind::ALL));
        let kinds = || labels(SessionKind::ALL);
        let results = kinds().flat_map(|kind| labels(&RunResult::OF_SESSIONS).map(move |result| (kind, result)));
        let ended = page.family("icdc_serve_sessions_ended", "Sessions that have ended", results);
        let durations =
            page.add("icdc_serve_session_duration_seconds", "Time that sessions took", Histogram::new(DURATIONS));
        let received = page.add("icdc_serve_received_bytes", "Payload received from clients", Counter::default());
        let sent = page.add("icdc_serve_sent_bytes", "Payload sent to clients", Counter::default());
        let refused = page.family("icdc_serve_refused", "Connections and requests refused", labels(RefusedReason::ALL));
        let handshakes = page.family("icdc_serve_handshakes", "TLS handshakes that have ended", labels(Handshake::ALL));
        let unauthenticated =
            page.add("icdc_serve_unauthenticated_connections", "Connections not yet authenticated", Gauge::default());
        let keys = page.add("icdc_serve_authorized_keys", "Keys that may connect", Gauge::default());
        let reloads = page.family("icdc_serve_reloads", "Reloads of identity and keys", labels(Reload::ALL));
        let audit_written = page.add("icdc_serve_audit_records", "Audit records written", Counter::default());
        let audit_lost =
            page.add("icdc_serve_audit_lost_records", "Audit records that could not be written", Counter::default());
        let Page(registry) = page;
        Self {
            registry,
            running,
            ended,
            durations,
            received,
            sent,
            refused,
            handshakes,
            unauthenticated,
            keys,
            reloads,
            audit_written,
            audit_lost,
        }
    }

    /// Counts a session that begins. It counts as running until the returned value ends or is
    /// dropped.
    #[must_use]
    pub fn session_begins(&self, kind: SessionKind) -> RunningSession {
        let running = self.running.get_or_create_owned(&Label(kind));
        running.inc();
        let (ended, durations) = (self.ended.clone(), self.durations.clone());
        RunningSession { kind, running, ended, durations, result: RunResult::Failed }
    }

    /// Counts payload that has arrived from clients.
    pub fn received(&self, bytes: ByteCount) {
        self.received.inc_by(bytes.as_u64());
    }

    /// Counts payload that has been sent to clients.
    pub fn sent(&self, bytes: ByteCount) {
        self.sent.inc_by(bytes.as_u64());
    }

    /// Counts a connection or a request that the daemon refuses.
    pub fn refused(&self, reason: RefusedReason) {
        self.refused.get_or_create(&Label(reason)).inc();
    }

    /// Counts a TLS handshake with a client that has ended.
    pub fn handshake(&self, result: Handshake) {
        self.handshakes.get_or_create(&Label(result)).inc();
    }

    /// Sets the number of connections that are not yet authenticated.
    pub fn set_unauthenticated(&self, connections: usize) {
        self.unauthenticated.set(connections as u64);
    }

    /// Sets the number of keys that may connect.
    pub fn set_authorized_keys(&self, keys: usize) {
        self.keys.set(keys as u64);
    }

    /// Counts a reload of configuration and keys; `is_applied` tells whether they could be used.
    pub fn reloaded(&self, is_applied: bool) {
        let result = if is_applied { Reload::Applied } else { Reload::Failed };
        self.reloads.get_or_create(&Label(result)).inc();
    }

    /// Counts an audit record that was written.
    pub fn audit_written(&self) {
        self.audit_written.inc();
    }

    /// Counts an audit record that could not be written.
    pub fn audit_lost(&self) {
        self.audit_lost.inc();
    }

    /// All metrics as text in this format.
    #[must_use]
    pub fn text(&self, format: Format) -> String {
        format.text(&self.registry)
    }
}

/// Guard of one session in the metrics: counts as running until it is ended or dropped, and then
/// with its result.
#[derive(Debug)]
pub struct RunningSession {
    kind: SessionKind,
    running: Gauge,
    ended: Family<(Label<SessionKind>, Label<RunResult>), Counter>,
    durations: Histogram,
    result: RunResult,
}

impl RunningSession {
    /// Ends the session with this result after this time. A session that is dropped without it
    /// counts as failed, and its time is not counted.
    pub fn end(mut self, result: RunResult, duration: Span) {
        self.result = result;
        self.durations.observe(duration.as_secs_f64());
    }
}

impl Drop for RunningSession {
    fn drop(&mut self) {
        self.running.dec();
        self.ended.get_or_create(&(Label(self.kind), Label(self.result))).inc();
    }
}

/// Registry while the metrics of a daemon are declared, one call for each.
struct Page(Registry);

impl Page {
    /// Declares a metric by its full name, without `_total`.
    fn add<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        let (name, unit): (&str, Option<Unit>) = split_unit(name);
        match unit {
            Some(unit) => self.0.register_with_unit(name, help, unit, metric.clone()),
            None => self.0.register(name, help, metric.clone()),
        }
        metric
    }

    /// Declares a metric with labels. All their values are present from the beginning, with 0: an
    /// increase from a missing sample is none to Prometheus.
    fn family<L, M>(&mut self, name: &str, help: &str, labels: impl Iterator<Item = L>) -> Family<L, M>
    where
        L: Clone + std::hash::Hash + Eq + std::fmt::Debug + EncodeLabelSet + Send + Sync + 'static,
        M: Metric + Default + Clone + prometheus_client::metrics::TypedMetric,
    {
        let family = self.add(name, help, Family::<L, M>::default());
        labels.for_each(|label| drop(family.get_or_create_owned(&label)));
        family
    }
}

/// Labels for all of these values.
fn labels<V: Copy>(all: &[V]) -> impl Iterator<Item = Label<V>> {
    all.iter().map(|value| Label(*value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(metrics: &ServeMetrics, sample: &str) -> String {
        let text = metrics.text(Format::Classic);
        let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{sample} is not in\n{text}")).to_owned()
    }

    #[test]
    fn a_session_runs_until_it_ends_however_that_comes() {
        let metrics = ServeMetrics::new("1.2.3");
        let running = "icdc_serve_sessions_running{kind=\"receive\"}";
        let ended = |result: &str| format!("icdc_serve_sessions_ended_total{{kind=\"receive\",result=\"{result}\"}}");
        let first = metrics.session_begins(SessionKind::Receive);
        let second = metrics.session_begins(SessionKind::Receive);
        assert_eq!(value(&metrics, running), "2");
        first.end(RunResult::Complete, Span::from_secs(30));
        drop(second);
        assert_eq!(value(&metrics, running), "0");
        assert_eq!((value(&metrics, &ended("complete")), value(&metrics, &ended("failed"))), ("1".into(), "1".into()));
        let buckets =
            |bound: &str| value(&metrics, &format!("icdc_serve_session_duration_seconds_bucket{{le=\"{bound}\"}}"));
        assert_eq!((buckets("10"), buckets("60"), buckets("+Inf")), ("0".into(), "1".into(), "1".into()));
    }

    #[test]
    fn everything_is_there_from_the_beginning_and_sessions_add_no_lines() {
        let metrics = ServeMetrics::new("1.2.3");
        let lines = |metrics: &ServeMetrics| metrics.text(Format::OpenMetrics).lines().count();
        let before = lines(&metrics);
        assert_eq!(value(&metrics, "icdc_serve_build_info{version=\"1.2.3\"}"), "1");
        let sessions: Vec<_> = (0..1000).map(|_| metrics.session_begins(SessionKind::Send)).collect();
        metrics.received(ByteCount::new(5));
        metrics.sent(ByteCount::new(6));
        metrics.refused(RefusedReason::UnknownKey);
        metrics.handshake(Handshake::Failed);
        metrics.set_unauthenticated(7);
        metrics.set_authorized_keys(8);
        metrics.reloaded(true);
        metrics.audit_written();
        metrics.audit_lost();
        for (sample, expected) in [
            ("icdc_serve_sessions_running{kind=\"send\"}", "1000"),
            ("icdc_serve_received_bytes_total", "5"),
            ("icdc_serve_sent_bytes_total", "6"),
            ("icdc_serve_refused_total{reason=\"unknown_key\"}", "1"),
            ("icdc_serve_handshakes_total{result=\"failed\"}", "1"),
            ("icdc_serve_unauthenticated_connections", "7"),
            ("icdc_serve_authorized_keys", "8"),
            ("icdc_serve_reloads_total{result=\"applied\"}", "1"),
            ("icdc_serve_audit_records_total", "1"),
            ("icdc_serve_audit_lost_records_total", "1"),
        ] {
            assert_eq!(value(&metrics, sample), expected, "{sample}");
        }
        drop(sessions);
        assert_eq!(lines(&metrics), before);
    }
}
