//! The drawing area of a plot: fixed in user units, scaled by the page's width.

use std::fmt::Write;

use super::definition::{Axis, Plot};
use crate::Values;
use crate::axis::{self, Scale};
use crate::escape::escaped;

/// Width of a plot's drawing in user units; the page scales it.
pub(super) const WIDTH: f64 = 960.0;
/// Room for labels left of the plot's area, in user units.
pub(super) const LEFT: f64 = 56.0;
/// Room right of the plot's area, in user units.
pub(super) const RIGHT: f64 = 14.0;
/// Room above the plot's area, in user units.
pub(super) const TOP: f64 = 10.0;

/// Drawing area of a plot: the scales of its axes and its size, by which values become coordinates.
pub(super) struct Canvas {
    pub(super) horizontal: Scale,
    pub(super) vertical: Scale,
    /// Name of a horizontal axis that is not time.
    name: String,
    pub(super) over_time: bool,
    pub(super) height: f64,
    /// Room below the plot, in pixels.
    pub(super) bottom: f64,
}

impl Canvas {
    /// Drawing area for a plot with this value axis; a time axis goes to `end` seconds, another one
    /// around the positions of the plot's points.
    pub(super) fn new(plot: &Plot, vertical: Scale, end: f64) -> Self {
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
                    .reduce(hull)
                    .unwrap_or((0.0, 0.0));
                // An axis that could begin at zero does, unless the values are far from it.
                let low = if low > high / 2.0 { low } else { low.min(0.0) };
                let (horizontal, unit) = axis::values(low, high, *unit, 10);
                let name = if unit.is_empty() { name.clone() } else { format!("{name} ({unit})") };
                Self { horizontal, vertical, name, over_time: false, height: 300.0, bottom: 44.0 }
            }
        }
    }

    /// Horizontal coordinate of a position on the axis, within the area.
    pub(super) fn x(&self, at: f64) -> f64 {
        LEFT + self.horizontal.share(at).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    /// Vertical coordinate of a value, within the area.
    pub(super) fn y(&self, value: f64) -> f64 {
        self.foot() - self.vertical.share(value).clamp(0.0, 1.0) * (self.foot() - TOP)
    }

    /// Vertical coordinate of the plot's lower end.
    pub(super) fn foot(&self) -> f64 {
        self.height - self.bottom
    }

    /// Appends the lines and labels of both axes' ticks to the drawing.
    pub(super) fn grid(&self, svg: &mut String) {
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

/// The smallest range that contains both.
pub(super) fn hull(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0.min(b.0), a.1.max(b.1))
}
