//! Hooks of a copy or a daemon, which run when a copy or a session has ended, and fireflies while
//! it lasts.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use icdc_client::Location;
use icdc_daemon::{EndSink, SessionEnd};
use icdc_hooks::{Command, HookQueue, Hooks, Lines, Report, Secret, Webhook};
use icdc_metrics::RunResult;
use icdc_scitags::{Marker, MarkerConfig, Registry, Tag};
use icdc_stop::StopSignal;
use icdc_transfer::Summary;
use serde_json::{Value, json};

use crate::arguments::ReportingArguments;
use crate::console::Console;

/// Largest registry that is read, in bytes; that of scitags.org has some kB.
const LONGEST_REGISTRY: u64 = 4 << 20;
/// Most sources of a copy that the report for its hooks names.
const NAMED: usize = 16;
/// Name of this program in fireflies.
const APPLICATION: &str = concat!("icdc v", env!("CARGO_PKG_VERSION"));

/// The hooks (`--on-finish`, `--webhook`) that are run when a copy has ended.
pub(crate) struct CopyHooks {
    hooks: Hooks,
    console: Console,
}

/// A copy that has ended, for its hooks.
pub(crate) struct EndedCopy<'a> {
    pub(crate) sources: &'a [Location],
    pub(crate) destination: &'a Location,
    pub(crate) summary: &'a Summary,
    pub(crate) result: RunResult,
    /// Reason why the copy could not be completed, or was skipped; `None` for a complete one.
    pub(crate) reason: Option<&'a str>,
    pub(crate) exit_code: u8,
}

impl CopyHooks {
    /// The hooks that the arguments name; `None` if they name none. The output of the command goes
    /// to `console`.
    pub(crate) fn new(arguments: &ReportingArguments, console: &Console) -> anyhow::Result<Option<Self>> {
        let printed = console.clone();
        let lines: Lines = Box::new(move |line| printed.print(&format!("{line}\n")));
        Ok(hooks(arguments, lines)?.map(|hooks| Self { hooks, console: console.clone() }))
    }

    /// Runs the hooks and waits for them. A failure does not change the result of the copy.
    pub(crate) fn tell(&self, ended: &EndedCopy<'_>, stop: &StopSignal) {
        // The hooks of an interrupted copy run as well; a later interrupt ends them.
        let stop = if stop.is_requested() { StopSignal::new() } else { stop.clone() };
        for failed in self.hooks.run(&ended.report(), &stop) {
            self.console.complain(&failed);
        }
    }
}

impl EndedCopy<'_> {
    /// The report about the copy that its hooks get: JSON and variables.
    fn report(&self) -> Report {
        let Self { summary, reason, exit_code: code, .. } = self;
        let (result, former) = (self.result.word(), self.former_result());
        let sources: Vec<String> = self.sources.iter().take(NAMED).map(ToString::to_string).collect();
        let destination = self.destination.to_string();
        let mut json = json!({
            "event": "copy_end", "time": format!("{:.3}", jiff::Timestamp::now()), "result": result,
            "former_result": former, "exit_code": code,
            "reason": reason, "sources": sources, "more_sources": self.sources.len() - sources.len(),
            "destination": destination,
        });
        if let (Value::Object(json), Ok(Value::Object(summary))) = (&mut json, serde_json::to_value(summary)) {
            json.extend(summary);
        }
        Report::new(json.to_string())
            .with("ICDC_RESULT", result)
            .with("ICDC_FORMER_RESULT", former)
            .with("ICDC_EXIT_CODE", &code.to_string())
            .with("ICDC_BYTES", &summary.bytes.to_string())
            .with("ICDC_FILES", &summary.files.to_string())
            .with("ICDC_SOURCE", &sources.join(" "))
            .with("ICDC_DESTINATION", &destination)
    }

    /// Former name of the result, which 0.1.0 deprecates; of results that were not renamed, the
    /// present one.
    fn former_result(&self) -> &'static str {
        match self.result {
            RunResult::Complete => "done",
            RunResult::Unreachable => "not_connected",
            result => result.word(),
        }
    }
}

/// Hooks for ended sessions of a daemon, which run beside its sessions; `None` if the arguments
/// name none.
pub(crate) fn of_sessions(arguments: &ReportingArguments) -> anyhow::Result<Option<HookQueue>> {
    let lines: Lines = Box::new(|line| tracing::info!(line, "--on-finish"));
    let Some(hooks) = hooks(arguments, lines)? else { return Ok(None) };
    Ok(Some(HookQueue::start(hooks).context("threads for --on-finish and --webhook")?))
}

/// Sink of a daemon's ended sessions, which queues each for these hooks.
pub(crate) fn end_sink(hooks: &HookQueue) -> EndSink {
    let sender = hooks.sender();
    EndSink(Arc::new(move |end| sender.add(report(&end))))
}

/// The report about a daemon's session that its hooks get.
fn report(end: &SessionEnd) -> Report {
    Report::new(end.json.clone())
        .with("ICDC_RESULT", &end.result)
        .with("ICDC_FORMER_RESULT", &end.former_result)
        .with("ICDC_BYTES", &end.bytes.to_string())
        .with("ICDC_FILES", &end.files.to_string())
        .with("ICDC_SESSION", &end.session)
        .with("ICDC_WHO", &end.who)
        .with("ICDC_KEY", &end.key)
        .with("ICDC_FROM", &end.from)
        .with("ICDC_JOB", &end.job)
        .with("ICDC_PATH", &end.path)
}

/// The hooks that the arguments name; `None` if there are none. `lines` takes the output of the
/// command.
fn hooks(arguments: &ReportingArguments, lines: Lines) -> anyhow::Result<Option<Hooks>> {
    let command = arguments.on_finish.clone().map(|text| Command { text, limit: arguments.on_finish_timeout });
    let webhook = arguments.webhook.clone().map(|target| {
        let secret = arguments.webhook_secret.as_deref().map(Secret::read).transpose();
        let secret = secret.context("--webhook-secret")?;
        Webhook::new(target, secret, arguments.webhook_timeout).context("--webhook")
    });
    let webhook = webhook.transpose()?;
    let is_told = command.is_some() || webhook.is_some();
    Ok(is_told.then_some(Hooks { command, webhook, lines }))
}

/// Starts the marker, which announces data connections to the networks by fireflies (SciTags);
/// `None` without `--scitags`.
pub(crate) fn marker(arguments: &ReportingArguments) -> anyhow::Result<Option<Arc<Marker>>> {
    let Some(text) = &arguments.scitags else { return Ok(None) };
    let registry = arguments.scitags_registry.as_deref().map(registry).transpose()?;
    let config = MarkerConfig {
        tag: Tag::parse(text, registry.as_ref()).context("--scitags")?,
        application: APPLICATION.to_owned(),
        collector: arguments.scitags_collector,
        interval: arguments.scitags_interval,
    };
    Ok(Some(Arc::new(Marker::start(config).context("a thread for --scitags")?)))
}

/// Reads the file with the registry of experiments and activities.
fn registry(path: &Path) -> anyhow::Result<Registry> {
    let about = || format!("--scitags-registry {}", path.display());
    let mut json = Vec::new();
    let file = File::open(path).with_context(about)?;
    file.take(LONGEST_REGISTRY + 1).read_to_end(&mut json).with_context(about)?;
    ensure!(json.len() as u64 <= LONGEST_REGISTRY, "{}: it is too long", about());
    Registry::parse(&json).with_context(about)
}
