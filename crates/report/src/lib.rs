//! Turns what was measured into one HTML page that needs nothing else: no network, no files beside
//! it. Plots are inline SVG that can be read without scripts; a small script of the page's own zooms
//! them. Colours follow the reader's light or dark setting, and the numbers behind the plots are
//! embedded as JSON (`<script type="application/json">`) for other tools. The same model gives JSON
//! ([`Report::to_json`]) and CSV ([`Report::to_csv`]).
//!
//! [`Report`] is the model: facts, shares, tables, heat maps, plots, failures. Series are points, or
//! [`Uniform`]: integers at equal steps, for hours at 1 ms. [`views`] makes the usual plots of
//! network traffic, [`reduce`] means and outlines; [`packed`] is how the page holds long series. `axis`
//! chooses ticks, `plot` and `heat_map` draw, `html` puts the page together.
//! The crate knows nothing about transfers or labs; its callers fill the model in.
//!
//! ```
//! use icdc_report::{Report, Uniform, views};
//! use icdc_units::{Rate, Span};
//!
//! // Ten seconds of a full 1 Gbit/s: 125,000 bytes in each millisecond.
//! let bytes = Uniform::rates(Span::ZERO, Span::from_millis(1), vec![125_000; 10_000]);
//! let bottleneck = Rate::from_bits_per_second(1_000_000_000);
//! let report = Report {
//!     title: "icdc lab".into(),
//!     plots: vec![views::throughput(bytes, Some(bottleneck), vec![])],
//!     ..Report::default()
//! };
//! assert!(report.to_html().contains("Gbit/s"));
//! assert!(report.to_csv()[0].1.starts_with("time_ms,throughput_bps\n0,1000000000\n"));
//! ```

#![forbid(unsafe_code)]

mod axis;
mod csv;
mod heat_map;
mod html;
mod json;
pub mod packed;
mod plot;
pub mod reduce;
mod table;
mod uniform;
mod unit;
pub mod views;

pub use heat_map::{Categories, ColourScale, HeatMap};
pub use table::Table;
pub use uniform::Uniform;
pub use unit::Unit;

use icdc_units::Time;
use serde::Serialize;

/// Everything that one page shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Heading.
    pub title: String,
    /// The command line that made it.
    pub command: String,
    /// One sentence on how it ended.
    pub outcome: String,
    /// Whether that outcome is a failure.
    pub failed: bool,
    /// Facts as (name, value), in order.
    pub summary: Vec<(String, String)>,
    /// Share of the time per stage as (name, 0 to 1), in the order of the data's way.
    pub stages: Vec<(String, f64)>,
    /// Tables, above the plots.
    pub tables: Vec<Table>,
    /// Heat maps, between tables and plots.
    pub heat_maps: Vec<HeatMap>,
    /// Plots, from top to bottom; those over time share one time axis.
    pub plots: Vec<Plot>,
    /// Where that axis begins on the clock of the host that made the report (`CLOCK_MONOTONIC`), so that reports of one host can be laid
    /// beside each other.
    pub origin: Option<Time>,
    /// What failed, one line each.
    pub failures: Vec<String>,
}

impl Report {
    /// The page as UTF-8 text.
    #[must_use]
    pub fn to_html(&self) -> String {
        html::page(self)
    }

    /// The model as JSON with every value written out.
    ///
    /// Each series has its `unit` (`bits_per_second`, `bytes`, `seconds`, …) and either
    /// `points: [[x, value], …]` or `start_seconds`, `step_seconds` and `values: […]`, where value `k` stands
    /// for the `step_seconds` that begin at `start_seconds + k * step_seconds`. Heat maps have `values` row by row. What is
    /// not finite or not there is null.
    /// `origin_monotonic_seconds` says where the time axis begins on the host's clock, if that is known.
    #[must_use]
    pub fn to_json(&self) -> String {
        json::expanded(self)
    }

    /// The numbers as CSV (RFC 4180, `\n` ends a line): (file name, text) for each file.
    ///
    /// | file | holds | first column |
    /// |---|---|---|
    /// | `series_1ms.csv`, `series_10ms.csv`, … | uniform series of that step | `time_ms`: the beginning of each step; `time_seconds` if it is no whole number |
    /// | `points.csv`, `points_2.csv`, … | point series with the same times | `time_seconds` |
    /// | one per plot over another axis, named by its title | its series | the axis with its unit |
    /// | one per table, named by its caption | the table | as in the table |
    /// | one per heat map, named by its title | a line per cell: row, column, value | the row's category |
    ///
    /// Columns of values end in their unit: `_bps`, `_bytes`, `_seconds`, …; see [`Series::column`]. They begin with their plot's group
    /// ([`Plot::of`]): `a_to_b_throughput_bps`. Names are shortened to 40 characters and the unit; what then has the same name is numbered.
    /// A cell without a value is empty.
    #[must_use]
    pub fn to_csv(&self) -> Vec<(String, String)> {
        csv::files(self)
    }
}

/// One coordinate system.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plot {
    /// What is shown.
    pub title: String,
    /// What it is shown of, where a report shows the same of several: the CSV columns begin with it. See [`Self::of`].
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

    /// The same of one of several, such as one direction: its name ends the title and begins the names of the CSV columns.
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

/// Values along an axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// How it is drawn.
    pub stroke: Stroke,
    /// Name of its CSV column without the unit; see [`Self::column`].
    #[serde(skip_serializing_if = "String::is_empty")]
    pub column: String,
    /// Its values.
    #[serde(flatten)]
    pub values: Values,
}

impl Series {
    /// A series of points or of uniform values.
    #[must_use]
    pub fn new(name: &str, stroke: Stroke, values: impl Into<Values>) -> Self {
        Self { name: name.into(), stroke, column: String::new(), values: values.into() }
    }

    /// Names the CSV column, to which the unit is added. Without it, the column is named by the plot's title,
    /// and by the series too where the plot has several.
    #[must_use]
    pub fn column(self, name: &str) -> Self {
        Self { column: name.into(), ..self }
    }
}

/// The values of a series.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Values {
    /// (place on the axis, value in the plot's unit), ascending in place; on a time axis the place is in seconds
    /// since the start. What is not finite is left out.
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
    /// Where the last value ends on the axis; 0 if there is none.
    fn end(&self) -> f64 {
        match self {
            Self::Points(points) => points.iter().map(|(at, _)| *at).filter(|at| at.is_finite()).fold(0.0, f64::max),
            Self::Uniform(uniform) => uniform.end().as_secs_f64(),
        }
    }
}

/// How a series is drawn.
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
    /// A line in a colour of its own (eight, then again), with a marker at each point where there are few:
    /// one of several equals.
    Line,
    /// A marker at each point and no line, in a colour of its own: cases that do not follow from each other.
    Points,
    /// A tick at the bottom wherever the value is above zero: events. The values are counts, whatever the
    /// plot's unit, and do not stretch its axis.
    Marks,
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
