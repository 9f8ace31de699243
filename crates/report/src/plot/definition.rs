//! The contents of a plot: series over an axis, with the unit of their values.

use serde::Serialize;

use crate::{Series, Unit};

/// A plot of the report: series of values over one axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plot {
    /// Title of the plot: what it shows.
    pub title: String,
    /// Name of the object that the plot is about, where a report shows the same of several: the CSV
    /// columns begin with it. See [`Self::of`].
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Unit of the values of all series but marks, which are counts.
    pub unit: Unit,
    /// Value at which the value axis begins.
    pub baseline: Baseline,
    /// The horizontal axis.
    pub axis: Axis,
    /// Drawn in order, the last on top.
    pub series: Vec<Series>,
}

impl Plot {
    /// A plot over time whose values begin at zero.
    #[must_use]
    pub fn new(title: &str, unit: Unit, series: Vec<Series>) -> Self {
        Self { title: title.into(), group: String::new(), unit, baseline: Baseline::Zero, axis: Axis::Time, series }
    }

    /// This plot as that of one of several objects, such as one direction: its name ends the title
    /// and begins the names of the CSV columns.
    #[must_use]
    pub fn of(self, group: &str) -> Self {
        Self { title: format!("{}, {group}", self.title), group: group.into(), ..self }
    }

    /// This plot over another quantity than time as its horizontal axis.
    #[must_use]
    pub fn over(self, name: &str, unit: Unit) -> Self {
        Self { axis: Axis::Value { name: name.into(), unit }, ..self }
    }

    /// This plot with another beginning of the vertical axis.
    #[must_use]
    pub fn from_baseline(self, baseline: Baseline) -> Self {
        Self { baseline, ..self }
    }
}

/// Quantity along the horizontal axis of a plot.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// Seconds since the start of the run, the same range in all plots of a report.
    #[default]
    Time,
    /// Some other quantity; uniform series, which are over time, are not for such an axis.
    Value {
        /// Name of the quantity along the axis.
        name: String,
        /// Unit of the quantity along the axis.
        unit: Unit,
    },
}

/// Value at which the vertical axis of a plot begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Baseline {
    /// At zero, so that heights compare.
    Zero,
    /// Near the least value if that is far from zero, so that small changes show.
    Data,
}
