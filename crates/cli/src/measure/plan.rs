//! The plan of a measurement, made from its command line, with nothing left to doubt.

use std::ffi::{OsStr, OsString};
use std::net::Ipv6Addr;
use std::os::unix::ffi::OsStrExt;

use anyhow::{bail, ensure};
use icdc_client::{CopyOptions, Location, PipelineOptions, Via};
use icdc_measure::MeasureOptions;
use icdc_protocol::limits::{MAX_DISKLESS_BYTES, MAX_MEASURE_NANOS, MIN_DISKLESS_BYTES};
use icdc_protocol::message::{Diskless, SendOptions};
use icdc_units::{ByteCount, Span};

use crate::applies::Hosts;
use crate::arguments::{ConnectionArguments, MeasureArguments};
use crate::plan::connection::connection;
use crate::plan::output::{ResultFile, result_file};

/// Duration of a measurement for which neither a time nor a number of bytes is given.
const USUAL_TIME: Span = Span::from_secs(10);

/// Plan of an `icdc measure` command: what is measured, to which host, and how the result is shown.
pub(crate) struct MeasurePlan {
    pub(crate) target: Location,
    pub(crate) subject: Subject,
    pub(crate) connection: CopyOptions,
    pub(crate) output: Output,
}

/// Subject of a measurement.
pub(crate) enum Subject {
    /// Plain TCP.
    Tcp(MeasureOptions),
    /// The pipeline of a copy, without its disks.
    Pipeline(PipelineOptions),
}

/// Output of a measurement: as text or JSON, and files to which its result is written.
pub(crate) struct Output {
    pub(crate) json: bool,
    pub(crate) json_series: bool,
    pub(crate) series: Option<ResultFile>,
    pub(crate) report: Option<ResultFile>,
}

impl MeasurePlan {
    /// Makes the plan from the arguments, and opens the files for results; every error is one of
    /// usage.
    pub(crate) fn new(arguments: MeasureArguments) -> anyhow::Result<Self> {
        let (target, mut connection) = reach(&arguments.target, arguments.connection, arguments.streams)?;
        let time = arguments.seconds.or(arguments.bytes.is_none().then_some(USUAL_TIME));
        let subject = if arguments.secure {
            let most = ByteCount::new(MAX_DISKLESS_BYTES);
            let length = arguments.bytes.unwrap_or(most);
            let least = ByteCount::new(MIN_DISKLESS_BYTES);
            ensure!((least..=most).contains(&length), "--bytes: with --secure, {least} to {most}");
            connection.send = SendOptions {
                rate: arguments.rate.now(),
                congestion: arguments.cc.0,
                streams: arguments.streams,
                ..connection.send
            };
            let diskless = Diskless { length, hashed: arguments.hash };
            Subject::Pipeline(PipelineOptions { reverse: arguments.reverse, diskless, time })
        } else {
            Subject::Tcp(MeasureOptions {
                reverse: arguments.reverse,
                time: time.unwrap_or(Span::from_nanos(MAX_MEASURE_NANOS)),
                bytes: arguments.bytes,
                streams: arguments.streams.unwrap_or(connection.egresses.connections()),
                rate: arguments.rate.now(),
                congestion: arguments.cc.0,
                window: arguments.window,
            })
        };
        let output = Output {
            json: arguments.json,
            json_series: arguments.json_series,
            series: arguments.series.as_deref().map(|path| result_file(path, "--series")).transpose()?,
            report: arguments.report.as_deref().map(|path| result_file(path, "--report")).transpose()?,
        };
        Ok(Self { target, subject, connection, output })
    }
}

/// The host to measure to, and the options for reaching it; `streams` is the number of connections,
/// if given. Every error is one of usage.
pub(crate) fn reach(
    text: &OsStr,
    arguments: ConnectionArguments,
    streams: Option<u8>,
) -> anyhow::Result<(Location, CopyOptions)> {
    let target = target(text)?;
    let mut connection = connection(arguments, streams, Hosts::one(&target))?;
    if connection.via == Via::Udp {
        // What is measured is TCP.
        connection.via = Via::Direct;
    }
    Ok((target, connection))
}

/// Parses the target of a measurement: `[USER@]HOST`, also with a colon behind it, or
/// `icdc://HOST[:PORT]`, so a copy's location without the path.
pub(crate) fn target(text: &OsStr) -> anyhow::Result<Location> {
    let shown = text.to_string_lossy();
    let location = match text.as_bytes().starts_with(b"icdc://") {
        true => Location::parse(text)?,
        false => {
            let (user, host) = shown.rsplit_once('@').map_or(("", &*shown), |(user, host)| (user, host));
            let mut place = match host.parse::<Ipv6Addr>() {
                Ok(_) if user.is_empty() => OsString::from(format!("[{host}]")),
                Ok(_) => OsString::from(format!("{user}@[{host}]")),
                Err(_) => text.to_owned(),
            };
            ensure!(!place.is_empty(), "the host is missing; write [USER@]HOST or icdc://HOST[:PORT]");
            if !place.as_bytes().ends_with(b":") || place.as_bytes().ends_with(b"::") {
                place.push(":");
            }
            Location::parse(&place)?
        }
    };
    match &location {
        Location::Ssh { path, .. } if path == b"." => Ok(location),
        Location::Daemon { path, .. } if path == b"/" => Ok(location),
        _ => bail!("{shown}: not a host; write [USER@]HOST or icdc://HOST[:PORT], without a path"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use icdc_protocol::Ports;
    use icdc_units::ByteCount;

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn plan(words: &[&str]) -> anyhow::Result<MeasurePlan> {
        let arguments = Arguments::try_parse_from([["icdc", "measure"].as_slice(), words].concat())?;
        let Command::Measure(arguments) = arguments.command else { panic!("measure was asked for") };
        MeasurePlan::new(*arguments)
    }

    #[test]
    fn a_target_is_a_host_without_a_path() {
        let host = |text: &str| match target(OsStr::new(text)) {
            Ok(Location::Ssh { host, .. }) => host,
            Ok(Location::Daemon { host, port, .. }) => format!("icdc {host} {port}"),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(host("me@far"), "me@far");
        assert_eq!(host("fd26:33::2"), "fd26:33::2");
        assert_eq!(host("me@fd26:33::2"), "me@fd26:33::2");
        assert_eq!(host("me@far:"), "me@far");
        assert_eq!(host("[fd26:33::2]:"), "fd26:33::2");
        assert_eq!(host("fd26::"), "fd26::");
        assert_eq!(host("icdc://far"), "icdc far 2633");
        assert_eq!(host("icdc://[::1]:7/"), "icdc ::1 7");
        for text in
            ["", "far:path", ":", "far::", "/tmp", "./far", "icdc://far/path", "http://far", "@far", "-far", "a b"]
        {
            assert!(target(OsStr::new(text)).is_err(), "{text}");
        }
    }

    fn tcp(subject: Subject) -> MeasureOptions {
        match subject {
            Subject::Tcp(options) => options,
            Subject::Pipeline(_) => panic!("TCP was to be measured"),
        }
    }

    #[test]
    fn a_copy_without_disks_ends_by_its_time_or_its_bytes() {
        let order = |words: &[&str]| match plan(&[&["--secure"], words].concat()).unwrap().subject {
            Subject::Pipeline(order) => order,
            Subject::Tcp(_) => panic!("a copy was to be measured"),
        };
        assert_eq!(order(&["far"]).time, Some(USUAL_TIME));
        let sized = order(&["--bytes", "1GB", "--hash", "--reverse", "far"]);
        assert_eq!((sized.time, sized.diskless.length.as_u64()), (None, 1_000_000_000));
        assert!(sized.diskless.hashed && sized.reverse);
        for words in [&["--secure", "--bytes", "9TiB"][..], &["--hash"], &["--secure", "--window", "1MiB"]] {
            assert!(plan(&[words, &["far"]].concat()).is_err(), "{words:?}");
        }
    }

    #[test]
    fn options_reach_the_measurement() {
        let words =
            "--seconds 2min --bytes 1GB --rate 1gbit --cc cubic --streams 3 --window 1MiB --reverse --port 5-9 far";
        let plan = plan(&words.split_whitespace().collect::<Vec<_>>()).unwrap();
        let options = tcp(plan.subject);
        assert_eq!((options.time, options.bytes), (Span::from_secs(120), Some(ByteCount::new(1_000_000_000))));
        assert_eq!((options.streams, options.window), (3, Some(ByteCount::from_mib(1))));
        assert!(options.reverse && options.rate.is_some() && options.congestion.as_deref() == Some("cubic"));
        assert_eq!(plan.connection.ports, Ports::Range { low: 5, high: 9 });
    }

    #[test]
    fn without_a_time_it_takes_ten_seconds_or_all_the_bytes() {
        assert_eq!(tcp(plan(&["far"]).unwrap().subject).time, USUAL_TIME);
        assert_eq!(tcp(plan(&["--bytes", "1GB", "far"]).unwrap().subject).time.as_nanos(), MAX_MEASURE_NANOS);
        assert!(plan(&["--json-series", "far"]).is_err());
    }
}
