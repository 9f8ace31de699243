//! The model of a report: what one page shows.

use icdc_units::Time;
use serde::Serialize;

use crate::{HeatMap, Plot, Table};

/// Judgement of an outcome, which gives the outcome its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// As it was meant to be.
    #[default]
    Good,
    /// Good within the limits that it names.
    Limited,
    /// A failure.
    Failed,
}

/// Everything that one page shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Heading.
    pub title: String,
    /// The command line that made it.
    pub command: String,
    /// One sentence on how it ended.
    pub outcome: String,
    /// Judgement of that outcome.
    pub judgement: Judgement,
    /// Facts as (name, value), in order.
    pub summary: Vec<(String, String)>,
    /// Share of the time per stage as (name, 0 to 1), in the order of the data's way. Its place is
    /// a stage's colour, so reports of one kind name all their stages, those without a share too.
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
