//! The model of a report: what one page shows.

use icdc_units::Time;
use serde::Serialize;

use crate::{HeatMap, Plot, Table};

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
    /// Where that axis begins on the clock of the host that made the report (`CLOCK_MONOTONIC`), so
    /// that reports of one host can be laid beside each other.
    pub origin: Option<Time>,
    /// What failed, one line each.
    pub failures: Vec<String>,
}
