//! The plan of a copy, made from its command line, with nothing left to doubt.
//!
//! | module | contents |
//! |---|---|
//! | `connection` | options of reaching hosts |
//! | `ends` | options of the sending and of the receiving end |
//! | `following` | how sources are followed, and until when |
//! | `output` | progress, result files and metrics |
//! | `owners` | how owners are found at the destination |
//! | `places` | sources and destinations that are not there |
//! | `refusals` | options that are refused |
//! | `stream` | standard input as the source, standard output as the destination |

pub(crate) mod connection;
mod ends;
mod following;
pub(crate) mod output;
mod owners;
pub(crate) mod places;
mod refusals;
mod stream;

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, anyhow, ensure};
use icdc_client::{CopyOptions, Location, ReceiptFile};
use icdc_filter::Rule;
use icdc_protocol::limits::{MAX_ASKED_BYTES, MAX_SOURCES};
use icdc_protocol::message::SendOptions;
use icdc_schedule::RateSchedule;
use icdc_transfer::{NameList, UserCeiling};

use self::connection::connection;
use self::ends::{receiving, sending, snapshot};
use self::output::{Output, SummaryPlace, metrics, progress, result_file};
use self::places::{missing_source, refuse_forgotten_colon};
use self::refusals::{
    refuse_backups, refuse_devices, refuse_directories, refuse_equality, refuse_mode_changes, refuse_without_effect,
};
use crate::applies::Hosts;
use crate::arguments::{CopyArguments, ReportingArguments};
use crate::values::CopyName;
use crate::{choosing, listed, reporting};

/// Meaning of an `icdc copy` command line: sources, destination, options, and how the run is shown.
pub(crate) struct CopyPlan {
    /// Name by which `icdc ctl` finds the copy; `None` for none.
    pub(crate) name: Option<CopyName>,
    pub(crate) sources: Vec<Location>,
    pub(crate) destination: Location,
    pub(crate) options: CopyOptions,
    /// The limit of the rate, which the copy's session reads and its user may change.
    pub(crate) ceiling: Arc<UserCeiling>,
    /// Whether the copy waits at present for another one that writes the same.
    pub(crate) waits: Arc<AtomicBool>,
    /// The limit of the rate over time.
    pub(crate) rate: RateSchedule,
    pub(crate) output: Output,
    pub(crate) reporting: ReportingArguments,
}

impl CopyPlan {
    /// Makes the plan from the arguments, and opens the files for results; every error is one of
    /// usage.
    pub(crate) fn new(arguments: CopyArguments) -> anyhow::Result<Self> {
        let is_of_plan = arguments.plan.is_some() || arguments.shard.0.is_none();
        ensure!(is_of_plan, "--shard is a part of a plan, and none is named: give --plan DIR as well");
        let (last, first) = arguments.places.split_last().context("name what to copy, and where to")?;
        let input = stream::input(&arguments, first)?;
        let first = if input.is_some() { &[] } else { first };
        let mut sources = first.iter().map(|source| Location::parse(source)).collect::<Result<Vec<_>, _>>()?;
        let destination = Location::parse(last)?;
        let output = stream::output(&arguments, &sources, &destination)?;
        refuse_forgotten_colon(&destination)?;
        let choice = choosing::choice(&arguments.choosing)?;
        check_sources(&sources, first, &choice.rules)?;
        refuse_equality(&arguments)?;
        refuse_devices(&arguments)?;
        let hosts = Hosts::of(&sources, &destination);
        refuse_without_effect(&arguments, hosts)?;
        refuse_directories(&arguments)?;
        refuse_backups(&arguments)?;
        refuse_mode_changes(&arguments)?;
        let listed = listed::chosen(&arguments, &mut sources)?;
        let mut receive = receiving(&arguments, &choice.rules);
        receive.owners = owners::mapping(&arguments, hosts)?.into();
        if arguments.snapshot {
            receive.snapshot = Some(snapshot(&arguments)?);
        }
        let (listing, owner_names) = (listed.as_ref().map(NameList::digest), receive.learns_owner_names());
        let send = SendOptions { listed: listing, owner_names, ..sending(&arguments, choice) };
        let mut options = connection(arguments.connection.clone(), arguments.streams.0, hosts)?;
        (options.send, options.receive, options.listed) = (send, receive, listed);
        options.input = input;
        if let Some(output) = output {
            options = options.to_stream(output);
        }
        options.retry_for = arguments.retry_for;
        options.marker = reporting::marker(&arguments.reporting)?;
        options.follow = following::options(&arguments.following, hosts)?;
        // Each session goes to the place of the one before, and so does the next run.
        options.receive.keeps_name |= options.follow.is_some();
        options.receipt = receipt(arguments.receipt.as_deref())?;
        let output = output_of(&arguments, options.output.is_some())?;
        let (ceiling, rate) = (Arc::new(UserCeiling::new(options.send.rate)), arguments.rate);
        ensure!(
            rate.is_constant() || !hosts.between_two,
            "--rate: rates over time are for copies from or to this host; name one rate, or run icdc on one of the two hosts"
        );
        let (name, reporting) = (arguments.name, arguments.reporting);
        let waits = Arc::default();
        Ok(Self { name, sources, destination, options, ceiling, waits, rate, output, reporting })
    }

    /// This plan changed so that a single source directory goes into the destination under its
    /// name, whether or not the destination exists: what is copied again goes to the same place.
    pub(crate) fn keeping_names(mut self) -> Self {
        self.options.receive.keeps_name = true;
        self
    }

    /// This plan without a summary on standard output.
    pub(crate) fn quietly(mut self) -> Self {
        self.output.summary = SummaryPlace::None;
        self
    }
}

/// Refuses sources that are too many, whose names are too long for a request, or of which a single one
/// is missing; `texts` are the sources as given, `rules` those of the request.
fn check_sources(sources: &[Location], texts: &[OsString], rules: &[Rule]) -> anyhow::Result<()> {
    ensure!(
        sources.len() <= MAX_SOURCES,
        "{} sources are too many; name at most {MAX_SOURCES}, or a directory above them",
        sources.len()
    );
    let asked: usize = sources.iter().filter_map(Location::path_there).map(|path| path.len() + 4).sum();
    ensure!(
        asked == 0 || asked + choosing::rule_bytes(rules) <= MAX_ASKED_BYTES,
        "the paths of {} sources on another host, and rules, are too long together ({asked} bytes of paths; the most is \
         {MAX_ASKED_BYTES} of both); name a directory above them",
        sources.len()
    );
    // One that is missing among others is named as a failed item, and the others arrive.
    let found = sources.iter().zip(texts).map(|(source, text)| match source {
        Location::Local(path) => std::fs::symlink_metadata(path).map(drop).with_context(|| missing_source(text)),
        _ => Ok(()),
    });
    found.reduce(|first, next| if next.is_ok() { next } else { first }).unwrap_or(Ok(()))
}

/// Output of the command; `is_stream` where the data itself goes to standard output.
fn output_of(arguments: &CopyArguments, is_stream: bool) -> anyhow::Result<Output> {
    Ok(Output {
        json: arguments.json,
        dry_run: arguments.dry_run,
        verbose: arguments.verbose,
        quiet: arguments.quiet,
        progress: progress(arguments),
        report: arguments.report.as_deref().map(|path| result_file(path, "--report")).transpose()?,
        metrics: metrics(arguments.metrics.clone(), arguments.metrics_push.clone(), arguments.metrics_interval),
        summary: match (arguments.quiet, is_stream) {
            (true, _) => SummaryPlace::None,
            (false, false) => SummaryPlace::Output,
            (false, true) => SummaryPlace::Errors,
        },
    })
}

/// Creates the file of the receipt (`--receipt`); `None` if none is asked for.
fn receipt(path: Option<&Path>) -> anyhow::Result<Option<Arc<ReceiptFile>>> {
    let Some(path) = path else { return Ok(None) };
    let file = ReceiptFile::create(path).map_err(|reason| anyhow!("--receipt {reason}"))?;
    Ok(Some(Arc::new(file)))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use icdc_filter::Effect;
    use icdc_protocol::Ports;
    use icdc_protocol::message::{Equality, Existing, IfRunning};
    use icdc_tcp::Family;
    use icdc_units::{ByteCount, Rate};

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn plan(words: &[&str]) -> anyhow::Result<CopyPlan> {
        let arguments = Arguments::try_parse_from([["icdc", "copy"].as_slice(), words].concat())?;
        let Command::Copy(arguments) = arguments.command else { panic!("copy was asked for") };
        CopyPlan::new(*arguments)
    }

    #[test]
    fn options_reach_the_transfer() {
        let words = "--rate 8kbit --cc cubic --streams 3 --ring 64MiB --buffered --verify --no-resume --update --if-running skip --mkpath --whole-file --exclude *.o --include *.nc --exclude b/ \
                     --preserve mode -6 --port 7-9 --retry-for 5s --ssh x --remote-icdc y a:b c";
        let plan = plan(&words.split_whitespace().collect::<Vec<_>>()).unwrap();
        let CopyOptions { send, receive, ports, family, ssh, remote_icdc, retry_for, .. } = plan.options;
        assert_eq!(
            (send.rate, send.congestion.as_deref(), send.streams),
            (Some(Rate::from_bits_per_second(8000)), Some("cubic"), Some(3))
        );
        let rules = send.choice.rules.iter().map(|rule| (rule.effect, rule.pattern.as_slice()));
        let expected: [(_, &[u8]); 3] =
            [(Effect::Exclude, b"*.o"), (Effect::Include, b"*.nc"), (Effect::Exclude, b"b/")];
        assert_eq!(rules.collect::<Vec<_>>(), expected);
        assert!(
            receive.verify
                && !receive.resume
                && receive.mkpath
                && receive.whole_files
                && receive.existing == Existing::Update(Equality::SizeAndTime)
        );
        assert_eq!(receive.if_running, IfRunning::Skip);
        assert!(send.buffered && receive.buffered);
        assert_eq!((receive.ring, send.preserve), (Some(ByteCount::from_mib(64)), receive.preserve));
        assert!(send.preserve.mode && !send.preserve.times);
        assert_eq!(
            (ports, ssh.as_str(), remote_icdc.as_str(), retry_for.as_secs()),
            (Ports::Range { low: 7, high: 9 }, "x", "y", 5)
        );
        assert!(matches!(family, Family::V6));
    }

    #[test]
    fn defaults_are_those_of_the_help() {
        let plan = plan(&["a:b", "c"]).unwrap();
        assert_eq!(
            (plan.options.send.rate, plan.options.send.congestion.as_deref(), plan.options.send.streams),
            (None, None, None)
        );
        assert!(plan.options.receive.resume && !plan.options.receive.verify);
        assert_eq!(plan.options.receive.ring, None);
        assert_eq!((plan.options.ports, plan.options.ssh.as_str()), (Ports::Any, CopyOptions::SSH));
        assert_eq!(plan.options.remote_icdc, CopyOptions::REMOTE_ICDC);
    }

    #[test]
    fn a_source_that_is_not_there_is_found_out_first() {
        let error = plan(&["/nonexistent/source", "a:b"]).err().unwrap();
        assert!(format!("{error:#}").contains("/nonexistent/source"), "{error:#}");
    }
}
