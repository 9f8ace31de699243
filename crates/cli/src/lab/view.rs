//! `icdc lab report`: what crossed the path, millisecond by millisecond.

use std::fs;

use anyhow::{Context, Result, bail};
use icdc_lab::recording::Recording;
use icdc_lab::{Heading, Lab, Verdict};
use icdc_report::{Judgement, Report};
use icdc_units::Time;

use super::status;
use crate::arguments::lab::ReportArguments;
use crate::version;

/// Runs `icdc lab report`: writes the recorded traffic of a lab's path to a file, in the form that
/// its name asks for.
pub(super) fn write(arguments: &ReportArguments) -> Result<()> {
    let lab = Lab::find(&arguments.name.name)?;
    let page = lab.page()?;
    let settings = &lab.record.settings;
    let mut report = Report {
        title: format!("icdc lab {}", lab.record.name),
        summary: vec![("Lab".to_owned(), status::describe(&lab.record).replace('\n', ";"))],
        ..Report::default()
    };
    let recordings = Heading::BOTH.map(|heading| {
        let recording = Recording::of(&page, heading, arguments.last);
        (heading, arguments.origin.map_or(recording.clone(), |origin| recording.since(Time::ORIGIN + origin)))
    });
    let recordings = recordings.into_iter().filter(|(_, recording)| !recording.bins.is_empty()).collect::<Vec<_>>();
    // One time axis for both directions.
    let first = recordings.iter().map(|(_, recording)| recording.begun).min();
    report.origin = arguments.origin.map(|origin| Time::ORIGIN + origin).or(first);
    for (heading, recording) in &recordings {
        let (name, direction) = (heading.name(), settings.direction(*heading));
        report.summary.push((format!("{name}, mean rate on the wire"), recording.mean_rate().to_string()));
        if let Some((largest, median)) = recording.bursts() {
            let [largest, median] = [largest, median].map(|burst| burst.ratio(direction.largest_frame()));
            let bursts = format!("largest {largest:.1} MTU, start-up included; median of all seconds {median:.1} MTU");
            report.summary.push((format!("{name}, bursts"), bursts));
        }
        let plots = recording.plots_from(report.origin.unwrap_or(recording.begun), direction);
        report.plots.extend(plots.into_iter().map(|plot| plot.of(name)));
    }
    let verdict = Verdict::of(&page, settings);
    report.outcome = format!("The emulator's run is {verdict}");
    report.judgement = match verdict {
        Verdict::Valid => Judgement::Good,
        Verdict::MeansOnly { .. } => Judgement::Limited,
        Verdict::Invalid { .. } => Judgement::Failed,
    };
    if let Some(origin) = report.origin {
        let seconds = (origin - Time::ORIGIN).as_secs_f64();
        report.summary.push(("Time axis begins at".to_owned(), format!("{seconds:.6}s")));
    }
    report.summary.extend(version::made_by());
    let file = &arguments.file;
    let text = match file.extension().and_then(|extension| extension.to_str()) {
        Some("html") => report.to_html(),
        Some("json") => report.to_json(),
        Some("csv") => report.to_csv().into_iter().map(|(_, text)| text).next().unwrap_or_default(),
        _ => bail!("{} must end in .html, .json or .csv", file.display()),
    };
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}
