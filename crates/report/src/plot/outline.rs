//! Paths of series. What is finer than the drawing becomes an outline: the least and the greatest
//! value of each pixel column.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::canvas::{Canvas, LEFT, RIGHT, WIDTH};
use crate::reduce::envelope;
use crate::{Series, Stroke, Uniform, Values};

/// Maximum number of columns of an outline, one per user unit of the plot's width: finer ones
/// cannot be seen.
const COLUMNS: usize = (WIDTH - LEFT - RIGHT) as usize;
/// Maximum number of points of a line over time that get markers.
const MOST_DOTS: usize = 60;
/// Height of an event's tick at the foot of the plot, in user units.
const MARK: u32 = 9;

/// SVG paths of `series` and of its markers; either may be empty.
pub(super) fn paths(canvas: &Canvas, series: &Series) -> (String, String) {
    match &series.values {
        Values::Points(points) => {
            let finite = |(at, value): &&(f64, f64)| at.is_finite() && value.is_finite();
            let points: Vec<_> = points.iter().filter(finite).copied().collect();
            match series.stroke {
                Stroke::Marks => (marks(canvas, points.into_iter()), String::new()),
                Stroke::Area => (area(canvas, 0.0, &envelope(&points, COLUMNS)), String::new()),
                Stroke::Points => (String::new(), dots(canvas, Stroke::Points, &points)),
                stroke => (line(canvas, &envelope(&points, COLUMNS)), dots(canvas, stroke, &points)),
            }
        }
        Values::Uniform(uniform) => {
            let groups = groups(uniform);
            let path = match series.stroke {
                Stroke::Marks => marks(canvas, groups.iter().map(|group| (group.from.midpoint(group.to), group.high))),
                Stroke::Area => {
                    let start = groups.first().map_or(0.0, |group| group.from);
                    let greatest: Vec<_> = groups.iter().map(|group| (group.to, group.high)).collect();
                    area(canvas, start, &greatest)
                }
                _ => steps(canvas, &groups),
            };
            (path, String::new())
        }
    }
}

/// Neighbouring steps of a uniform series that share a pixel column: their time in seconds, their
/// least and greatest value in the plot's unit.
struct Group {
    from: f64,
    to: f64,
    low: f64,
    high: f64,
}

/// Divides a uniform series into at most [`COLUMNS`] groups; those without finite values are left
/// out.
fn groups(uniform: &Uniform) -> Vec<Group> {
    let length = uniform.values().len();
    let number = length.min(COLUMNS);
    let border = |group: usize| group * length / number;
    let seconds = |index: usize| (uniform.start().as_nanos().saturating_add(uniform.nanos(index))) as f64 / 1e9;
    let group = |group: usize| {
        let part = &uniform.values()[border(group)..border(group + 1)];
        let ends = [part.iter().min(), part.iter().max()].map(|end| end.map_or(0.0, |end| *end as f64));
        let [a, b] = ends.map(|end| end * uniform.scale());
        Group { from: seconds(border(group)), to: seconds(border(group + 1)), low: a.min(b), high: a.max(b) }
    };
    (0..number).map(group).filter(|group| group.low.is_finite() && group.high.is_finite()).collect()
}

/// SVG path of a line that is level over each step and spans each group from its nearer end.
fn steps(canvas: &Canvas, groups: &[Group]) -> String {
    let mut path = String::new();
    let mut before = 0.0_f64;
    for Group { from, to, low, high } in groups {
        let (first, second) = if (before - low).abs() <= (before - high).abs() { (low, high) } else { (high, low) };
        let (y, y_second) = (format!("{:.1}", canvas.y(*first)), format!("{:.1}", canvas.y(*second)));
        let _ = match path.is_empty() {
            true => write!(path, "M{:.1} {y}", canvas.x(*from)),
            false => write!(path, "V{y}"),
        };
        if y != y_second {
            let _ = write!(path, "V{y_second}");
        }
        let _ = write!(path, "H{:.1}", canvas.x(*to));
        before = *second;
    }
    path
}

/// SVG path of a line through the points.
fn line(canvas: &Canvas, points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (index, &(at, value)) in points.iter().enumerate() {
        let step = if index == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{step}{:.1} {:.1}", canvas.x(at), canvas.y(value));
    }
    path
}

/// SVG path that fills what lies below steps that end at their points.
fn area(canvas: &Canvas, start: f64, points: &[(f64, f64)]) -> String {
    if points.is_empty() {
        return String::new();
    }
    let foot = canvas.foot();
    let mut end = canvas.x(start);
    let mut path = format!("M{end:.1} {foot:.1}");
    for &(at, value) in points {
        end = canvas.x(at);
        let _ = write!(path, "V{:.1}H{end:.1}", canvas.y(value));
    }
    let _ = write!(path, "L{end:.1} {foot:.1}Z");
    path
}

/// SVG path of ticks at the plot's foot, at most one per pixel column, where counts are above zero.
fn marks(canvas: &Canvas, counts: impl Iterator<Item = (f64, f64)>) -> String {
    let marked: BTreeSet<u32> =
        counts.filter(|(_, count)| *count > 0.0).map(|(at, _)| canvas.x(at).round() as u32).collect();
    marked.into_iter().fold(String::new(), |mut path, x| {
        let _ = write!(path, "M{x} {}v-{MARK}", canvas.foot());
        path
    })
}

/// SVG path of round markers (lines of no length with round ends): for points without a line, for a
/// single point, and for a line in a colour of its own with few points or over another axis than
/// time; otherwise empty.
fn dots(canvas: &Canvas, stroke: Stroke, points: &[(f64, f64)]) -> String {
    let equals = stroke == Stroke::Line && (!canvas.over_time || points.len() <= MOST_DOTS);
    if points.len() != 1 && !equals && stroke != Stroke::Points {
        return String::new();
    }
    points.iter().fold(String::new(), |mut path, &(at, value)| {
        let _ = write!(path, "M{:.1} {:.1}h0", canvas.x(at), canvas.y(value));
        path
    })
}

#[cfg(test)]
mod tests {
    use icdc_units::Span;

    use super::*;
    use crate::{Plot, Unit, plot};

    fn drawn(stroke: Stroke, values: impl Into<Values>) -> String {
        let series = Series::new("", stroke, values);
        plot::draw(&Plot::new("", Unit::Bytes, vec![series]), 0, 600.0)
    }

    fn milliseconds(values: Vec<i64>) -> Uniform {
        Uniform::new(Span::ZERO, Span::from_millis(1), values)
    }

    #[test]
    fn an_outline_keeps_every_peak_of_a_long_series() {
        let mut values = vec![500; 600_000];
        (values[123_456], values[400_000]) = (1000, 0);
        let svg = drawn(Stroke::Faint, milliseconds(values));
        assert!(svg.contains("V10.0") && svg.contains("V186.0"), "{svg}");
        assert!(svg.len() < 20_000, "{}", svg.len());
    }

    #[test]
    fn few_steps_are_level() {
        let seconds = Uniform::new(Span::ZERO, Span::from_secs(300), vec![0, 1000]);
        let svg = drawn(Stroke::Strong, seconds);
        assert!(svg.contains("d=\"M56.0 186.0H501.0V10.0H946.0\""), "{svg}");
    }

    #[test]
    fn marks_stand_where_something_happened() {
        let mut drops = vec![0; 600_000];
        (drops[300_000], drops[300_001], drops[599_999]) = (1, 2, 30);
        let svg = drawn(Stroke::Marks, milliseconds(drops));
        assert!(svg.contains("d=\"M501 186v-9M945 186v-9\""), "{svg}");
        let points = drawn(Stroke::Marks, vec![(300.0, 1.0), (310.0, 0.0), (600.0, 9.0)]);
        assert!(points.contains("d=\"M501 186v-9M946 186v-9\""), "{points}");
        assert!(svg.contains(">1.0</text>") && !svg.contains("no samples"), "marks do not stretch the axis: {svg}");
    }
}
