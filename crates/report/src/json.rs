//! The model as JSON: packed in the page, written out for other tools.

use icdc_units::Time;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{Report, Stroke, Uniform, Unit, Values, packed};

/// The report as JSON for the page: short, with a description of what is packed.
pub(crate) fn embedded(report: &Report) -> String {
    #[derive(Serialize)]
    struct Embedded<'a> {
        format: &'static str,
        #[serde(flatten)]
        report: &'a Report,
    }
    // Numbers and strings only: there is nothing in the model that JSON cannot express. Floats that
    // are not finite become null.
    serde_json::to_string(&Embedded { format: packed::DESCRIPTION, report }).expect("the model is plain data")
}

/// The report as JSON for other tools, with every value written out.
pub(crate) fn expanded(report: &Report) -> String {
    let mut report_value = json!({
        "title": report.title,
        "command": report.command,
        "outcome": report.outcome,
        "judgement": report.judgement,
        "summary": report.summary,
        "stages": report.stages,
        "tables": report.tables,
        "heat_maps": report.heat_maps,
        "failures": report.failures,
        "origin_monotonic_seconds": report.origin.map(|origin| (origin - Time::ORIGIN).as_secs_f64()),
    });
    let plots = report.plots.iter().map(|plot| {
        let series = plot.series.iter().map(|series| {
            let unit = if series.stroke == Stroke::Marks { Unit::Number } else { plot.unit };
            let mut value = json!({ "name": series.name, "stroke": series.stroke, "unit": unit });
            match &series.values {
                Values::Points(points) => value["points"] = json!(points),
                Values::Uniform(uniform) => {
                    value["start_seconds"] = json!(uniform.start().as_secs_f64());
                    value["step_seconds"] = json!(uniform.step().as_secs_f64());
                    value["values"] = (0..uniform.values().len()).map(|index| number(uniform, index)).collect();
                }
            }
            value
        });
        let series: Vec<Value> = series.collect();
        json!({
            "title": plot.title,
            "unit": plot.unit,
            "baseline": plot.baseline,
            "axis": plot.axis,
            "series": series,
        })
    });
    report_value["plots"] = plots.collect();
    report_value.to_string()
}

/// The value of this index in the plot's unit: an integer if it is one that any reader of JSON
/// keeps exactly.
fn number(uniform: &Uniform, index: usize) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match uniform.value(index) {
        value if value.fract() == 0.0 && value.abs() <= EXACT => Value::from(value as i64),
        value => Value::from(value),
    }
}

#[cfg(test)]
mod tests {
    use icdc_units::Span;

    use super::*;
    use crate::{Plot, Series};

    #[test]
    fn long_series_are_written_out() {
        let bytes = Uniform::rates(Span::from_millis(5), Span::from_millis(1), vec![125_000, 0, 1]);
        let rtt = Uniform::new(Span::ZERO, Span::from_millis(10), vec![300_123_456]).scaled(1e-9);
        let points = vec![(0.5, f64::NAN), (1.0, 2.0)];
        let report = Report {
            plots: vec![
                Plot::new("a", Unit::BitsPerSecond, vec![Series::new("1 ms", Stroke::Faint, bytes)]),
                Plot::new("b", Unit::Seconds, vec![Series::new("rtt", Stroke::Strong, rtt)]),
                Plot::new("c", Unit::Bytes, vec![Series::new("lost", Stroke::Marks, points)]),
            ],
            ..Report::default()
        };
        let value: Value = serde_json::from_str(&report.to_json()).unwrap();
        let series = |plot: usize| &value["plots"][plot]["series"][0];
        assert_eq!(series(0)["values"], json!([1_000_000_000, 0, 8000]));
        assert_eq!((&series(0)["start_seconds"], &series(0)["step_seconds"]), (&json!(0.005), &json!(0.001)));
        assert_eq!(series(0)["unit"], "bits_per_second");
        assert_eq!(series(1)["values"], json!([0.300_123_456]));
        assert_eq!(series(2)["points"], json!([[0.5, null], [1.0, 2.0]]));
        assert_eq!(series(2)["unit"], "number");
        assert_eq!(value["plots"][0]["axis"], "time");
    }
}
