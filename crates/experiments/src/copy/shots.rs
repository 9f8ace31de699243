//! Data that is copied while an instrument writes it: `icdc copy --follow` of an ordinary user on stock hosts over 1 Gbit/s and
//! 300 ms.
//!
//! The writer fills files one after the other, at 80 % of the payload that the path carries. In the first case it writes five
//! shots of 60 files each, of 16 KiB to 64 MiB, with a pause of 4 s between them; in the second one file of 10 GB. What counts is
//! how long after the writer's last close of a shot its last file is durable on the far side: at most 2 s and four round trips,
//! and before the next shot begins. At the end all files are compared, byte by byte.
//!
//! Sent is what the path has delivered: TCP's payload, headers and retransmissions of icdc included.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use icdc_lab::recording::Recording;
use icdc_lab::{Heading, Lab, Settings, spoilt};
use icdc_packet::clock;
use icdc_report::{Plot, Report, Series, Stroke, Table, Unit};
use icdc_units::{ByteCount, Rate, Ratio, Span, Time};
use serde::Deserialize;

use crate::copy::copying;
use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::hosts::commands::{FAR, on_host};
use crate::harness::hosts::paths::path;
use crate::harness::hosts::temporary_lab::TemporaryLab;
use crate::harness::measurement::rights::Rights;
use crate::harness::processes::bounded;
use crate::harness::processes::scratch::Scratch;
use crate::harness::repetition::attempts::{self, Figures};
use crate::harness::repetition::resolution::Resolution;
use crate::harness::scenario::Scenario;

/// Scenario `shots` of `icdc lab run`: what an instrument writes is copied meanwhile.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "shots",
    about: "--follow beside a writer at 80 % of the path, five shots of 60 files and one file of 10 GB: how soon after the last close all is durable",
    has_rows: true,
    is_parallel: false,
    run,
};

const RATE: Rate = Rate::from_bits_per_second(1_000_000_000);
const ROUND_TRIP: Span = Span::from_millis(300);
const QUEUE: ByteCount = ByteCount::new(2_500_000);
/// Rate of the writer, as a share of the payload that the path carries.
const WRITER_SHARE: Ratio = Ratio::new(4, 5);
/// Greatest time from the last close of a shot to when all of it is durable: 2 s and four round trips.
const WANTED: Span = Span::from_millis(2_000 + 4 * ROUND_TRIP.as_millis());
/// Pause between two shots, in which the next would already be late.
const PAUSE: Span = Span::from_secs(4);
/// Sizes of a shot's files, from the smallest to the largest: evenly spread in their logarithm.
const SMALLEST: f64 = 16.0 * 1024.0;
const LARGEST: f64 = 64.0 * 1024.0 * 1024.0;
/// Length in bytes of each write.
const PIECE: usize = 256 << 10;
/// Random bytes from which all files are written, each from a place of its own.
const NOISE: usize = 16 << 20;
/// Name of the file that ends the copy.
const END: &str = "end";
/// Step of the plots.
const STEP: Span = Span::from_millis(100);

/// Case of the scenario: shots that are written, each of files of these sizes.
struct Case {
    name: &'static str,
    shots: Vec<Vec<ByteCount>>,
}

/// Measures both cases; gives the report.
fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let (shots, files, grown) = if bench.quick { (2, 12, 300) } else { (5, 60, 10_000) };
    let shot: Vec<ByteCount> = (0..files).map(|number| size(number, files)).collect();
    let cases = vec![
        Case { name: "shots in a row", shots: vec![shot; shots] },
        Case { name: "one growing file", shots: vec![vec![ByteCount::new(grown * 1_000_000)]] },
    ];
    let cases = bench.wanted(cases, |case| case.name.to_owned())?;
    let most = cases.iter().map(Case::bytes).max().unwrap_or_default();
    let scratch = Scratch::on_disk(most * 2 + ByteCount::from_mib(64))?;
    let settings = Settings { stock: true, ..Settings::symmetric(path(RATE, ROUND_TRIP, QUEUE)) };
    let mut followed = Vec::new();
    for case in &cases {
        (bench.say)(case.name);
        let tolerance = Resolution::Means.tolerance(settings.round_trip());
        let attempt = || follow(bench, &scratch, &settings, case, tolerance);
        followed.push((case, attempts::unspoilt(bench, tolerance, attempt, |followed| followed.spoilt.as_deref())?));
    }
    Ok(Report {
        tables: followed.iter().map(|(case, followed)| followed.table(case)).collect(),
        plots: followed.iter().map(|(case, followed)| followed.plot(case, &settings)).collect(),
        failures: attempts::failures(followed.iter().map(|(case, followed)| (case.name.to_owned(), &followed.spoilt))),
        ..Report::default()
    })
}

/// Size of file `number` of `files` in a shot. Small and large ones follow each other: 7 has no factor in common with 60.
fn size(number: u64, files: u64) -> ByteCount {
    let place = (number * 7 % files) as f64 / (files - 1) as f64;
    ByteCount::new((SMALLEST * (LARGEST / SMALLEST).powf(place)) as u64)
}

/// Directory of a shot, below the source and below the destination.
fn shot_name(number: usize) -> String {
    format!("shot-{number}")
}

impl Case {
    fn bytes(&self) -> ByteCount {
        self.shots.iter().flatten().copied().sum()
    }

    /// Path of each file below the source, in the order in which they are written.
    fn files(&self) -> impl Iterator<Item = PathBuf> {
        let name = |shot: usize, number: usize| Path::new(&shot_name(shot)).join(format!("frame-{number:02}"));
        self.shots
            .iter()
            .enumerate()
            .flat_map(move |(shot, sizes)| (0..sizes.len()).map(move |number| name(shot, number)))
    }
}

/// A line of `icdc copy --follow --json`, by its type.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum FollowLine {
    Connected {},
    Followed {
        path: String,
        bytes: u64,
    },
    #[serde(other)]
    Other,
}

/// A file that was reported as durable.
struct Durable {
    at: Time,
    path: String,
    bytes: u64,
}

/// Times at which the writer has written.
#[derive(Default)]
struct Written {
    /// Bytes written so far, at times in steps.
    progress: Vec<(Time, u64)>,
    /// Begin of each shot, and its last close.
    shots: Vec<(Time, Time)>,
}

/// Result of a case.
struct Followed {
    written: Written,
    durable: Vec<Durable>,
    recording: Recording,
    spoilt: Option<String>,
}

impl Figures for Followed {
    fn figures(&self) -> String {
        let lags: Vec<String> = (0..self.written.shots.len()).map(|shot| seconds(self.lag(shot))).collect();
        format!("durable {} s after the last close", lags.join(", "))
    }
}

/// Follows the writer in a lab of its own.
fn follow(
    bench: &Bench<'_>,
    scratch: &Scratch,
    settings: &Settings,
    case: &Case,
    tolerance: Span,
) -> Result<Followed, ExperimentError> {
    let (source, destination) = (scratch.empty("a")?, scratch.empty("b")?);
    let lab = TemporaryLab::new(bench, settings)?;
    let rate = Rate::from_bits_per_second(copying::payload(RATE, settings) as u64) * WRITER_SHARE;
    let (connected, begin) = mpsc::channel();
    let mut durable = Vec::new();
    let (written, ended) = thread::scope(|scope| {
        let source = &source;
        let writer = scope.spawn(move || match begin.recv() {
            Ok(()) => write(case, source, rate),
            // It has ended without a connection.
            Err(_) => Ok(Written::default()),
        });
        let ended =
            bounded::run(&mut command(bench, &lab, source, &destination, scratch)?, Span::from_secs(600), |line| {
                match serde_json::from_str(line) {
                    Ok(FollowLine::Connected {}) => {
                        // The writer may be at work.
                        let _ = connected.send(());
                    }
                    Ok(FollowLine::Followed { path, bytes }) => durable.push(Durable { at: clock::now(), path, bytes }),
                    Ok(FollowLine::Other) | Err(_) => {}
                }
            });
        drop(connected);
        Ok::<_, ExperimentError>((writer.join().expect("writing does not panic"), ended?))
    })?;
    let written = written.map_err(|error| ExperimentError::io("write shots", error))?;
    if !ended.well {
        let output = if ended.overran { "it did not end within 600 s".to_owned() } else { ended.errors };
        return Err(ExperimentError::program("icdc copy --follow", output));
    }
    for file in case.files() {
        let is_equal = are_equal(&source.join(&file), &destination.join(&file));
        if !is_equal.map_err(|error| ExperimentError::io("compare the copy", error))? {
            return Err(ExperimentError::program("icdc copy --follow", format!("{} is not equal", file.display())));
        }
    }
    let page = lab.page()?;
    Ok(Followed {
        written,
        durable,
        recording: Recording::of(&page, Heading::Forward, Span::MAX),
        spoilt: spoilt(&page, settings, tolerance),
    })
}

/// The command that follows `source`, as an ordinary user's, from host a to host b.
fn command(
    bench: &Bench<'_>,
    lab: &Lab,
    source: &Path,
    destination: &Path,
    scratch: &Scratch,
) -> Result<std::process::Command, ExperimentError> {
    let program = bench.program.display().to_string();
    let shell = format!("'{program}' lab exec --name {} --shell", lab.record.name);
    let mut command = on_host(bench, lab, "a", Rights::Few);
    command.args([&program, "copy", "--json", "--ssh", &shell, "--remote-icdc", &program]);
    command.args(["--follow", "--final", END]);
    command.arg(format!("{}/", source.display())).arg(format!("{FAR}:{}", destination.display()));
    command.env("XDG_STATE_HOME", scratch.empty("state")?);
    Ok(command)
}

/// Writes all shots at this rate, then the file that ends the copy.
fn write(case: &Case, source: &Path, rate: Rate) -> io::Result<Written> {
    let mut noise = vec![0; NOISE];
    File::open("/dev/urandom")?.read_exact(&mut noise)?;
    let mut written = Written::default();
    let (mut total, mut files) = (0, 0_usize);
    for (number, sizes) in case.shots.iter().enumerate() {
        if number > 0 {
            clock::sleep_until(clock::now() + PAUSE);
        }
        let directory = source.join(shot_name(number));
        fs::create_dir(&directory)?;
        let (begun, before) = (clock::now(), total);
        for (name, size) in sizes.iter().enumerate() {
            let mut file = File::create_new(directory.join(format!("frame-{name:02}")))?;
            let (mut left, mut from) = (size.as_usize(), files * 65_537 % (NOISE - PIECE));
            files += 1;
            while left > 0 {
                let length = left.min(PIECE);
                file.write_all(&noise[from..from + length])?;
                (left, from, total) = (left - length, (from + length) % (NOISE - PIECE), total + length as u64);
                written.progress.push((clock::now(), total));
                clock::sleep_until(begun + ByteCount::new(total - before) / rate);
            }
        }
        written.shots.push((begun, clock::now()));
    }
    fs::write(source.join(END), "")?;
    Ok(written)
}

/// Whether two files have the same bytes.
fn are_equal(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    let mut left = one.metadata()?.len();
    if left != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut here, mut there) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    while left > 0 {
        let length = left.min(1 << 20) as usize;
        one.read_exact(&mut here[..length])?;
        other.read_exact(&mut there[..length])?;
        if here[..length] != there[..length] {
            return Ok(false);
        }
        left -= length as u64;
    }
    Ok(true)
}

/// Seconds with two digits; `never` for `None`.
fn seconds(time: Option<Span>) -> String {
    time.map_or_else(|| "never".to_owned(), |time| format!("{:.2}", time.as_secs_f64()))
}

impl Followed {
    /// Files of a shot that are durable.
    fn of_shot(&self, shot: usize) -> impl Iterator<Item = &Durable> {
        let name = shot_name(shot);
        self.durable.iter().filter(move |durable| {
            let mut parts = Path::new(&durable.path).components().rev();
            let is_file = parts.next().is_some_and(|last| last.as_os_str().to_string_lossy().starts_with("frame-"));
            is_file && parts.next().is_some_and(|parent| parent.as_os_str() == name.as_str())
        })
    }

    /// Time from the last close of a shot to when its last file was durable; `None` if none ever was.
    fn lag(&self, shot: usize) -> Option<Span> {
        let (_, closed) = self.written.shots[shot];
        self.of_shot(shot).map(|durable| durable.at - closed).max()
    }

    /// Table of the shots, beside the requirements.
    fn table(&self, case: &Case) -> Table {
        let rows = self.written.shots.iter().zip(&case.shots).enumerate().map(|(shot, (&(begun, closed), sizes))| {
            let next = self.written.shots.get(shot + 1).map(|&(begun, _)| begun);
            let late = self.of_shot(shot).filter(|durable| next.is_some_and(|next| durable.at > next)).count();
            let bytes: ByteCount = sizes.iter().copied().sum();
            let rate = bytes.as_u64() as f64 * 8.0 / (closed - begun).as_secs_f64() / 1e6;
            vec![
                (shot + 1).to_string(),
                format!("{} of {}", self.of_shot(shot).count(), sizes.len()),
                format!("{:.0}", bytes.as_u64() as f64 / 1e6),
                format!("{:.0}", rate),
                seconds(self.lag(shot)),
                late.to_string(),
            ]
        });
        let header = [
            "shot".to_owned(),
            "files durable".to_owned(),
            "MB".to_owned(),
            "written at, Mbit/s".to_owned(),
            format!("durable after the last close, s (at most {})", seconds(Some(WANTED))),
            "files durable after the next shot began".to_owned(),
        ];
        Table {
            caption: format!("1 Gbit/s, 300 ms, unprivileged: {}", case.name),
            header: header.to_vec(),
            rows: rows.collect(),
        }
    }

    /// Plot of what was written, sent and durable over time.
    fn plot(&self, case: &Case, settings: &Settings) -> Plot {
        let begun = self.written.shots.first().map_or(self.recording.begun, |&(begun, _)| begun);
        let at = |time: Time| (time - begun).as_secs_f64();
        let mut written: Vec<(f64, f64)> = Vec::new();
        for &(time, bytes) in &self.written.progress {
            if written.last().is_none_or(|&(last, _)| at(time) - last >= STEP.as_secs_f64()) {
                written.push((at(time), bytes as f64));
            }
        }
        written.extend(self.written.progress.last().map(|&(time, bytes)| (at(time), bytes as f64)));
        let share = copying::payload(RATE, settings) / RATE.as_bits_per_second() as f64;
        let mut total = 0.0;
        let step = STEP.as_millis() as usize;
        let recording = self.recording.clone().since(begun);
        let sent = recording.bins.chunks(step).enumerate().map(|(number, bins)| {
            total += bins.iter().map(|bin| bin.delivered.as_u64() as f64).sum::<f64>() * share;
            (at(recording.begun + STEP * (number as u64 + 1)), total)
        });
        let sent: Vec<_> = sent.collect();
        let mut sum = 0.0;
        let durable = self.durable.iter().map(|durable| {
            sum += durable.bytes as f64;
            (at(durable.at), sum)
        });
        let durable: Vec<_> = durable.collect();
        Plot::new(
            &format!("Written, sent, durable: {}", case.name),
            Unit::Bytes,
            vec![
                Series::new("written", Stroke::Line, written).column("written"),
                Series::new("sent", Stroke::Line, sent).column("sent"),
                Series::new("durable", Stroke::Line, durable).column("durable"),
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shot_has_files_of_all_sizes() {
        let mut sizes: Vec<u64> = (0..60).map(|number| size(number, 60).as_u64()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        assert_eq!((sizes.len(), sizes[0]), (60, 16 << 10));
        assert!(((64 << 20) - sizes[59]) < 1024, "{}", sizes[59]);
    }

    #[test]
    fn the_lag_of_a_shot_is_that_of_its_last_file() {
        let at = |seconds| Time::ORIGIN + Span::from_secs(seconds);
        let durable = |seconds, path: &str| Durable { at: at(seconds), path: path.to_owned(), bytes: 1 };
        let followed = Followed {
            written: Written { progress: Vec::new(), shots: vec![(at(0), at(10)), (at(14), at(20)), (at(24), at(25))] },
            durable: vec![
                durable(5, "a/shot-0/frame-00"),
                durable(15, "a/shot-0/frame-01"),
                durable(22, "a/shot-1/frame-00"),
                durable(30, "a/shot-1"),
            ],
            recording: Recording::default(),
            spoilt: None,
        };
        assert_eq!(followed.lag(0), Some(Span::from_secs(5)));
        assert_eq!(followed.lag(1), Some(Span::from_secs(2)));
        assert_eq!(followed.lag(2), None);
        let case = Case {
            name: "some",
            shots: vec![vec![ByteCount::new(1); 2], vec![ByteCount::new(1)], vec![ByteCount::new(1)]],
        };
        let table = followed.table(&case);
        let late: Vec<&str> = table.rows.iter().map(|row| row[5].as_str()).collect();
        assert_eq!(late, ["1", "0", "0"]);
    }
}
