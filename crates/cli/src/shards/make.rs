//! `icdc plan`: sources are surveyed and divided.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use anyhow::{Context, anyhow, bail, ensure};
use icdc_client::Location;
use icdc_protocol::limits::MAX_SOURCES;
use icdc_protocol::message::SendOptions;
use icdc_session::SessionError;
use icdc_shards::plan::{Plan, PlanRequest};
use icdc_shards::sources::survey_paths;
use icdc_stop::StopSignal;
use icdc_transfer::sender::selection::SelectedState;
use icdc_transfer::sender::survey::{Survey, Surveyed};
use serde_json::json;

use super::unusable::give_up;
use crate::arguments::{PlanArguments, PlannedContent};
use crate::clock::seconds_since_1970;
use crate::console::{Console, printable};
use crate::copy::summary::{counted, size};
use crate::plan::places::refuse_forgotten_colon;
use crate::{choosing, exit, signals};

/// A user's request to make a plan of shards.
pub(crate) struct Wanted<'a> {
    /// Sources, and the destination as the last one.
    pub(crate) places: &'a [OsString],
    /// Number of shards to make.
    pub(crate) shards: u32,
    /// Directory in which the plan is written.
    pub(crate) out: &'a Path,
    pub(crate) content: PlannedContent,
}

/// Runs `icdc plan` without a subcommand, and returns the exit code.
pub(super) fn run(arguments: PlanArguments, console: &Console) -> u8 {
    let PlanArguments { places, shards: Some(shards), out: Some(out), content, json, .. } = arguments else {
        return console.give_up(&anyhow!("--shards and --out are needed"), exit::USAGE);
    };
    let errors = match make(Wanted { places: &places, shards, out: &out, content }, console) {
        Ok((plan, errors)) => {
            show(&plan, &out, errors, json, console);
            errors
        }
        Err(code) => return code,
    };
    console.flush();
    if errors > 0 || console.has_lost_results() { exit::FAILED } else { 0 }
}

/// Surveys the sources and makes a plan; returns it, and the number of items that cannot be copied,
/// which were named on standard error. The error is an exit code; its reason was printed.
pub(crate) fn make(wanted: Wanted<'_>, console: &Console) -> Result<(Plan, usize), u8> {
    let out = wanted.out;
    let options = options(&wanted.content).map_err(|error| console.give_up(&error, exit::USAGE))?;
    let order = order(wanted).map_err(|error| console.give_up(&error, exit::USAGE))?;
    let stop = StopSignal::new();
    signals::watch_if_possible(&stop, console, "stopping; nothing is planned");
    icdc_tcp::raise_descriptor_limit();
    let survey = survey_paths(&order.sources, &options, &stop);
    let Survey { items, problems } = survey.map_err(|error| match error {
        SessionError::Interrupted => exit::INTERRUPTED,
        error => console.give_up(&anyhow!(error), exit::USAGE),
    })?;
    for problem in &problems {
        let path = String::from_utf8_lossy(&problem.path).into_owned();
        console.complain(&format!("{}: {}", printable(&path), printable(&problem.reason)));
    }
    if items.is_empty() {
        return Err(console.give_up(&anyhow!("nothing was planned: none of the sources can be copied"), exit::USAGE));
    }
    refuse_same_names(&order.sources, &items).map_err(|error| console.give_up(&error, exit::USAGE))?;
    if stop.is_requested() {
        return Err(exit::INTERRUPTED);
    }
    let errors = problems.iter().filter(|problem| problem.error).count();
    let order = PlanRequest { left_out: errors as u64, ..order };
    let plan = Plan::make(out, order, &items, seconds_since_1970()).map_err(|error| give_up(error, console))?;
    Ok((plan, errors))
}

/// Prints what was planned; `errors` is the number of items that cannot be copied.
fn show(plan: &Plan, out: &Path, errors: usize, json: bool, console: &Console) {
    let (within, bytes): (u64, u64) =
        plan.lists().iter().fold((0, 0), |(items, bytes), list| (items + list.items, bytes.saturating_add(list.bytes)));
    // All that `plan join` counts: those of the shards, and directories, which it finishes itself.
    let items = plan.text.items;
    let directories = items.saturating_sub(within);
    let most = plan.lists().iter().map(|list| list.bytes).max().unwrap_or(0);
    if json {
        let shards: Vec<_> =
            plan.lists().iter().map(|list| json!({"items": list.items, "bytes": list.bytes})).collect();
        let plan = json!({
            "type": "plan", "plan": out.display().to_string(), "shards": shards, "items": items, "bytes": bytes,
            "directories": directories, "errors": errors,
        });
        return console.json(&plan.to_string());
    }
    let shards = counted(plan.shards().into(), "shard");
    let items = match directories {
        0 => counted(items, "item"),
        1 => format!("{} (1 of them a directory)", counted(items, "item")),
        _ => format!("{} ({directories} of them directories)", counted(items, "item")),
    };
    console.result(&format!("{shards}: {items}, {}; the largest has {}", size(bytes), size(most)));
    console.result(&format!(
        "copy each: icdc copy --plan {0} --shard N, N from 0 to {1}; then: icdc plan join {0}",
        out.display(),
        plan.shards() - 1
    ));
    if errors > 0 {
        console.result(&format!("{} cannot be copied, named above", counted(errors as u64, "item")));
    }
}

/// Options by which the survey chooses what of the sources is planned.
fn options(content: &PlannedContent) -> anyhow::Result<SendOptions> {
    Ok(SendOptions {
        choice: choosing::choice(&content.choosing)?,
        preserve: content.preserve,
        ..SendOptions::default()
    })
}

/// The request for the plan, with sources and destination as absolute places.
fn order(wanted: Wanted<'_>) -> anyhow::Result<PlanRequest> {
    let Wanted { places, shards, content: PlannedContent { rate, preserve, .. }, .. } = wanted;
    let (last, first) = places.split_last().context("name what to copy, and where to")?;
    ensure!(first.len() <= MAX_SOURCES, "{} sources are too many; name at most {MAX_SOURCES}", first.len());
    let sources = first.iter().map(|source| local(source)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(PlanRequest { sources, destination: directory(last)?, preserve, rate: rate.0, shards, left_out: 0 })
}

/// A source on this host as an absolute path; an error if it does not exist.
fn local(text: &OsStr) -> anyhow::Result<String> {
    let Location::Local(path) = Location::parse(text)? else {
        bail!(
            "{}: sources of a plan are on this host; plan where they are, or copy them without a plan",
            text.to_string_lossy()
        );
    };
    path.symlink_metadata().with_context(|| format!("{}: this source cannot be found", path.display()))?;
    absolute(&path)
}

/// The path as absolute text; a slash at its end stays.
fn absolute(path: &Path) -> anyhow::Result<String> {
    let here = std::env::current_dir().context("the current directory cannot be found out")?;
    // Keeps a slash at the end, which has a meaning.
    let path = here.join(path);
    let text = path.to_str().with_context(|| format!("{}: a plan needs names in UTF-8", path.display()))?;
    Ok(text.to_owned())
}

/// The destination, which is a directory: as an absolute place with a slash at its end.
fn directory(text: &OsStr) -> anyhow::Result<String> {
    let location = Location::parse(text)?;
    refuse_forgotten_colon(&location)?;
    let mut directory = match &location {
        Location::Local(path) => absolute(path)?,
        _ => text.to_str().map(str::to_owned).context("a plan needs names in UTF-8")?,
    };
    // `host:` is the home directory there.
    let is_home = directory.ends_with(':') && matches!(&location, Location::Ssh { path, .. } if path == b".");
    if !directory.ends_with('/') && !is_home {
        directory.push('/');
    }
    Ok(directory)
}

/// An error if two items of different sources get one name: which of them stays would depend on
/// which shard ends last.
fn refuse_same_names(sources: &[String], items: &[Surveyed]) -> anyhow::Result<()> {
    if sources.len() < 2 {
        return Ok(());
    }
    // `a/`, `a/.` and `a/..` stand for contents.
    let name_of = |source: &'_ str| match source.rsplit('/').next() {
        None | Some("" | "." | "..") => None,
        Some(name) => Some(name.as_bytes().to_vec()),
    };
    let mut names = HashSet::new();
    for name in sources.iter().filter_map(|source| name_of(source)) {
        let shown = String::from_utf8_lossy(&name).into_owned();
        ensure!(names.insert(name), "two sources are named {}; plan them one after the other", printable(&shown));
    }
    names.clear();
    for Surveyed { selected, .. } in items.iter().filter(|item| item.selected.state != SelectedState::Directory) {
        let source = sources.get(selected.source as usize).map_or("", String::as_str);
        let parts = name_of(source).into_iter().chain([selected.path.clone()]);
        let name = parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(&b'/');
        let shown = String::from_utf8_lossy(&name).into_owned();
        ensure!(
            names.insert(name),
            "{}: two of the sources have something of this name; plan them one after the other",
            printable(&shown)
        );
    }
    Ok(())
}
