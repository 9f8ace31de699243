//! `icdc measure`: runs a plan and shows what was measured.
//!
//! | file | what |
//! |---|---|
//! | `plan` | what the command line means |
//! | `pipeline` | a copy without its disks |
//! | `record` | the samples that are kept for the end |
//! | `figures` | what follows from what was measured |
//! | `show` | lines for people, JSON, CSV |
//! | `page` | the report |

mod figures;
mod page;
mod pipeline;
pub(crate) mod plan;
mod record;
pub(crate) mod show;

use std::sync::{Arc, Mutex, PoisonError};

use icdc_measure::{MeasureEvent, MeasureSink};
use icdc_stop::StopSignal;

use crate::arguments::MeasureArguments;
use crate::clock::monotonic;
use crate::console::Console;
use crate::measure::figures::Figures;
use crate::measure::pipeline::Shown;
use crate::measure::plan::{MeasurePlan, Subject};
use crate::measure::record::Record;
use crate::{exit, logs, signals};

/// Text printed at the first interrupt.
const STOPPING: &str = "stopping; what was measured until now is told (again: stop at once)";

/// Runs `icdc measure` and returns the exit code.
pub(crate) fn run(arguments: MeasureArguments, console: &Console) -> u8 {
    logs::start(console, logs::Level::OFF);
    match MeasurePlan::new(arguments) {
        Ok(plan) => carry_out(plan, console),
        Err(error) => console.give_up(&error, exit::USAGE),
    }
}

/// Measures as planned, shows the result, and returns the exit code.
fn carry_out(plan: MeasurePlan, console: &Console) -> u8 {
    let MeasurePlan { target, subject, mut connection, output } = plan;
    let stop = StopSignal::new();
    signals::watch_if_possible(&stop, console, STOPPING);
    connection.confirm_host = Some(console.confirm_host(&stop));
    let options = match subject {
        Subject::Tcp(options) => options,
        Subject::Pipeline(order) => {
            let shown = Shown { console, as_json: output.json };
            return pipeline::run(&target, &order, &connection, shown, &stop);
        }
    };
    let record = Arc::new(Mutex::new(Record::default()));
    let events: MeasureSink = {
        let (record, console, json) = (Arc::clone(&record), console.clone(), output.json);
        Arc::new(move |event| match event {
            MeasureEvent::Notice(text) => console.complain(&text),
            MeasureEvent::Samples(samples) => {
                if json {
                    samples.iter().for_each(|sample| console.json(&show::sample(sample)));
                    console.flush();
                }
                record.lock().unwrap_or_else(PoisonError::into_inner).add(monotonic(), samples);
            }
        })
    };
    let result = icdc_client::measure(&target, &options, &connection, &events, &stop);
    let record = std::mem::take(&mut *record.lock().unwrap_or_else(PoisonError::into_inner));
    let (figures, mut code) = match result {
        Ok(measurement) => {
            let figures = Figures::new(measurement, &options, record);
            let failed = if figures.errors.is_empty() { 0 } else { exit::FAILED };
            let code = if figures.interrupted { exit::INTERRUPTED } else { failed };
            (figures, code)
        }
        Err(error) => (Figures::failed(error.to_string(), &options, record), exit::after(error.kind())),
    };
    figures.notices.iter().chain(&figures.errors).for_each(|text| console.complain(text));
    if output.json {
        console.json(&show::summary(&figures, output.json_series));
    } else if figures.bytes > 0 {
        show::lines(&figures).iter().for_each(|line| console.result(line));
    }
    console.flush();
    let series = output.series.map(|file| file.write("series", &show::series(&figures.arrivals)));
    let report = output.report.map(|file| file.write("report", &page::report(&figures).to_html()));
    for outcome in series.into_iter().chain(report) {
        if let Err(error) = outcome {
            console.complain(&error);
            code = code.max(exit::FAILED);
        }
    }
    if console.has_lost_results() {
        code = code.max(exit::FAILED);
    }
    code
}
