//! Output of a copy: progress, result files and metrics.

use std::fs::File;
use std::io::{IsTerminal, Write, stderr};
use std::path::{Path, PathBuf};

use anyhow::Context;
use icdc_metrics::Gateway;
use icdc_units::Span;

use crate::arguments::{CopyArguments, ProgressMode};

/// Output of a copy: progress, messages, summary, report and metrics.
pub(crate) struct Output {
    pub(crate) json: bool,
    pub(crate) dry_run: bool,
    pub(crate) verbose: bool,
    /// Whether standard error carries errors only.
    pub(crate) quiet: bool,
    pub(crate) progress: Progress,
    pub(crate) report: Option<ResultFile>,
    pub(crate) metrics: Option<MetricsOutput>,
    pub(crate) summary: SummaryPlace,
}

/// Where the summary of a run is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SummaryPlace {
    /// There is none.
    None,
    /// Standard output.
    Output,
    /// Standard error: standard output has the data.
    Errors,
}

/// Form in which progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Progress is not shown.
    Off,
    /// A bar on a terminal.
    Bar,
    /// A line each second.
    Lines,
}

/// A file for results, opened for writing before the run begins.
pub(crate) struct ResultFile {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
}

/// Where the metrics of a copy are written and pushed, and how often.
#[derive(Clone, Debug)]
pub(crate) struct MetricsOutput {
    pub(crate) file: Option<PathBuf>,
    pub(crate) gateway: Option<Gateway>,
    pub(crate) interval: Span,
}

/// Where metrics of the copy go; `None` if neither a file nor a gateway is given.
pub(super) fn metrics(file: Option<PathBuf>, gateway: Option<Gateway>, interval: Span) -> Option<MetricsOutput> {
    // Without a group of its own, a push would replace another host's.
    let host = rustix::system::uname();
    let gateway = gateway.map(|gateway| gateway.with_default_group("icdc_copy", &host.nodename().to_string_lossy()));
    (file.is_some() || gateway.is_some()).then_some(MetricsOutput { file, gateway, interval })
}

/// Form of the progress that the arguments ask for, by where standard error leads.
pub(crate) fn progress(arguments: &CopyArguments) -> Progress {
    if arguments.quiet { Progress::Off } else { form(arguments.progress, stderr().is_terminal()) }
}

/// Form of the progress by `--progress`, and whether standard error is a terminal.
fn form(mode: ProgressMode, terminal: bool) -> Progress {
    match (mode, terminal) {
        (ProgressMode::Never, _) | (ProgressMode::Auto, false) => Progress::Off,
        (ProgressMode::Always, false) => Progress::Lines,
        (ProgressMode::Auto | ProgressMode::Always, true) => Progress::Bar,
    }
}

/// Opens a file for results before anything is done, so that an error shows at once. Its contents
/// stay until it is written; `option` names it in errors.
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
    use super::*;

    #[test]
    fn progress_is_quiet_without_a_terminal() {
        assert_eq!(form(ProgressMode::Auto, false), Progress::Off);
        assert_eq!(form(ProgressMode::Always, false), Progress::Lines);
        assert_eq!(form(ProgressMode::Auto, true), Progress::Bar);
        assert_eq!(form(ProgressMode::Never, true), Progress::Off);
    }
}
