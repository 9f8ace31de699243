//! Takes the events of a run and gives each to whom it concerns.

use std::sync::{Mutex, MutexGuard, PoisonError};

use icdc_client::Location;
use icdc_metrics::{Reading, RunResult};
use icdc_report::Report;
use icdc_transfer::{Event, IfRunning, Outcome, Summary, Via};
use icdc_units::Rate;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::console::Console;
use crate::copy::failures::{Failures, told};
use crate::copy::outlook::{Outlook, Progress};
use crate::copy::page::Ending;
use crate::copy::progress::View;
use crate::copy::recorder::Recorder;
use crate::copy::tally::Tally;
use crate::copy::{metrics, summary};
use crate::plan::output::{Output, SummaryPlace};

/// Text in parentheses about a process: its number, and since when it runs, as it was started
/// `age_s` seconds ago. Empty where neither is known.
fn describe(pid: Option<u32>, age_s: Option<u64>) -> String {
    let age = age_s.and_then(|age| i64::try_from(age).ok()).map(SignedDuration::from_secs);
    let started = age.and_then(|age| Some((age, Timestamp::now().checked_sub(age).ok()?)));
    let since = started.map(|(age, at)| {
        let form = if age < SignedDuration::from_hours(12) { "%H:%M:%S" } else { "%F %H:%M:%S" };
        format!("since {}", TimeZone::system().to_datetime(at).strftime(form))
    });
    let known = [pid.map(|pid| format!("pid {pid}")), since].into_iter().flatten().collect::<Vec<_>>();
    if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) }
}

/// Output of one copy: takes its events, shows them as progress, messages or JSON lines, and
/// collects them for the summary, the metrics and the report.
pub(crate) struct CopyOutput {
    console: Console,
    json: bool,
    dry_run: bool,
    verbose: bool,
    quiet: bool,
    summary: SummaryPlace,
    /// The destination, and the host that it is on.
    destination: String,
    location: Location,
    state: Mutex<Display>,
}

/// Kind of a copy, as far as its output depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// A report is made at the end.
    pub(crate) records: bool,
    /// The copy follows its sources.
    pub(crate) follows: bool,
}

/// State of a copy's output, as its events change it: progress, recording, totals and failures.
struct Display {
    /// The connection was lost, and does not stand again yet.
    is_cut: bool,
    view: View,
    outlook: Outlook,
    recorder: Option<Recorder>,
    tally: Tally,
    failures: Failures,
}

impl CopyOutput {
    /// Output of a copy to `destination`.
    pub(crate) fn new(console: Console, output: &Output, destination: &Location, kind: Kind) -> Self {
        let state = Display {
            is_cut: false,
            view: View::new(output.progress, console.clone()),
            outlook: Outlook::new(kind.follows),
            recorder: kind.records.then(Recorder::default),
            tally: Tally::default(),
            failures: Failures::default(),
        };
        let &Output { json, dry_run, verbose, quiet, summary, .. } = output;
        let place = match summary {
            SummaryPlace::Errors => "standard output".to_owned(),
            SummaryPlace::None | SummaryPlace::Output => summary::place(destination),
        };
        let (destination, location) = (place, destination.clone());
        Self { console, json, dry_run, verbose, quiet, summary, destination, location, state: Mutex::new(state) }
    }

    /// Shows one event of the copy and adds it to the tally.
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
        state.outlook.add(&event);
        let forecast = state.outlook.forecast();
        state.view.show(&event, forecast);
        self.tell(&event, &mut state.failures);
        match &event {
            Event::Reconnecting { .. } => state.is_cut = true,
            Event::Connected { .. } if std::mem::take(&mut state.is_cut) && !self.quiet => {
                self.console.complain("connected again");
            }
            _ => {}
        }
        match event {
            _ if !self.json => {}
            Event::Progress(sample) => self.progress_line(&Progress { sample, forecast }),
            event => self.json_line(&event),
        }
    }

    /// Notes the user's limit of the rate from now on, zero in a pause, and in how many seconds another one applies.
    pub(crate) fn set_limit(&self, rate: Option<Rate>, lasting: Option<f64>) {
        let mut state = self.state();
        state.outlook.set_limit(rate, lasting);
        let forecast = state.outlook.forecast();
        state.view.set_forecast(forecast);
    }

    /// Shows how the run ended, with its summary, and returns its result; `code` is the exit code
    /// so far.
    pub(crate) fn conclude(&self, ending: &Ending, code: u8) -> RunResult {
        let mut state = self.state();
        let result = state.tally.conclude(ending, code);
        state.view.finish();
        if !self.quiet {
            ending.summary.notices.iter().for_each(|noticed| self.console.complain(&noticed.text()));
        }
        state.failures.rest().iter().for_each(|line| self.console.complain(line));
        // Of one that was skipped the user knows.
        let failed = ending.reason.as_ref().filter(|_| code != 0);
        if let Some(reason) = failed {
            self.console.complain(reason);
        }
        if self.json {
            if let Some(reason) = failed {
                self.json_line(&Event::Failed { reason: reason.clone(), exit_code: code });
            }
            self.summary_line(&ending.summary, result);
        } else if self.dry_run {
            // What one that failed would have found is not known.
            if ending.reason.is_none() {
                let Tally { would_send, renamed, deleted, removed, .. } = &state.tally;
                self.console.result(&summary::dry_run(*would_send, *renamed, *deleted, *removed));
            }
        } else if self.summary != SummaryPlace::None
            && (ending.reason.is_none() || failed.is_some() && ending.summary.seconds > 0.0)
        {
            for line in summary::lines(&ending.summary, &self.destination, ending.reason.is_none()) {
                match self.summary {
                    SummaryPlace::Errors => self.console.print(&format!("{line}\n")),
                    SummaryPlace::None | SummaryPlace::Output => self.console.result(&line),
                }
            }
        }
        self.console.flush();
        result
    }

    /// The metrics of the run as it is now.
    pub(crate) fn metrics(&self) -> Reading {
        metrics::reading(&self.state().tally)
    }

    /// Outcome of the run; `None` while it continues.
    pub(crate) fn result(&self) -> Option<RunResult> {
        self.state().tally.ended.as_ref().map(|ended| ended.result)
    }

    /// The progress so far, in a line of text, for SIGUSR1.
    pub(crate) fn status(&self) -> String {
        self.state().view.text()
    }

    /// The last measured state of the run, with what is to come.
    pub(crate) fn progress(&self) -> Progress {
        let state = self.state();
        Progress { sample: state.tally.last.clone(), forecast: state.outlook.forecast() }
    }

    /// A summary of what has been seen so far.
    pub(crate) fn partial_summary(&self) -> Summary {
        self.state().tally.summary()
    }

    /// Takes the recording and makes the report of this copy; empty but for the ending if nothing
    /// was recorded.
    pub(crate) fn report(&self, ending: &Ending) -> Report {
        self.state().recorder.take().unwrap_or_default().finish().into_report(ending, &self.destination)
    }

    fn state(&self) -> MutexGuard<'_, Display> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints the message about an event in words, if it needs one.
    fn tell(&self, event: &Event, failures: &mut Failures) {
        match event {
            Event::Item { path, outcome: Outcome::Failed, reason, .. } => {
                let reason = reason.as_deref().unwrap_or("failed");
                let line = if self.verbose { Some(told(path, reason)) } else { failures.add(path, reason) };
                line.iter().for_each(|line| self.console.complain(line));
            }
            Event::Item { path, bytes, outcome, .. } if self.verbose => {
                self.console.complain(&format!("{} {path} ({})", outcome_text(*outcome), summary::size(*bytes)));
            }
            Event::Deleted { path, is_directory, dry_run } => {
                let kind = if *is_directory { "/" } else { "" };
                match dry_run {
                    true if !self.json => self.console.result(&format!("delete {path}{kind}")),
                    false if self.verbose => self.console.complain(&format!("deleted {path}{kind}")),
                    _ => {}
                }
            }
            Event::Removed { path, is_directory, dry_run } => {
                let kind = if *is_directory { "/" } else { "" };
                match dry_run {
                    true if !self.json => self.console.result(&format!("remove {path}{kind} at the source")),
                    false if self.verbose => self.console.complain(&format!("removed {path}{kind} at the source")),
                    _ => {}
                }
            }
            Event::DeletionRefused { reason } => {
                self.console.complain(&format!("nothing was deleted at the destination: {reason}"));
            }
            Event::Snapshot { .. } | Event::SnapshotRemoved { .. } | Event::SnapshotFailed { .. } => {
                self.tell_of_snapshot(event);
            }
            Event::Connected { peer, stream, cipher, congestion } if self.verbose => {
                let details: Vec<&str> =
                    [cipher.as_str(), congestion].into_iter().filter(|text| !text.is_empty()).collect();
                self.console.complain(&format!("connection {stream} to {peer} ({})", details.join(", ")));
            }
            Event::Route { via, reason } if self.verbose => {
                let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
                self.console.complain(&format!("{}{because}", route_text(*via)));
            }
            Event::Compression { level, uncompressed } if self.verbose => {
                let why = uncompressed.map_or("it is not known yet what limits", summary::uncompressed);
                let told = if *level > 0 { format!("on, level {level}") } else { format!("off: {why}") };
                self.console.complain(&format!("compression {told}"));
            }
            Event::Notice { .. } | Event::Running { .. } | Event::InPlace { .. } | Event::Reconnecting { .. }
                if self.quiet => {}
            Event::Notice { text } => self.console.complain(text),
            Event::Running { .. } => self.tell_of_running(event),
            Event::InPlace { path } => {
                self.console.complain(&format!(
                    "{path}: the file at the destination is written in place, and is inconsistent until it is complete"
                ));
            }
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

    /// Prints which other process writes the same, and what this copy does.
    fn tell_of_running(&self, event: &Event) {
        let Event::Running { path, pid, age_s, then } = event else { return };
        let who = describe(*pid, *age_s);
        let end = match then {
            IfRunning::Wait => "waiting",
            IfRunning::Skip => "this copy is skipped",
            // The reason of the end follows.
            IfRunning::Fail => return,
        };
        let place = summary::beside(&self.location, path);
        self.console.complain(&format!("another icdc{who} is writing {place}; {end}"));
    }

    /// Prints what has become of a snapshot.
    fn tell_of_snapshot(&self, event: &Event) {
        let told = match event {
            Event::Snapshot { name, dry_run: true } => Ok(format!("make the snapshot {name}")),
            Event::Snapshot { name, .. } => Err(format!("snapshot {name} is complete, and latest leads to it")),
            Event::SnapshotRemoved { name, dry_run: true } => Ok(format!("remove the snapshot {name}")),
            Event::SnapshotRemoved { name, .. } => Err(format!("removed the snapshot {name}")),
            Event::SnapshotFailed { reason } => {
                let line = format!("no snapshot was made, and the same command goes on with this one: {reason}");
                return self.console.complain(&line);
            }
            _ => return,
        };
        match told {
            Ok(result) if !self.json => self.console.result(&result),
            Err(notice) if !self.quiet => self.console.complain(&notice),
            _ => {}
        }
    }

    /// Prints the last JSON line: the summary, with the result of the run.
    fn summary_line(&self, summary: &Summary, result: RunResult) {
        let line = SummaryLine { event: &Event::Summary(Box::new(summary.clone())), result: result.word() };
        let line = serde_json::to_string(&line).expect("events are plain data with text as keys");
        self.console.json(&line);
    }

    /// Prints an event of progress as a JSON line, with what is to come.
    fn progress_line(&self, progress: &Progress) {
        let line = serde_json::to_string(&ProgressLine { kind: "progress", progress });
        self.console.json(&line.expect("progress is plain data with text as keys"));
        self.console.flush();
    }

    /// Prints an event as a JSON line.
    fn json_line(&self, event: &Event) {
        let line = serde_json::to_string(event).expect("events are plain data with text as keys");
        self.console.json(&line);
        // Items come by the thousand; they go out with the next event of another kind.
        let is_of_item = |event: &Event| {
            matches!(
                event,
                Event::Item { .. } | Event::WouldSend { .. } | Event::Deleted { .. } | Event::Removed { .. }
            )
        };
        if !is_of_item(event) {
            self.console.flush();
        }
    }
}

/// JSON line of a progress event.
#[derive(Serialize)]
struct ProgressLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    progress: &'a Progress,
}

/// The last JSON line of a copy: the summary event with the result of the run.
#[derive(Serialize)]
struct SummaryLine<'a> {
    #[serde(flatten)]
    event: &'a Event,
    result: &'static str,
}

/// Outcome of an item in words, before its path.
fn outcome_text(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Skipped => "skipped",
        Outcome::Linked => "linked",
        Outcome::Renamed => "renamed at the destination, to",
        Outcome::KeptNewer => "not replaced, newer at the destination:",
        Outcome::KeptExisting => "not replaced, at the destination already:",
        Outcome::NotMade => "not made, not at the destination:",
        Outcome::Published | Outcome::Failed => "copied",
    }
}

/// Route of the data in words.
fn route_text(via: Via) -> &'static str {
    match via {
        Via::Direct => "data goes directly to the far end's port",
        Via::Udp => "data goes over datagrams to the far end's port",
        Via::Back => "data goes over connections that the far end makes to this host",
        Via::Ssh => "data goes through ssh",
        Via::Relay => "data goes by way of a relay",
        Via::Socks5 => "data goes by way of a SOCKS proxy",
    }
}
