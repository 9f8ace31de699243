//! Progress for people.
//!
//! A sample covers a fraction of a second and jumps about. What is shown is the mean with weights
//! that fade over [`MEMORY`] seconds, for the rate as well as for the stages that limited the run:
//!
//! ```text
//! f = exp(−Δt / MEMORY)        sum ← f·sum + (1 − f)·x        weight ← f·weight + (1 − f)        mean = sum / weight
//! ```
//!
//! The weight makes up for the past that the first samples do not have.

use icdc_transfer::{Event, IfRunning, Sample, Stage};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::console::{Console, printable};
use crate::copy::outlook::Forecast;
use crate::copy::summary::{clock, counted, limit, megabits, size};
use crate::plan::output::Progress;

/// Time in seconds over which earlier samples lose their weight in the shown rate.
const MEMORY: f64 = 3.0;
/// Seconds between lines where there is no terminal.
const LINE_INTERVAL: f64 = 1.0;
/// Number of steps into which the whole of the progress bar is divided.
const STEPS: u64 = 1000;
/// Text of the terminal's last line while there is nothing to measure.
const WORDS: &str = "{wide_msg}";
/// Least width of the bar in columns; with less room there is none.
const NARROWEST: usize = 20;
/// Greatest width of the bar in columns.
const WIDEST: usize = 40;
/// Columns of the brackets and blanks round the bar.
const FRAME: usize = 4;
/// Columns between two parts of the line.
const GAP: usize = 2;
/// Least width in columns with which the name of the last item is shown.
const LEAST_NAME: usize = 12;
/// Width in columns that is assumed of a terminal which does not report its width.
const USUAL_COLUMNS: usize = 80;
/// Time in seconds without a sign of the other end after which that is shown in place of the
/// progress.
const SILENT: f64 = 2.0;

/// Output of a copy's progress: bar, lines, or nothing.
pub(crate) struct View {
    meter: Meter,
    medium: Medium,
    console: Console,
}

/// Where a copy's progress is shown.
enum Medium {
    /// Progress is not shown.
    Nothing,
    /// A progress bar on the terminal.
    Bar(ProgressBar),
    /// Lines of text; `last` is when the last one was printed, in seconds of the run.
    Lines { last: f64 },
}

impl View {
    /// View that shows progress in this form.
    pub(crate) fn new(progress: Progress, console: Console) -> Self {
        let medium = match progress {
            Progress::Off => Medium::Nothing,
            Progress::Lines => Medium::Lines { last: f64::NEG_INFINITY },
            Progress::Bar => {
                let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr());
                bar.set_style(style(WORDS));
                console.set_bar(Some(bar.clone()));
                Medium::Bar(bar)
            }
        };
        Self { meter: Meter::default(), medium, console }
    }

    /// Takes an event of the copy, and shows the progress anew if it has changed.
    pub(crate) fn show(&mut self, event: &Event, forecast: Forecast) {
        self.meter.forecast = forecast;
        match event {
            Event::Scanned { files, complete, .. } => {
                (self.meter.files, self.meter.scan_complete) = (*files, *complete);
            }
            Event::Item { path, .. } => self.meter.name = printable(path).into_owned(),
            Event::Followed { lag_s, .. } => self.meter.lag = Some(*lag_s),
            Event::Running { pid, then: IfRunning::Wait, .. } => {
                let who = pid.map_or(String::new(), |pid| format!(" (pid {pid})"));
                self.meter.awaited = Some(format!("waiting for another icdc{who}"));
            }
            Event::Waited => self.meter.awaited = None,
            Event::Connecting { to } => self.say(&format!("connecting to {to}…")),
            Event::Reconnecting { .. } => {
                self.meter.awaited = None;
                self.say("connection lost, connecting again…");
            }
            Event::Progress(sample) => {
                self.meter.add(sample);
                match &mut self.medium {
                    Medium::Nothing => {}
                    Medium::Bar(bar) if is_drawn(bar) => {
                        let line = self.meter.line(columns());
                        bar.set_style(style(&line.template()));
                        bar.set_message(line.words);
                        bar.set_prefix(line.name);
                        bar.set_position((self.meter.share() * STEPS as f64) as u64);
                    }
                    Medium::Bar(_) => {}
                    Medium::Lines { last } if sample.seconds - *last >= LINE_INTERVAL => {
                        *last = sample.seconds;
                        self.console.print(&format!("{}\n", self.meter.text()));
                    }
                    Medium::Lines { .. } => {}
                }
            }
            _ => {}
        }
    }

    /// Takes what is to come, to be shown with the next sample.
    pub(crate) fn set_forecast(&mut self, forecast: Forecast) {
        self.meter.forecast = forecast;
    }

    /// Shows what is done while no data flows, in place of the progress.
    fn say(&self, words: &str) {
        match &self.medium {
            Medium::Nothing => {}
            Medium::Bar(bar) if !is_drawn(bar) => {}
            Medium::Bar(bar) => {
                bar.set_style(style(WORDS));
                bar.set_message(printable(words).into_owned());
            }
            Medium::Lines { .. } => self.console.print(&format!("{words}\n")),
        }
    }

    /// The progress so far, in a line of text.
    pub(crate) fn text(&self) -> String {
        self.meter.text()
    }

    /// Removes the progress bar from the terminal.
    pub(crate) fn finish(&mut self) {
        if let Medium::Bar(bar) = &self.medium {
            self.console.set_bar(None);
            is_drawn(bar);
            bar.finish_and_clear();
        }
    }
}

/// Whether the bar is drawn: not while this process is in the background, where it would write over
/// what others show, and a terminal may stop whoever writes (`stty tostop`). Hides it then.
fn is_drawn(bar: &ProgressBar) -> bool {
    let is_in_front = rustix::termios::tcgetpgrp(std::io::stderr())
        // Where the terminal is not the one that controls this process, it stops nobody.
        .map_or(true, |group| group == rustix::process::getpgrp());
    if is_in_front == bar.is_hidden() {
        bar.set_draw_target(if is_in_front { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() });
    }
    is_in_front
}

/// Width of the terminal in columns; a usual one where it is not known.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|&columns| columns > 0).unwrap_or(USUAL_COLUMNS)
}

/// Contents of the terminal's last line, which shows the progress.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    words: String,
    /// Columns of the bar; 0 for none.
    bar: usize,
    /// Follows the bar where there is room.
    name: String,
}

impl Line {
    /// Template for the progress bar, by which it shows this line.
    fn template(&self) -> String {
        match (self.bar, self.name.is_empty()) {
            (0, _) => WORDS.to_owned(),
            (bar, true) => format!("{{msg}}  [{{bar:{bar}}}]"),
            (bar, false) => format!("{{msg}}  [{{bar:{bar}}}]  {{prefix}}"),
        }
    }
}

/// Columns that a text may take: letters outside of ASCII may be two wide.
fn width(text: &str) -> usize {
    text.chars().map(|letter| if letter.is_ascii() { 1 } else { 2 }).sum()
}

/// The name, or its end behind an ellipsis if it takes more than `room` columns.
fn fitted(name: &str, room: usize) -> String {
    if width(name) <= room {
        return name.to_owned();
    }
    let mut rest = name;
    while width(rest) + width("…") > room {
        let mut letters = rest.chars();
        letters.next();
        rest = letters.as_str();
    }
    format!("…{rest}")
}

/// Style of the progress bar with this template.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates are constants").progress_chars("=> ")
}

/// The last sample of a copy, with smoothed rate and stages, from which the line of progress is
/// made.
#[derive(Default)]
struct Meter {
    last: Option<Sample>,
    rate_sum: f64,
    weight: f64,
    stages: [f64; Stage::ALL.len()],
    /// Files that the scan has found.
    files: u64,
    scan_complete: bool,
    /// Name of the item that was finished last.
    name: String,
    /// Seconds between the close of the last item that became durable and that, where sources are followed.
    lag: Option<f64>,
    /// Text about the process that is waited for.
    awaited: Option<String>,
    forecast: Forecast,
}

impl Meter {
    /// The line that fits into this many columns: with at least [`NARROWEST`] of the bar, what
    /// limits the run is left out first, then the number of files, and then how exact the time left is.
    fn line(&self, columns: usize) -> Line {
        let [mut words, more @ ..] = self.parts();
        for part in more.into_iter().filter(|part| !part.is_empty()) {
            if width(&words) + GAP + width(&part) + FRAME + NARROWEST > columns {
                break;
            }
            words = format!("{words}  {part}");
        }
        let left = columns.saturating_sub(width(&words) + FRAME);
        if left < NARROWEST {
            return Line { words, bar: 0, name: String::new() };
        }
        let bar = left.min(WIDEST);
        let room = (left - bar).saturating_sub(GAP);
        let name = if room < LEAST_NAME { String::new() } else { fitted(&self.name, room) };
        Line { words, bar, name }
    }

    /// Takes a sample into the smoothed values.
    fn add(&mut self, sample: &Sample) {
        let before = self.last.as_ref().map_or(0.0, |last| last.seconds);
        let fade = (-(sample.seconds - before).max(0.0) / MEMORY).exp();
        let gain = 1.0 - fade;
        self.rate_sum = fade * self.rate_sum + gain * sample.rate_bps as f64;
        self.weight = fade * self.weight + gain;
        for (stage, share) in Stage::ALL.into_iter().zip(&mut self.stages) {
            *share = fade * *share + if stage == sample.limited_by { gain } else { 0.0 };
        }
        self.last = Some(sample.clone());
    }

    /// Share of the bytes that are done, 0 to 1.
    fn share(&self) -> f64 {
        match &self.last {
            Some(sample) if sample.bytes_total > 0 => (sample.bytes_done as f64 / sample.bytes_total as f64).min(1.0),
            _ => 0.0,
        }
    }

    /// Smoothed rate in bits per second.
    fn rate(&self) -> f64 {
        if self.weight > 0.0 { self.rate_sum / self.weight } else { 0.0 }
    }

    /// Stage that has limited the run most, in the smoothed shares.
    fn limiting(&self) -> Stage {
        let largest = Stage::ALL.into_iter().zip(self.stages).max_by(|a, b| a.1.total_cmp(&b.1));
        largest.map_or(Stage::default(), |(stage, _)| stage)
    }

    /// The progress as a line of text, without a bar.
    fn text(&self) -> String {
        let parts = self.parts().into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join("  ")
    }

    /// Parts of the line: amount with rate and time left, how exact that is or that the copy falls behind, number of
    /// files, what limits the run; empty where there is nothing.
    fn parts(&self) -> [String; 4] {
        let only = |words: String| [words, String::new(), String::new(), String::new()];
        let Some(sample) = &self.last else {
            return only("connecting".into());
        };
        let more = if self.scan_complete { "" } else { "+" };
        // Of a stream nobody knows the total.
        let done = if sample.bytes_done > sample.bytes_total {
            size(sample.bytes_done)
        } else {
            let share = (self.share() * 100.0).floor();
            format!("{share:>3.0}%  {} of {}{more}", size(sample.bytes_done), size(sample.bytes_total))
        };
        let silent = sample.silent_ms as f64 / 1e3;
        let round_trip = sample.rtt_us as f64 / 1e6;
        if silent > SILENT.max(2.0 * round_trip) {
            return only(format!("{done}  no answer for {silent:.0} s"));
        }
        if let Some(awaited) = &self.awaited {
            return only(format!("{done}  {awaited}"));
        }
        if let Some(lag) = self.lag.filter(|_| !self.scan_complete && self.forecast.behind_bytes == Some(0)) {
            let (done, files) = (size(sample.bytes_done), counted(sample.files_done, "file"));
            return only(format!("following  {done} in {files}  last {lag:.1} s after its close"));
        }
        let limit = limit(self.limiting().name(), sample.max_rate_bps);
        let files = match self.files {
            0 | 1 => String::new(),
            files => format!("{} of {files}{more} files", sample.files_done),
        };
        let words = format!("{done}  {}", megabits(self.rate() as u64));
        let limited = format!("limited by {limit}");
        match self.forecast {
            Forecast {
                seconds_left: Some(left), seconds_left_low: Some(low), seconds_left_high: Some(high), ..
            } => {
                let spread = (high - left).max(left - low);
                let exactness = if spread < 1.0 { String::new() } else { format!("±{}", clock(spread)) };
                [format!("{words}  {} left", clock(left)), exactness, files, limited]
            }
            Forecast { behind_bytes_per_minute: Some(growth @ 1..), .. } => {
                [words, format!("falls behind by {} per minute: {limit}", size(growth)), files, String::new()]
            }
            _ => [words, String::new(), files, limited],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That the copy is complete in 8 s.
    const EIGHT: Forecast = Forecast {
        seconds_left: Some(7.5),
        seconds_left_low: Some(7.0),
        seconds_left_high: Some(9.1),
        behind_bytes: None,
        behind_bytes_per_minute: None,
    };

    fn sample(seconds: f64, bytes_done: u64, rate_bps: u64, limited_by: Stage) -> Sample {
        Sample { seconds, bytes_done, bytes_total: 1_000_000_000, rate_bps, limited_by, ..Sample::default() }
    }

    #[test]
    fn a_line_tells_share_rate_time_left_and_limit() {
        let mut meter = Meter { scan_complete: true, forecast: EIGHT, ..Meter::default() };
        meter.add(&sample(1.0, 250_000_000, 800_000_000, Stage::Network));
        assert_eq!(meter.text(), " 25%  250MB of 1GB  800.0 Mbit/s  0:08 left  ±0:02  limited by network");
        meter.forecast.seconds_left_high = Some(8.4);
        assert_eq!(meter.text(), " 25%  250MB of 1GB  800.0 Mbit/s  0:08 left  limited by network");
        meter.forecast = Forecast::default();
        assert_eq!(meter.text(), " 25%  250MB of 1GB  800.0 Mbit/s  limited by network");
    }

    #[test]
    fn the_bar_has_20_to_40_columns_and_what_limits_the_run_goes_first() {
        let name = "a/directory/with/a/very/long/name/of/a/file.nc".to_owned();
        let mut meter = Meter { scan_complete: true, files: 345, name, forecast: EIGHT, ..Meter::default() };
        meter.add(&Sample { files_done: 12, ..sample(1.0, 250_000_000, 800_000_000, Stage::DestinationDisk) });
        let words = " 25%  250MB of 1GB  800.0 Mbit/s  0:08 left";
        let narrow = meter.line(70);
        assert!(narrow.words == words && (NARROWEST..=WIDEST).contains(&narrow.bar), "{narrow:?}");
        let wider = meter.line(80);
        assert_eq!(wider.words, format!("{words}  ±0:02"));
        let wider = meter.line(98);
        assert_eq!(wider.words, format!("{words}  ±0:02  12 of 345 files"));
        let wide = meter.line(200);
        assert_eq!(wide.words, format!("{words}  ±0:02  12 of 345 files  limited by destination disk"));
        assert!(wide.bar == WIDEST && wide.name == meter.name, "{wide:?}");
        assert_eq!(meter.line(40).bar, 0);
        for columns in 0..250 {
            let line = meter.line(columns);
            assert!(line.bar == 0 || (NARROWEST..=WIDEST).contains(&line.bar), "{line:?}");
            let gap = if line.name.is_empty() { 0 } else { GAP };
            let all = width(&line.words) + FRAME + line.bar + gap + width(&line.name);
            assert!(line.bar == 0 || all <= columns, "{columns}: {line:?}");
        }
    }

    #[test]
    fn of_sources_that_are_followed_the_lag_is_told_and_whether_it_grows() {
        let mut view = View { meter: Meter::default(), medium: Medium::Nothing, console: Console::new() };
        let [through, behind, falling] =
            [(0, None), (750_000_000, Some(0)), (750_000_000, Some(1_000_000_000))].map(|(behind, growth)| Forecast {
                behind_bytes: Some(behind),
                behind_bytes_per_minute: growth,
                ..Forecast::default()
            });
        let last = Event::Progress(Sample { files_done: 2, ..sample(1.0, 1_000_000_000, 0, Stage::Scan) });
        for event in [
            Event::Scanned { files: 2, bytes: 1_000_000_000, complete: false },
            Event::Followed { path: "shot".into(), bytes: 7, lag_s: 0.31 },
            last,
        ] {
            view.show(&event, through);
        }
        assert_eq!(view.meter.text(), "following  1GB in 2 files  last 0.3 s after its close");
        let sample = Event::Progress(sample(9.0, 250_000_000, 800_000_000, Stage::DestinationDisk));
        view.show(&sample, behind);
        let text = view.meter.text();
        assert!(text.starts_with(" 25%") && text.ends_with("0 of 2+ files  limited by destination disk"), "{text}");
        view.show(&sample, falling);
        let told = "  falls behind by 1GB per minute: destination disk  0 of 2+ files";
        assert!(view.meter.text().ends_with(told), "{}", view.meter.text());
    }

    #[test]
    fn a_limit_of_the_key_is_named_with_its_rate() {
        let mut meter = Meter { scan_complete: true, ..Meter::default() };
        meter.add(&Sample { max_rate_bps: 8_000_000, ..sample(1.0, 250_000_000, 8_000_000, Stage::MaxRate) });
        let told = "limited by the far end's limit (8.00 Mbit/s)";
        assert!(meter.text().ends_with(told), "{}", meter.text());
    }

    #[test]
    fn an_outage_is_told_as_one() {
        let mut meter = Meter { scan_complete: true, ..Meter::default() };
        meter.add(&sample(1.0, 250_000_000, 800_000_000, Stage::RateCeiling));
        let silent = |silent_ms, rtt_us| Sample { silent_ms, rtt_us, ..sample(2.0, 250_000_000, 0, Stage::Network) };
        meter.add(&silent(12_400, 300_000));
        assert_eq!(meter.text(), " 25%  250MB of 1GB  no answer for 12 s");
        meter.add(&silent(2_400, 1_500_000));
        assert!(meter.text().contains("limited by"), "{}", meter.text());
    }

    #[test]
    fn another_icdc_is_named_as_long_as_it_is_waited_for() {
        let mut view = View { meter: Meter::default(), medium: Medium::Nothing, console: Console::new() };
        view.show(&Event::Scanned { files: 1, bytes: 1_000_000_000, complete: true }, Forecast::default());
        let sample = Event::Progress(sample(1.0, 0, 0, Stage::Finish));
        let running = Event::Running { path: "x".into(), pid: Some(7), age_s: Some(5), then: IfRunning::Wait };
        [&running, &sample].into_iter().for_each(|event| view.show(event, Forecast::default()));
        assert_eq!(view.meter.text(), "  0%  0B of 1GB  waiting for another icdc (pid 7)");
        [&Event::Waited, &sample].into_iter().for_each(|event| view.show(event, Forecast::default()));
        assert_eq!(view.meter.text(), "  0%  0B of 1GB  0.00 Mbit/s  limited by finish");
    }

    #[test]
    fn nothing_is_promised_before_it_is_known() {
        let mut meter = Meter::default();
        assert_eq!(meter.text(), "connecting");
        meter.add(&sample(1.0, 0, 0, Stage::Scan));
        assert_eq!(meter.text(), "  0%  0B of 1GB+  0.00 Mbit/s  limited by scan");
        meter.scan_complete = true;
        assert_eq!(meter.text(), "  0%  0B of 1GB  0.00 Mbit/s  limited by scan");
    }

    #[test]
    fn the_first_samples_count_in_full() {
        let mut meter = Meter::default();
        meter.add(&sample(0.1, 0, 400_000_000, Stage::Network));
        meter.add(&sample(0.2, 0, 400_000_000, Stage::Network));
        assert!((meter.rate() - 400e6).abs() < 1.0, "{}", meter.rate());
    }

    #[test]
    fn one_sample_out_of_line_does_not_shake_the_display() {
        let mut meter = Meter::default();
        for tenth in 0..100 {
            meter.add(&sample(f64::from(tenth) * 0.1, 0, 900_000_000, Stage::Network));
        }
        meter.add(&sample(10.0, 0, 0, Stage::SourceDisk));
        assert!((meter.rate() - 900e6).abs() < 40e6, "{}", meter.rate());
        assert_eq!(meter.limiting(), Stage::Network);
    }
}
