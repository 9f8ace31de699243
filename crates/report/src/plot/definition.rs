//! What a plot shows: series over an axis, with the unit of their values.

use serde::Serialize;

use crate::{Series, Unit};

/// One coordinate system.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plot {
    /// What is shown.
    pub title: String,
    /// What it is shown of, where a report shows the same of several: the CSV columns begin with
    /// it. See [`Self::of`].
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Unit of the values of all series but marks, which are counts.
    pub unit: Unit,
    /// Where the value axis begins.
    pub baseline: Baseline,
    /// What lies along the plot.
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

    /// The same of one of several, such as one direction: its name ends the title and begins the
    /// names of the CSV columns.
    #[must_use]
    pub fn of(self, group: &str) -> Self {
        Self { title: format!("{}, {group}", self.title), group: group.into(), ..self }
    }

    /// The same over another axis.
    #[must_use]
    pub fn over(self, name: &str, unit: Unit) -> Self {
        Self { axis: Axis::Value { name: name.into(), unit }, ..self }
    }

    /// The same with another beginning of the value axis.
    #[must_use]
    pub fn from_baseline(self, baseline: Baseline) -> Self {
        Self { baseline, ..self }
    }
}

/// What lies along a plot.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// Seconds since the start of the run, the same range in all plots of a report.
    #[default]
    Time,
    /// Some other quantity; uniform series have no place here.
    Value {
        /// What it is.
        name: String,
        /// Its unit.
        unit: Unit,
    },
}

/// Where a value axis begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Baseline {
    /// At zero, so that heights compare.
    Zero,
    /// Near the least value if that is far from zero, so that small changes show.
    Data,
}
