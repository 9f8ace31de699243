//! One plot as inline SVG.
//!
//! Colours come from the page's style sheet by class, so that the same drawing serves light and
//! dark. The script [`ZOOM`] draws the same again for another range or width: it finds the ranges
//! in the `data-` attributes of the drawing and the values in the model that the page holds.

use std::fmt::Write;

use super::canvas::{Canvas, LEFT, RIGHT, TOP, WIDTH, hull};
use super::definition::{Axis, Baseline, Plot};
use super::outline;
use crate::axis::{self, Scale};
use crate::escape::escaped;
use crate::{Series, Stroke, Values};

/// JavaScript of the page: draws all plots anew for the time range that the reader selects, and for
/// the width of the page.
pub(crate) const ZOOM: &str = include_str!("zoom.js");

/// Number of lines or point series that have a colour of their own in the style sheet; further ones
/// repeat them.
const COLOURS: usize = 8;

/// An HTML `<figure>` of `plot`, the report's plot `index`, with heading, legend and SVG; a time
/// axis goes to `end` seconds.
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

/// Chooses the scale of a plot's value axis, and its unit with prefix as text.
fn vertical(plot: &Plot) -> (Scale, String) {
    let (least, greatest) = extremes(plot).unwrap_or((0.0, 0.0));
    let greatest = greatest.max(0.0);
    let low = match plot.baseline {
        Baseline::Data if least > greatest / 2.0 => least,
        _ => least.min(0.0),
    };
    axis::values(low, greatest, plot.unit, 5)
}

/// The least and the greatest finite value of all series but marks, which do not stretch the axis;
/// `None` if there is none.
fn extremes(plot: &Plot) -> Option<(f64, f64)> {
    let of_series = |series: &Series| match &series.values {
        Values::Points(points) => {
            let finite = points.iter().filter(|(at, value)| at.is_finite() && value.is_finite());
            finite.map(|(_, value)| (*value, *value)).reduce(hull)
        }
        Values::Uniform(uniform) => {
            let ends = (uniform.values().iter().min()?, uniform.values().iter().max()?);
            let (a, b) = (*ends.0 as f64 * uniform.scale(), *ends.1 as f64 * uniform.scale());
            Some((a.min(b), a.max(b))).filter(|(low, high)| low.is_finite() && high.is_finite())
        }
    };
    plot.series.iter().filter(|series| series.stroke != Stroke::Marks).filter_map(of_series).reduce(hull)
}

/// Style sheet class of each series of a plot.
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
