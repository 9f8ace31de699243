//! One plot as inline SVG.
//!
//! Fixed drawing area in user units, scaled by the page's width; colours come from the page's style
//! sheet by class, so that the same drawing serves light and dark. `outline` makes paths of series.
//! The script [`ZOOM`] draws the same again for another range or width: it finds the ranges in the
//! `data-` attributes of the drawing and the values in the model that the page holds.

mod outline;

use std::fmt::Write;

use crate::axis::{self, Scale};
use crate::html::escaped;
use crate::{Axis, Baseline, Plot, Series, Stroke, Values};

/// Draws anew what the reader wants to see closer.
pub(crate) const ZOOM: &str = include_str!("zoom.js");

const WIDTH: f64 = 960.0;
/// Room for labels.
const LEFT: f64 = 56.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 10.0;
/// As many as have a colour of their own in the style sheet.
const COLOURS: usize = 8;

/// Draws `plot`, the report's plot `index`, with heading and legend; a time axis goes to `end` seconds.
pub(crate) fn draw(plot: &Plot, index: usize, end: f64) -> String {
    let (vertical, unit) = vertical(plot);
    let canvas = Canvas::new(plot, vertical, end);
    let classes = classes(plot);
    let title = escaped(&plot.title);
    let legend: String = plot
        .series
        .iter()
        .zip(&classes)
        .map(|(series, class)| format!("<span class=\"{class}\">{}</span>", escaped(&series.name)))
        .collect();

    let mut svg = String::new();
    let Canvas { horizontal, vertical, height, bottom, .. } = &canvas;
    let time = if plot.axis == Axis::Time { " data-time" } else { "" };
    let _ = write!(
        svg,
        "<figure><figcaption><b>{title}</b> <i>{unit}</i><span class=legend>{legend}</span></figcaption>\
         <svg viewBox=\"0 0 {WIDTH} {height}\" role=img aria-label=\"{title}\" data-plot={index}{time} \
         data-frame=\"{LEFT} {RIGHT} {TOP} {bottom}\" data-x=\"{} {}\" data-y=\"{} {}\">",
        horizontal.low, horizontal.high, vertical.low, vertical.high
    );
    canvas.grid(&mut svg);
    for ((number, series), class) in plot.series.iter().enumerate().zip(&classes) {
        let (line, dots) = outline::paths(&canvas, series);
        let _ = write!(
            svg,
            "<path class=\"{class}\" data-line={number} d=\"{line}\"/>\
             <path class=\"dots {class}\" data-dots={number} d=\"{dots}\"/>"
        );
    }
    if extremes(plot).is_none() && !plot.series.iter().any(|series| series.stroke == Stroke::Marks) {
        let (x, y) = (LEFT.midpoint(WIDTH - RIGHT), TOP.midpoint(height - bottom));
        let _ = write!(svg, "<text class=none x={x} y={y}>no samples</text>");
    }
    svg.push_str("</svg></figure>\n");
    svg
}

/// The value axis and its unit with prefix.
fn vertical(plot: &Plot) -> (Scale, String) {
    let (least, greatest) = extremes(plot).unwrap_or((0.0, 0.0));
    let greatest = greatest.max(0.0);
    let low = match plot.baseline {
        Baseline::Data if least > greatest / 2.0 => least,
        _ => least.min(0.0),
    };
    axis::values(low, greatest, plot.unit, 5)
}

/// The least and the greatest value of what stretches the axis.
fn extremes(plot: &Plot) -> Option<(f64, f64)> {
    let of_series = |series: &Series| match &series.values {
        Values::Points(points) => {
            let finite = points.iter().filter(|(at, value)| at.is_finite() && value.is_finite());
            finite.map(|(_, value)| (*value, *value)).reduce(wider)
        }
        Values::Uniform(uniform) => {
            let ends = (uniform.values().iter().min()?, uniform.values().iter().max()?);
            let (a, b) = (*ends.0 as f64 * uniform.scale(), *ends.1 as f64 * uniform.scale());
            Some((a.min(b), a.max(b))).filter(|(low, high)| low.is_finite() && high.is_finite())
        }
    };
    plot.series.iter().filter(|series| series.stroke != Stroke::Marks).filter_map(of_series).reduce(wider)
}

fn wider(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0.min(b.0), a.1.max(b.1))
}

/// What the style sheet calls each series.
fn classes(plot: &Plot) -> Vec<String> {
    let mut lines = 0;
    let mut class = |series: &Series| match series.stroke {
        Stroke::Strong => "strong".into(),
        Stroke::Faint => "faint".into(),
        Stroke::Limit => "limit".into(),
        Stroke::Area => "area".into(),
        Stroke::Marks => "marks".into(),
        Stroke::Line | Stroke::Points => {
            lines += 1;
            let kind = if series.stroke == Stroke::Line { "line" } else { "points" };
            format!("{kind} c{}", (lines - 1) % COLOURS)
        }
    };
    plot.series.iter().map(&mut class).collect()
}

/// Where things stand in the drawing.
struct Canvas {
    horizontal: Scale,
    vertical: Scale,
    /// Name of a horizontal axis that is not time.
    name: String,
    over_time: bool,
    height: f64,
    /// Room below the plot.
    bottom: f64,
}

impl Canvas {
    fn new(plot: &Plot, vertical: Scale, end: f64) -> Self {
        match &plot.axis {
            Axis::Time => {
                let horizontal = axis::time(end, 8);
                Self { horizontal, vertical, name: String::new(), over_time: true, height: 210.0, bottom: 24.0 }
            }
            Axis::Value { name, unit } => {
                let places = || {
                    plot.series.iter().flat_map(|series| match &series.values {
                        Values::Points(points) => points.as_slice(),
                        Values::Uniform(_) => &[],
                    })
                };
                let (low, high) = places()
                    .map(|(at, _)| *at)
                    .filter(|at| at.is_finite())
                    .map(|at| (at, at))
                    .reduce(wider)
                    .unwrap_or((0.0, 0.0));
                // An axis that could begin at zero does, unless the values are far from it.
                let low = if low > high / 2.0 { low } else { low.min(0.0) };
                let (horizontal, unit) = axis::values(low, high, *unit, 10);
                let name = if unit.is_empty() { name.clone() } else { format!("{name} ({unit})") };
                Self { horizontal, vertical, name, over_time: false, height: 300.0, bottom: 44.0 }
            }
        }
    }

    fn x(&self, at: f64) -> f64 {
        LEFT + self.horizontal.share(at).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        self.foot() - self.vertical.share(value).clamp(0.0, 1.0) * (self.foot() - TOP)
    }

    /// Lower end of the plot.
    fn foot(&self) -> f64 {
        self.height - self.bottom
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
        svg.push_str("<g class=ticks>");
        for (at, label) in &self.horizontal.ticks {
            let x = self.x(*at);
            // A label at the right border would be cut off.
            let anchor = if x > right - 20.0 { "end" } else { "middle" };
            let x = if anchor == "end" { right } else { x };
            let y = self.foot() + 17.0;
            let _ = write!(svg, "<text class=x data-at={at} text-anchor={anchor} x={x:.1} y={y:.1}>{label}</text>");
        }
        svg.push_str("</g>");
        if !self.name.is_empty() {
            let (x, y) = (LEFT.midpoint(right), self.height - 6.0);
            let _ = write!(svg, "<text class=axis x={x} y={y}>{}</text>", escaped(&self.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unit;

    fn plot(baseline: Baseline, points: Vec<(f64, f64)>) -> Plot {
        Plot::new("RTT", Unit::Seconds, vec![Series::new("a & b", Stroke::Strong, points)]).from_baseline(baseline)
    }

    #[test]
    fn the_baseline_is_zero_unless_small_changes_matter() {
        let points = vec![(1.0, 0.300), (2.0, 0.302)];
        assert!(draw(&plot(Baseline::Zero, points.clone()), 0, 2.0).contains(">0</text>"));
        let data = draw(&plot(Baseline::Data, points), 0, 2.0);
        assert!(data.contains(">300.0</text>") && !data.contains(">0</text>"), "{data}");
        let wide = vec![(1.0, 0.010), (2.0, 0.302)];
        assert!(draw(&plot(Baseline::Data, wide), 0, 2.0).contains(">0</text>"));
    }

    #[test]
    fn nothing_is_drawn_outside_and_nothing_that_is_no_number() {
        let points = vec![(0.0, 1.0), (1.0, f64::NAN), (f64::INFINITY, 1.0), (9.0, 2.0)];
        let svg = draw(&plot(Baseline::Zero, points), 0, 2.0);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(svg.contains("L946.0 "), "{svg}");
    }

    #[test]
    fn few_points_are_no_reason_to_fail() {
        assert!(draw(&plot(Baseline::Data, vec![]), 0, 0.0).contains("no samples"));
        assert!(draw(&plot(Baseline::Data, vec![(0.5, 1.0)]), 0, 1.0).contains("h0\""));
    }

    #[test]
    fn equals_have_colours_and_other_axes_their_names() {
        let line = |name: &str| Series::new(name, Stroke::Line, vec![(1.0, 1e9), (4.0, 2e9)]);
        let series = (0..9).map(|number| line(&number.to_string())).collect();
        let svg = draw(&Plot::new("Rate", Unit::BitsPerSecond, series).over("Window", Unit::Bytes), 0, 0.0);
        assert!(svg.contains("\"line c0\"") && svg.contains("\"line c7\"") && !svg.contains("c8"), "{svg}");
        assert!(svg.contains(">Window (B)</text>") && !svg.contains(" data-time"), "{svg}");
        assert_eq!(svg.matches("h0").count(), 18);
    }

    #[test]
    fn points_have_markers_and_no_line() {
        let points = Series::new("cases", Stroke::Points, vec![(1.0, 0.2), (4.0, 0.1), (5.0, 0.3)]);
        let svg = draw(&Plot::new("Share", Unit::Share, vec![points]).over("Rate", Unit::Number), 0, 0.0);
        assert!(svg.contains("class=\"points c0\" data-line=0 d=\"\"/>") && svg.contains(">20</text>"), "{svg}");
        assert_eq!(svg.matches("h0").count(), 3);
    }
}
