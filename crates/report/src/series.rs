//! Series: values along the axis of a plot, and how they are drawn.

use serde::Serialize;

use crate::Uniform;

/// A named series of values along the axis of a plot, with the style in which it is drawn.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Name of the series in the legend.
    pub name: String,
    /// Style in which the series is drawn.
    pub stroke: Stroke,
    /// Name of the series' CSV column without the unit; see [`Self::column`].
    #[serde(skip_serializing_if = "String::is_empty")]
    pub column: String,
    /// Values of the series.
    #[serde(flatten)]
    pub values: Values,
}

impl Series {
    /// A series of points or of uniform values.
    #[must_use]
    pub fn new(name: &str, stroke: Stroke, values: impl Into<Values>) -> Self {
        Self { name: name.into(), stroke, column: String::new(), values: values.into() }
    }

    /// Names the CSV column, to which the unit is added. Without it, the column is named by the
    /// plot's title, and by the series too where the plot has several.
    #[must_use]
    pub fn column(self, name: &str) -> Self {
        Self { column: name.into(), ..self }
    }
}

/// The values of a series.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Values {
    /// (position on the axis, value in the plot's unit), in ascending order; on a time axis the
    /// position is in seconds since the start. Points that are not finite are left out.
    Points(Vec<(f64, f64)>),
    /// Integers at equal steps of time.
    Uniform(Uniform),
}

impl From<Vec<(f64, f64)>> for Values {
    fn from(points: Vec<(f64, f64)>) -> Self {
        Self::Points(points)
    }
}

impl From<Uniform> for Values {
    fn from(uniform: Uniform) -> Self {
        Self::Uniform(uniform)
    }
}

impl Values {
    /// Position on the axis at which the last value ends; 0 if there is none.
    pub(crate) fn end(&self) -> f64 {
        match self {
            Self::Points(points) => points.iter().map(|(at, _)| *at).filter(|at| at.is_finite()).fold(0.0, f64::max),
            Self::Uniform(uniform) => uniform.end().as_secs_f64(),
        }
    }
}

/// Style in which a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stroke {
    /// A thick line: what the reader should see first.
    Strong,
    /// A thin, pale line: detail behind another series.
    Faint,
    /// A dashed line: a limit.
    Limit,
    /// A filled step: what happened in each interval that ends at its point.
    Area,
    /// A line in a colour of its own (eight, then again), with a marker at each point where there
    /// are few: one of several equals.
    Line,
    /// A marker at each point and no line, in a colour of its own: cases that do not follow from
    /// each other.
    Points,
    /// A tick at the bottom wherever the value is above zero: events. The values are counts,
    /// whatever the plot's unit, and do not stretch its axis.
    Marks,
}
