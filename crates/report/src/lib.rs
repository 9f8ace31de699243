//! Turns what was measured into one HTML page that needs nothing else: no network, no scripts, no
//! files beside it. Plots are inline SVG, colours follow the reader's light or dark setting, and the
//! numbers behind the plots are embedded as JSON (`<script type="application/json">`) for other tools.
//!
//! [`Report`] is the model: facts, shares, plots over one time axis, failures. `axis` chooses ticks,
//! `plot` draws, `html` puts the page together, [`reduce`] makes long series drawable.
//! The crate knows nothing about transfers; `cli` fills the model in.
//!
//! ```
//! use icdc_report::{Baseline, Plot, Report, Series, Stroke, Unit};
//!
//! let report = Report {
//!     title: "icdc copy".into(),
//!     plots: vec![Plot {
//!         title: "Rate".into(),
//!         unit: Unit::BitsPerSecond,
//!         baseline: Baseline::Zero,
//!         series: vec![Series {
//!             name: "1 s mean".into(),
//!             stroke: Stroke::Strong,
//!             points: vec![(1.0, 9.3e8), (2.0, 9.4e8)],
//!         }],
//!     }],
//!     ..Report::default()
//! };
//! assert!(report.to_html().contains("Mbit/s"));
//! ```

#![forbid(unsafe_code)]

mod axis;
mod html;
mod plot;
pub mod reduce;

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
    /// Plots, from top to bottom, over the same time axis.
    pub plots: Vec<Plot>,
    /// What failed, one line each.
    pub failures: Vec<String>,
}

impl Report {
    /// The page as UTF-8 text.
    #[must_use]
    pub fn to_html(&self) -> String {
        html::page(self)
    }
}

/// One coordinate system.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plot {
    /// What is shown.
    pub title: String,
    /// Unit of the values of all series.
    pub unit: Unit,
    /// Where the value axis begins.
    pub baseline: Baseline,
    /// Drawn in order, the last on top.
    pub series: Vec<Series>,
}

/// Values over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// How it is drawn.
    pub stroke: Stroke,
    /// (seconds since the start, value in the plot's unit), ascending in time. What is not finite is left out.
    pub points: Vec<(f64, f64)>,
}

/// How prominent a series is.
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

/// Unit of the values of a plot; prefixes are chosen when it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bits per second.
    BitsPerSecond,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// TCP segments.
    Segments,
    /// TCP segments per second.
    SegmentsPerSecond,
}

impl Unit {
    fn symbol(self) -> &'static str {
        match self {
            Self::BitsPerSecond => "bit/s",
            Self::Bytes => "B",
            Self::Seconds => "s",
            Self::Segments => "segments",
            Self::SegmentsPerSecond => "segments/s",
        }
    }
}
