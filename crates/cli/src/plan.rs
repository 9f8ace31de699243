//! The plan of a copy, made from its command line, with nothing left to doubt.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail, ensure};
use icdc_client::{CopyOptions, Location, ReceiptFile};
use icdc_filter::Rule;
use icdc_metrics::Gateway;
use icdc_protocol::limits::{MAX_ASKED_BYTES, MAX_LINK_DESTS, MAX_MODE_CHANGES, MAX_PATH, MAX_SOURCES};
use icdc_protocol::message::{
    Backup, Choice, Delete, Equality, Existing, IfRunning, Mirrored, Missing, ReceiveOptions, SendOptions, Snapshot,
    SnapshotTime,
};
use icdc_protocol::validate::is_component;
use icdc_tcp::{Egresses, Family};
use icdc_transfer::NameList;
use icdc_trust::Paths;
use icdc_units::Span;

use crate::applies::{Concern, Hosts, Mismatch};
use crate::arguments::{
    AddressFamily, ConnectionArguments, CopyArguments, IfRunningMode, ProgressMode, ReportingArguments,
};
use crate::chmod::gives_set_id;
use crate::choosing;
use crate::clock::seconds_since_1970;
use crate::config::settings::concern;
use crate::keygen::file_or_default;
use crate::listed;
use crate::reporting;
use crate::route::Route;

/// Plan of an `icdc copy` command.
pub(crate) struct CopyPlan {
    pub(crate) sources: Vec<Location>,
    pub(crate) destination: Location,
    pub(crate) options: CopyOptions,
    pub(crate) output: Output,
    pub(crate) reporting: ReportingArguments,
}

/// How a copy's progress and result are shown.
pub(crate) struct Output {
    pub(crate) json: bool,
    pub(crate) dry_run: bool,
    pub(crate) verbose: bool,
    /// Whether standard error carries errors only.
    pub(crate) quiet: bool,
    pub(crate) progress: Progress,
    pub(crate) report: Option<ResultFile>,
    pub(crate) metrics: Option<MetricsOutput>,
    /// The end of the run is told on standard output.
    pub(crate) summary: bool,
}

/// How progress is displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Progress is not shown.
    Off,
    /// A bar on a terminal.
    Bar,
    /// A line each second.
    Lines,
}

/// A file for results, known to be writable.
pub(crate) struct ResultFile {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
}

impl CopyPlan {
    /// Reads the arguments; every error is one of usage.
    pub(crate) fn new(arguments: CopyArguments) -> anyhow::Result<Self> {
        let is_of_plan = arguments.plan.is_some() || arguments.shard.0.is_none();
        ensure!(is_of_plan, "--shard is a part of a plan, and none is named: give --plan DIR as well");
        let (last, first) = arguments.places.split_last().context("name what to copy, and where to")?;
        let mut sources = first.iter().map(|source| Location::parse(source)).collect::<Result<Vec<_>, _>>()?;
        let destination = Location::parse(last)?;
        refuse_forgotten_colon(&destination)?;
        ensure!(
            sources.len() <= MAX_SOURCES,
            "{} sources are too many; name at most {MAX_SOURCES}, or a directory above them",
            sources.len()
        );
        let choice = choosing::choice(&arguments.choosing)?;
        let asked: usize = sources.iter().filter_map(Location::path_there).map(|path| path.len() + 4).sum();
        ensure!(
            asked == 0 || asked + choosing::rule_bytes(&choice.rules) <= MAX_ASKED_BYTES,
            "the paths of {} sources on another host, and rules, are too long together ({asked} bytes of paths; the most is \
             {MAX_ASKED_BYTES} of both); name a directory above them",
            sources.len()
        );
        // One that is missing among others is named as a failed item, and the others arrive.
        let found = sources.iter().zip(first).map(|(source, text)| match source {
            Location::Local(path) => std::fs::symlink_metadata(path).map(drop).with_context(|| missing_source(text)),
            _ => Ok(()),
        });
        found.reduce(|first, next| if next.is_ok() { next } else { first }).unwrap_or(Ok(()))?;
        refuse_equality(&arguments)?;
        let hosts = Hosts::of(&sources, &destination);
        refuse_without_effect(&arguments, hosts)?;
        refuse_references(&arguments.link_dest)?;
        refuse_backups(&arguments)?;
        refuse_mode_changes(&arguments)?;
        let listed = listed::chosen(&arguments, &mut sources)?;
        let mut receive = receiving(&arguments, &choice.rules);
        if arguments.snapshot {
            receive.snapshot = Some(snapshot(&arguments)?);
        }
        let send = SendOptions { listed: listed.as_ref().map(NameList::digest), ..sending(&arguments, choice) };
        let mut options = connection(arguments.connection, arguments.streams.0, hosts)?;
        (options.send, options.receive, options.listed) = (send, receive, listed);
        options.retry_for = arguments.retry_for;
        options.marker = reporting::marker(&arguments.reporting)?;
        options.receipt = receipt(arguments.receipt.as_deref(), hosts)?;
        let output = Output {
            json: arguments.json,
            dry_run: arguments.dry_run,
            verbose: arguments.verbose,
            quiet: arguments.quiet,
            progress: match arguments.quiet {
                true => Progress::Off,
                false => progress(arguments.progress, std::io::stderr().is_terminal()),
            },
            report: arguments.report.as_deref().map(|path| result_file(path, "--report")).transpose()?,
            metrics: metrics(arguments.metrics, arguments.metrics_push, arguments.metrics_interval),
            summary: !arguments.quiet,
        };
        Ok(Self { sources, destination, options, output, reporting: arguments.reporting })
    }
}

impl CopyPlan {
    /// This plan, by which a single directory goes into the destination under its name, whether or
    /// not the destination exists: what is copied again goes to the same place.
    pub(crate) fn keeping_names(mut self) -> Self {
        self.options.receive.keeps_name = true;
        self
    }
}

/// The file of the receipt that is asked for, which is made now.
fn receipt(path: Option<&Path>, hosts: Hosts) -> anyhow::Result<Option<Arc<ReceiptFile>>> {
    let Some(path) = path else { return Ok(None) };
    ensure!(
        !hosts.between_two,
        "--receipt: one end of the copy has to be on this host, where the receipt is written; run icdc on one of both"
    );
    let file = ReceiptFile::create(path).map_err(|reason| anyhow!("--receipt {reason}"))?;
    Ok(Some(Arc::new(file)))
}

/// The sending end's options, from a copy's command line.
fn sending(arguments: &CopyArguments, choice: Choice) -> SendOptions {
    SendOptions {
        choice,
        preserve: arguments.preserve,
        rate: arguments.rate.0,
        congestion: arguments.cc.0.clone(),
        streams: arguments.streams.0,
        dry_run: arguments.dry_run,
        buffered: arguments.buffered,
        diskless: None,
        mirrored: match (arguments.delete, arguments.delete_excluded) {
            _ if arguments.snapshot => Mirrored::Snapshot,
            (false, _) => Mirrored::No,
            (true, false) => Mirrored::KeepingExcluded,
            (true, true) => Mirrored::WithExcluded,
        },
        moves: arguments.moves,
        listed: None,
        prune_empty_dirs: arguments.prune_empty_dirs,
    }
}

/// The receiving end's options, from a copy's command line.
fn receiving(arguments: &CopyArguments, rules: &[Rule]) -> ReceiveOptions {
    ReceiveOptions {
        verify: arguments.verify,
        resume: !arguments.no_resume,
        existing: existing(arguments),
        if_running: match arguments.if_running {
            IfRunningMode::Wait => IfRunning::Wait,
            IfRunningMode::Skip => IfRunning::Skip,
            IfRunningMode::Fail => IfRunning::Fail,
        },
        mkpath: arguments.mkpath,
        preserve: arguments.preserve,
        ring: arguments.ring,
        dry_run: arguments.dry_run,
        buffered: arguments.buffered,
        diskless: None,
        place: None,
        keeps_name: false,
        // A snapshot has nothing of an interrupted run that is no longer at the source.
        delete: (arguments.delete || arguments.snapshot && !arguments.dry_run).then(|| Delete {
            rules: if arguments.delete_excluded || arguments.snapshot { Vec::new() } else { rules.to_vec() },
            max: arguments.max_delete,
            allow_empty_source: arguments.yes_empty,
        }),
        link_dest: arguments.link_dest.iter().map(|directory| directory.as_bytes().to_vec()).collect(),
        missing: if arguments.existing { Missing::LeaveOut } else { Missing::Make },
        snapshot: None,
        backup: backup(arguments),
        receipt: false,
        chmod: arguments.chmod.iter().flat_map(|changes| changes.0.iter().copied()).collect(),
    }
}

/// Where replaced and deleted items are kept, from a copy's command line.
fn backup(arguments: &CopyArguments) -> Option<Backup> {
    let bytes = |value: &OsString| value.as_bytes().to_vec();
    let (directory, suffix) = (arguments.backup_dir.as_ref().map(bytes), arguments.suffix.as_ref().map(bytes));
    let is_given = directory.is_some() || suffix.is_some();
    is_given.then(|| Backup { directory, suffix: suffix.unwrap_or_default() })
}

/// The snapshot that is asked for, named by the present time.
fn snapshot(arguments: &CopyArguments) -> anyhow::Result<Snapshot> {
    let time = SnapshotTime::new(seconds_since_1970()).context("the clock is beyond the year 9999; set it")?;
    Ok(Snapshot { time, keep: arguments.keep })
}

/// What is done about files that exist at the destination, from a copy's command line.
fn existing(arguments: &CopyArguments) -> Existing {
    let equality = match (arguments.size_only, arguments.checksum) {
        (true, _) => Equality::Size,
        (false, true) => Equality::Contents,
        (false, false) => Equality::SizeAndTime,
    };
    match (arguments.ignore_existing, arguments.update, arguments.skip_equal) {
        (true, ..) => Existing::Keep,
        (false, true, _) => Existing::Update(equality),
        (false, false, true) => Existing::SkipEqual(equality),
        (false, false, false) => Existing::Replace,
    }
}

/// Refuses what counts as equal in a copy that skips nothing for being equal.
fn refuse_equality(arguments: &CopyArguments) -> anyhow::Result<()> {
    let given = [("--size-only", arguments.size_only), ("--checksum", arguments.checksum)];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) if !arguments.skip_equal && !arguments.update => bail!(
            "{option} says what counts as equal, and without --skip-equal or --update everything is copied: give one of them, or use \
             icdc sync"
        ),
        _ => Ok(()),
    }
}

/// Refuses changes of modes that have no effect, or give rights that travel with an owner only.
fn refuse_mode_changes(arguments: &CopyArguments) -> anyhow::Result<()> {
    let changes: Vec<_> = arguments.chmod.iter().flat_map(|changes| changes.0.iter().copied()).collect();
    ensure!(
        changes.is_empty() || arguments.preserve.mode,
        "--chmod changes modes, and --preserve leaves them out: add mode to its list"
    );
    ensure!(changes.len() <= MAX_MODE_CHANGES, "--chmod: at most {MAX_MODE_CHANGES} changes can be made");
    ensure!(
        arguments.preserve.owner || !gives_set_id(&changes),
        "--chmod: set-id bits of files go with the owner only: write D before them, or add owner to --preserve"
    );
    Ok(())
}

/// Refuses reference directories that cannot be asked for.
fn refuse_references(directories: &[OsString]) -> anyhow::Result<()> {
    ensure!(
        directories.len() <= MAX_LINK_DESTS,
        "--link-dest: {} directories are too many; name at most {MAX_LINK_DESTS}",
        directories.len()
    );
    let is_path = |directory: &OsString| !directory.is_empty() && directory.len() <= MAX_PATH;
    ensure!(directories.iter().all(is_path), "--link-dest: name a directory by a path of at most {MAX_PATH} bytes");
    Ok(())
}

/// Refuses places for backups that cannot be asked for.
fn refuse_backups(arguments: &CopyArguments) -> anyhow::Result<()> {
    if let Some(directory) = &arguments.backup_dir {
        let is_path = !directory.is_empty() && directory.len() <= MAX_PATH;
        ensure!(is_path, "--backup-dir: name a directory by a path of at most {MAX_PATH} bytes");
    }
    if let Some(suffix) = &arguments.suffix {
        let is_part = is_component(&[b"x", suffix.as_bytes()].concat()) && !suffix.is_empty();
        ensure!(is_part, "--suffix: give some bytes that a name can end in, without a slash, such as .old");
    }
    Ok(())
}

/// Refuses options on connections in a copy that makes none, or whose connections are not this
/// host's.
fn refuse_without_effect(arguments: &CopyArguments, hosts: Hosts) -> anyhow::Result<()> {
    let given = [
        ("--streams", arguments.streams.0.is_some(), "is a number of TCP connections"),
        ("--cc", arguments.cc.0.is_some(), "is TCP's congestion control"),
        ("--port", arguments.connection.port.is_some(), "names ports for data connections"),
    ];
    for (option, is_given, meaning) in given {
        let mismatch = concern(&option[2..]).mismatch(hosts, &arguments.connection.via);
        ensure!(
            !is_given || mismatch != Some(Mismatch::NoRemoteHost),
            "{option} {meaning}, and a copy within this host makes no connection: leave it out"
        );
    }
    ensure!(
        arguments.reporting.scitags.is_none()
            || Concern::OwnConnections.mismatch(hosts, &arguments.connection.via).is_none(),
        "--scitags marks data connections of this host, and it makes none in this copy: leave it out"
    );
    Ok(())
}

/// Refuses options on reaching hosts that these hosts, or the route to them, have no use for.
fn refuse_on_reaching(arguments: &ConnectionArguments, hosts: Hosts) -> anyhow::Result<()> {
    let given =
        [("send-self", arguments.send_self), ("via", arguments.via != Route::Auto), ("bind", arguments.bind.is_some())];
    for (key, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
        let Some(mismatch) = concern(key).mismatch(hosts, &arguments.via) else { continue };
        bail!(match (key, mismatch) {
            ("send-self", _) => {
                "--send-self is for hosts that ssh reaches, and none is named; write [USER@]HOST, or leave it out"
            }
            ("via", Mismatch::RouteForSsh) => {
                "--via back and --via ssh are for hosts that ssh reaches; write [USER@]HOST, or leave it out for a daemon"
            }
            ("via", Mismatch::RouteToOneHost) => {
                "--via: between two remote hosts data goes from one to the other, direct or back; for other routes, copy to this \
                 host first"
            }
            ("via", _) => "--via chooses the route to a remote host; leave it out for a copy within this host",
            (_, Mismatch::RouteConnects) => {
                "--bind is for connections that icdc makes on this host, and --via back and --via ssh have others make them: leave \
                 one of the two out"
            }
            _ => {
                "--bind chooses by what data connections of this host leave, and it makes none in this copy: leave it out"
            }
        });
    }
    Ok(())
}

impl CopyPlan {
    /// This plan without a summary on standard output.
    pub(crate) fn quietly(mut self) -> Self {
        self.output.summary = false;
        self
    }
}

/// Options of reaching these hosts, from a command's connection arguments; `streams` is the number
/// of connections, if given.
pub(crate) fn connection(
    arguments: ConnectionArguments,
    streams: Option<u8>,
    hosts: Hosts,
) -> anyhow::Result<CopyOptions> {
    refuse_on_reaching(&arguments, hosts)?;
    // Without a daemon nobody looks into these files, and there need not be a home.
    let file = |given, option, default: fn(Paths) -> PathBuf| match file_or_default(given, option, default) {
        Err(_) if !hosts.by_daemon => Ok(PathBuf::new()),
        result => result,
    };
    let mut options = CopyOptions::new(
        file(arguments.identity, "--identity", |paths| paths.identity)?,
        file(arguments.known_hosts, "--known-hosts", |paths| paths.known_hosts)?,
    );
    options.via = arguments.via.with_login(arguments.proxy_login.as_deref())?;
    options.ssh = arguments.ssh;
    options.remote_icdc = arguments.remote_icdc;
    options.send_self = arguments.send_self;
    options.ports = arguments.port.unwrap_or_default();
    options.family = match (arguments.ipv4, arguments.ipv6, arguments.family) {
        (true, ..) => Family::V4,
        (_, true, _) => Family::V6,
        (.., AddressFamily::Any) => Family::Any,
        (.., AddressFamily::Ipv4) => Family::V4,
        (.., AddressFamily::Ipv6) => Family::V6,
    };
    options.egresses = checked(arguments.bind.unwrap_or_default(), options.family, streams)?;
    Ok(options)
}

/// Checks that connections of this address family, `streams` of them if given, can leave this host
/// by every given egress (`--bind`), and returns the egresses.
fn checked(egresses: Egresses, family: Family, streams: Option<u8>) -> anyhow::Result<Egresses> {
    let least = egresses.connections();
    ensure!(
        streams.is_none_or(|streams| streams >= least),
        "--streams: --bind names {least}, and each takes a connection; give {least} or more, or leave --streams out"
    );
    for egress in egresses.iter() {
        let fits = family.and(egress.family()).is_some();
        ensure!(fits, "--bind {egress}: it is no {family} address; name another, or leave -4, -6 and --family out");
        egress.check().with_context(|| format!("--bind {egress}"))?;
    }
    Ok(egresses)
}

/// `alice@host` is a name like any other, but hardly one that somebody wants for a new file.
pub(crate) fn refuse_forgotten_colon(destination: &Location) -> anyhow::Result<()> {
    let Location::Local(path) = destination else { return Ok(()) };
    match forgotten_colon(path) {
        Some(hint) => Err(anyhow!("{}: there is nothing of that name here; {hint}", path.display())),
        None => Ok(()),
    }
}

/// The path to write in place of one that reads like a host and is not there.
fn forgotten_colon(path: &Path) -> Option<String> {
    let text = path.to_str()?;
    let (host, rest) = text.split_once('/').map_or((text, ""), |(host, _)| (host, &text[host.len()..]));
    let (user, name) = host.rsplit_once('@')?;
    let reads_like_a_host = !user.is_empty() && !name.is_empty() && Path::new(host).symlink_metadata().is_err();
    reads_like_a_host.then(|| format!("for a place on a host write {host}:{rest}, for a local name ./{text}"))
}

fn missing_source(text: &OsStr) -> String {
    let shown = text.to_string_lossy();
    let hint = match forgotten_colon(Path::new(text)) {
        Some(hint) => format!("; {hint}"),
        None if shown.contains(['*', '?', '[']) => {
            "; patterns are for the shell to expand: leave the quotes out, or name the directory and choose by --include and --exclude"
                .into()
        }
        None => String::new(),
    };
    format!("{shown}: nothing was copied, this source cannot be found{hint}")
}

/// Destination of the metrics of a run.
#[derive(Clone, Debug)]
pub(crate) struct MetricsOutput {
    pub(crate) file: Option<PathBuf>,
    pub(crate) gateway: Option<Gateway>,
    pub(crate) interval: Span,
}

fn metrics(file: Option<PathBuf>, gateway: Option<Gateway>, interval: Span) -> Option<MetricsOutput> {
    // Without a group of its own, a push would replace another host's.
    let host = rustix::system::uname();
    let gateway = gateway.map(|gateway| gateway.with_default_group("icdc_copy", &host.nodename().to_string_lossy()));
    (file.is_some() || gateway.is_some()).then_some(MetricsOutput { file, gateway, interval })
}

fn progress(mode: ProgressMode, terminal: bool) -> Progress {
    match (mode, terminal) {
        (ProgressMode::Never, _) | (ProgressMode::Auto, false) => Progress::Off,
        (ProgressMode::Always, false) => Progress::Lines,
        (ProgressMode::Auto | ProgressMode::Always, true) => Progress::Bar,
    }
}

/// Opened before anything is done: hours later would be late to learn that it cannot be written.
pub(crate) fn result_file(path: &Path, option: &str) -> anyhow::Result<ResultFile> {
    // What it holds stays until there is something to take its place.
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .with_context(|| format!("{option} {}: cannot be written", path.display()))?;
    Ok(ResultFile { path: path.to_owned(), file })
}

impl ResultFile {
    /// Replaces the file's contents by `text`; an error names it as `what`.
    pub(crate) fn write(mut self, what: &str, text: &str) -> Result<(), String> {
        // A pipe has no length.
        let _ = self.file.set_len(0);
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_all());
        written.map_err(|error| format!("{}: the {what} could not be written: {error}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use icdc_filter::Effect;
    use icdc_protocol::Ports;
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
        let words = "--rate 8kbit --cc cubic --streams 3 --ring 64MiB --buffered --verify --no-resume --update --if-running skip --mkpath --exclude *.o --include *.nc --exclude b/ \
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

    #[test]
    fn progress_is_quiet_without_a_terminal() {
        assert_eq!(progress(ProgressMode::Auto, false), Progress::Off);
        assert_eq!(progress(ProgressMode::Always, false), Progress::Lines);
        assert_eq!(progress(ProgressMode::Auto, true), Progress::Bar);
        assert_eq!(progress(ProgressMode::Never, true), Progress::Off);
    }
}
