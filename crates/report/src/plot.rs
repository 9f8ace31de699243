//! One plot as inline SVG.
//!
//! Fixed drawing area in user units, scaled by the page's width; colours come from the page's style
//! sheet by class, so that the same drawing serves light and dark.

use std::fmt::Write;

use crate::axis::{self, Axis};
use crate::html::escaped;
use crate::reduce::envelope;
use crate::{Baseline, Plot, Series, Stroke};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 210.0;
/// Room for labels: left, right, top, bottom.
const LEFT: f64 = 56.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 24.0;
/// A finer outline than this cannot be seen.
const COLUMNS: usize = 900;

/// Draws `plot` over `0..end` seconds, with heading and legend.
pub(crate) fn draw(plot: &Plot, end: f64) -> String {
    let series: Vec<Vec<(f64, f64)>> = plot.series.iter().map(drawable).collect();
    let values = || series.iter().flatten().map(|(_, value)| *value);
    let greatest = values().fold(0.0, f64::max);
    let least = values().fold(f64::INFINITY, f64::min);
    let low = match plot.baseline {
        Baseline::Data if least.is_finite() && least > greatest / 2.0 => least,
        _ => least.min(0.0),
    };
    let (vertical, unit) = axis::values(low, greatest, plot.unit, 5);
    let horizontal = axis::time(end, 8);
    let canvas = Canvas { horizontal, vertical };

    let mut svg = String::new();
    let title = escaped(&plot.title);
    let legend: String = plot
        .series
        .iter()
        .map(|series| format!("<span class=\"{}\">{}</span>", class(series.stroke), escaped(&series.name)))
        .collect();
    let _ = write!(
        svg,
        "<figure><figcaption><b>{title}</b> <i>{unit}</i><span class=legend>{legend}</span></figcaption>\
         <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=img aria-label=\"{title}\">"
    );
    canvas.grid(&mut svg);
    for (series, points) in plot.series.iter().zip(&series) {
        canvas.path(&mut svg, series.stroke, points);
    }
    if values().next().is_none() {
        let (x, y) = (LEFT.midpoint(WIDTH - RIGHT), TOP.midpoint(HEIGHT - BOTTOM));
        let _ = write!(svg, "<text class=none x={x} y={y}>no samples</text>");
    }
    svg.push_str("</svg></figure>\n");
    svg
}

fn drawable(series: &Series) -> Vec<(f64, f64)> {
    let finite: Vec<_> =
        series.points.iter().copied().filter(|(at, value)| at.is_finite() && value.is_finite()).collect();
    envelope(&finite, COLUMNS)
}

pub(crate) fn class(stroke: Stroke) -> &'static str {
    match stroke {
        Stroke::Strong => "strong",
        Stroke::Faint => "faint",
        Stroke::Limit => "limit",
        Stroke::Area => "area",
    }
}

struct Canvas {
    horizontal: Axis,
    vertical: Axis,
}

impl Canvas {
    fn x(&self, at: f64) -> f64 {
        LEFT + self.horizontal.share(at).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.vertical.share(value).clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
    }

    fn grid(&self, svg: &mut String) {
        let right = WIDTH - RIGHT;
        for (value, label) in &self.vertical.ticks {
            let y = self.y(*value);
            let _ = write!(
                svg,
                "<path class=grid d=\"M{LEFT} {y:.1}H{right}\"/><text class=y x={:.1} y={:.1}>{label}</text>",
                LEFT - 7.0,
                y + 4.0
            );
        }
        for (at, label) in &self.horizontal.ticks {
            let x = self.x(*at);
            // A label at the right border would be cut off.
            let anchor = if x > right - 20.0 { "end" } else { "middle" };
            let x = if anchor == "end" { right } else { x };
            let _ = write!(
                svg,
                "<text class=x text-anchor={anchor} x={x:.1} y={:.1}>{label}</text>",
                HEIGHT - BOTTOM + 17.0
            );
        }
    }

    fn path(&self, svg: &mut String, stroke: Stroke, points: &[(f64, f64)]) {
        let Some(&(first, value)) = points.first() else {
            return;
        };
        if points.len() == 1 && stroke != Stroke::Area {
            let _ =
                write!(svg, "<circle class={} cx={:.1} cy={:.1} r=2.5 />", class(stroke), self.x(first), self.y(value));
            return;
        }
        let mut data = String::new();
        if stroke == Stroke::Area {
            let bottom = self.y(self.vertical.low);
            let mut before = self.x(0.0);
            let _ = write!(data, "M{before:.1} {bottom:.1}");
            for &(at, value) in points {
                let _ = write!(data, "V{:.1}H{:.1}", self.y(value), self.x(at));
                before = self.x(at);
            }
            let _ = write!(data, "L{before:.1} {bottom:.1}Z");
        } else {
            for (index, &(at, value)) in points.iter().enumerate() {
                let step = if index == 0 { 'M' } else { 'L' };
                let _ = write!(data, "{step}{:.1} {:.1}", self.x(at), self.y(value));
            }
        }
        let _ = write!(svg, "<path class={} d=\"{data}\"/>", class(stroke));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unit;

    fn plot(baseline: Baseline, points: Vec<(f64, f64)>) -> Plot {
        let series = vec![Series { name: "a & b".into(), stroke: Stroke::Strong, points }];
        Plot { title: "RTT".into(), unit: Unit::Seconds, baseline, series }
    }

    #[test]
    fn the_baseline_is_zero_unless_small_changes_matter() {
        let points = vec![(1.0, 0.300), (2.0, 0.302)];
        assert!(draw(&plot(Baseline::Zero, points.clone()), 2.0).contains(">0</text>"));
        let data = draw(&plot(Baseline::Data, points), 2.0);
        assert!(data.contains(">300.0</text>") && !data.contains(">0</text>"), "{data}");
        let wide = vec![(1.0, 0.010), (2.0, 0.302)];
        assert!(draw(&plot(Baseline::Data, wide), 2.0).contains(">0</text>"));
    }

    #[test]
    fn nothing_is_drawn_outside_and_nothing_that_is_no_number() {
        let points = vec![(0.0, 1.0), (1.0, f64::NAN), (f64::INFINITY, 1.0), (9.0, 2.0)];
        let svg = draw(&plot(Baseline::Zero, points), 2.0);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(svg.contains("L946.0 "), "{svg}");
    }

    #[test]
    fn few_points_are_no_reason_to_fail() {
        assert!(draw(&plot(Baseline::Data, vec![]), 0.0).contains("no samples"));
        assert!(draw(&plot(Baseline::Data, vec![(0.5, 1.0)]), 1.0).contains("<circle"));
    }
}
