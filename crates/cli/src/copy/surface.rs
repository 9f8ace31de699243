//! Takes the events of a run and gives each to whom it concerns.

use std::sync::{Mutex, MutexGuard, PoisonError};

use icdc_report::Report;
use icdc_transfer::{Event, Outcome, Sample, Summary, Via};
use icdc_units::{ByteCount, Rate};

use crate::console::Console;
use crate::copy::page::Ending;
use crate::copy::progress::View;
use crate::copy::recorder::Recorder;
use crate::copy::summary;
use crate::plan::Output;

/// Everything that listens to the events of one run.
pub(crate) struct Surface {
    console: Console,
    json: bool,
    dry_run: bool,
    verbose: bool,
    summary: bool,
    state: Mutex<Display>,
}

struct Display {
    view: View,
    recorder: Option<Recorder>,
    tally: Tally,
}

/// What the events of the run add up to, for runs that end without a summary.
#[derive(Default)]
struct Tally {
    files: u64,
    bytes: u64,
    skipped: u64,
    failed: u64,
    resumed: u64,
    would_send: (u64, u64),
    last: Sample,
}

impl Surface {
    pub(crate) fn new(console: Console, output: &Output, record: bool) -> Self {
        let state = Display {
            view: View::new(output.progress, console.clone()),
            recorder: record.then(Recorder::default),
            tally: Tally::default(),
        };
        let &Output { json, dry_run, verbose, summary, .. } = output;
        Self { console, json, dry_run, verbose, summary, state: Mutex::new(state) }
    }

    /// Takes one event.
    pub(crate) fn show(&self, event: Event) {
        // The last line is written when the run is concluded.
        if matches!(event, Event::Summary(_)) {
            return;
        }
        let mut state = self.state();
        state.tally.add(&event);
        if let Some(recorder) = &mut state.recorder {
            recorder.add(&event);
        }
        state.view.show(&event);
        self.tell(&event);
        if self.json {
            self.json_line(&event);
        }
    }

    /// Shows how the run ended.
    pub(crate) fn conclude(&self, ending: &Ending, code: u8) {
        let mut state = self.state();
        state.view.finish();
        if let Some(reason) = &ending.reason {
            self.console.complain(reason);
        }
        if self.json {
            if let Some(reason) = &ending.reason {
                self.json_line(&Event::Failed { reason: reason.clone(), exit_code: code });
            }
            self.json_line(&Event::Summary(ending.summary.clone()));
        } else if self.dry_run {
            // What one that failed would have found is not known.
            if ending.reason.is_none() {
                let (items, bytes) = state.tally.would_send;
                self.console.result(&summary::dry_run(items, bytes));
            }
        } else if self.summary && (ending.reason.is_none() || ending.summary.seconds > 0.0) {
            for line in summary::lines(&ending.summary, ending.reason.is_none()) {
                self.console.result(&line);
            }
        }
        self.console.flush();
    }

    /// A summary of what has been seen so far.
    pub(crate) fn partial_summary(&self) -> Summary {
        self.state().tally.summary()
    }

    /// The page about this run; empty but for the ending if nothing was recorded.
    pub(crate) fn report(&self, ending: &Ending) -> Report {
        self.state().recorder.take().unwrap_or_default().finish().into_report(ending)
    }

    fn state(&self) -> MutexGuard<'_, Display> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Messages for people.
    fn tell(&self, event: &Event) {
        match event {
            Event::Item { path, outcome: Outcome::Failed, reason, .. } => {
                let reason = reason.as_deref().unwrap_or("failed");
                // Most reasons name the place where it failed, which may be another one.
                let named = reason.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with(':'));
                let told = if named { reason.to_owned() } else { format!("{path}: {reason}") };
                self.console.complain(&told);
            }
            Event::Item { path, bytes, outcome, .. } if self.verbose => {
                let outcome = if *outcome == Outcome::Skipped { "skipped" } else { "copied" };
                self.console.complain(&format!("{outcome} {path} ({})", summary::size(*bytes)));
            }
            Event::Connected { peer, stream, cipher, congestion } if self.verbose => {
                let details: Vec<&str> =
                    [cipher.as_str(), congestion].into_iter().filter(|text| !text.is_empty()).collect();
                self.console.complain(&format!("connection {stream} to {peer} ({})", details.join(", ")));
            }
            Event::Route { via, reason } if self.verbose => {
                let route = match via {
                    Via::Direct => "data goes directly to the far end's port",
                    Via::Back => "data goes over connections that the far end makes to this host",
                    Via::Ssh => "data goes through ssh",
                    Via::Relay => "data goes by way of a relay",
                    Via::Socks5 => "data goes by way of a SOCKS proxy",
                };
                let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
                self.console.complain(&format!("{route}{because}"));
            }
            Event::Notice { text } => self.console.complain(text),
            Event::Reconnecting { attempt, pause_ms, reason } => {
                let pause = icdc_units::Span::from_millis(*pause_ms);
                self.console.complain(&format!("{reason}; attempt {attempt} to connect again in {pause}"));
            }
            Event::WouldSend { path, bytes } if !self.json => {
                self.console.result(&format!("{:>10}  {path}", summary::size(*bytes)));
            }
            _ => {}
        }
    }

    fn json_line(&self, event: &Event) {
        let line = serde_json::to_string(event).expect("events are plain data with text as keys");
        self.console.json(&line);
        // Items come by the thousand; they go out with the next event of another kind.
        if !matches!(event, Event::Item { .. } | Event::WouldSend { .. }) {
            self.console.flush();
        }
    }
}

impl Tally {
    fn add(&mut self, event: &Event) {
        match event {
            Event::Item { outcome: Outcome::Failed, .. } => self.failed += 1,
            Event::Item { outcome: Outcome::Skipped, .. } => self.skipped += 1,
            // Directories and links have neither digest nor size.
            Event::Item { bytes, digest, .. } => {
                self.files += u64::from(digest.is_some() || *bytes > 0);
                self.bytes = self.bytes.saturating_add(*bytes);
            }
            Event::Resumed { bytes } => self.resumed = self.resumed.saturating_add(*bytes),
            Event::WouldSend { bytes, .. } => {
                self.would_send.0 += 1;
                self.would_send.1 = self.would_send.1.saturating_add(*bytes);
            }
            Event::Progress(sample) => self.last = sample.clone(),
            _ => {}
        }
    }

    fn summary(&self) -> Summary {
        let sent = ByteCount::new(self.last.bytes_done.saturating_sub(self.resumed));
        let nanos = (self.last.seconds.max(0.0) * 1e9) as u64;
        let goodput = if nanos == 0 { Rate::ZERO } else { sent / icdc_units::Span::from_nanos(nanos) };
        Summary {
            files: self.files,
            bytes: self.bytes,
            bytes_sent: sent.as_u64(),
            seconds: self.last.seconds,
            goodput_bps: goodput.as_bits_per_second(),
            retransmitted_segments: self.last.retransmitted_segments,
            // What ended the run is an error too.
            errors: self.failed.max(1),
            skipped: self.skipped,
            resumed_bytes: self.resumed,
            ..Summary::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_breaks_off_still_adds_up() {
        let mut tally = Tally::default();
        let item = |digest: Option<&str>, outcome, bytes| Event::Item {
            path: "a".into(),
            bytes,
            digest: digest.map(Into::into),
            outcome,
            reason: None,
        };
        tally.add(&Event::Resumed { bytes: 1000 });
        tally.add(&item(Some("00"), Outcome::Published, 500));
        tally.add(&item(None, Outcome::Published, 0));
        tally.add(&item(None, Outcome::Skipped, 7));
        tally.add(&Event::Progress(Sample { seconds: 2.0, bytes_done: 2000, ..Sample::default() }));
        let summary = tally.summary();
        assert_eq!((summary.files, summary.bytes, summary.skipped, summary.errors), (1, 500, 1, 1));
        assert_eq!((summary.bytes_sent, summary.goodput_bps, summary.resumed_bytes), (1000, 4000, 1000));
        assert!(!summary.verified);
    }
}
