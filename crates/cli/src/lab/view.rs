//! `icdc lab report`: what crossed the path, millisecond by millisecond.

use std::fs;

use anyhow::{Context, Result, bail};
use icdc_lab::recording::Recording;
use icdc_lab::{Lab, Way};
use icdc_report::Report;

use super::status;
use crate::arguments::lab::ReportArguments;

pub(super) fn write(arguments: &ReportArguments) -> Result<()> {
    let lab = Lab::find(&arguments.name.name)?;
    let page = lab.page()?;
    let settings = &lab.state.settings;
    let mut report = Report {
        title: format!("icdc lab {}", lab.state.name),
        outcome: status::describe(&lab.state).replace('\n', ";"),
        ..Report::default()
    };
    for way in Way::BOTH {
        let name = way.name();
        let recording = Recording::of(&page, way, arguments.last);
        if recording.bins.is_empty() {
            continue;
        }
        report.summary.push((format!("{name}, mean rate on the wire"), recording.mean_rate().to_string()));
        report.plots.extend(recording.plots(settings.direction(way)).into_iter().map(|mut plot| {
            plot.title = format!("{}, {name}", plot.title);
            plot
        }));
    }
    let file = &arguments.file;
    let text = match file.extension().and_then(|extension| extension.to_str()) {
        Some("html") => report.to_html(),
        Some("json") => report.to_json(),
        Some("csv") => report.to_csv().into_iter().map(|(_, text)| text).next().unwrap_or_default(),
        _ => bail!("{} must end in .html, .json or .csv", file.display()),
    };
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}
