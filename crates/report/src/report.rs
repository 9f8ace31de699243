//! The model of a report: what one page shows.

use icdc_units::Time;
use serde::Serialize;

use crate::{HeatMap, Plot, Table};

/// Judgement of how a run ended, which gives the sentence about it its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// The run went as it was meant to.
    #[default]
    Good,
    /// Good within the limits that it names.
    Limited,
    /// The run failed.
    Failed,
}

/// Model of a report: everything that one HTML page (or its JSON and CSV) shows about a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Heading of the page.
    pub title: String,
    /// The command line of the run.
    pub command: String,
    /// One sentence on how the run ended.
    pub outcome: String,
    /// Judgement of that outcome.
    pub judgement: Judgement,
    /// Facts as (name, value), in order.
    pub summary: Vec<(String, String)>,
    /// Share of the time per stage as (name, 0 to 1), in the order in which data passes the stages.
    /// The position in this list determines a stage's colour, so reports of one kind name all their
    /// stages, those without a share too.
    pub stages: Vec<(String, f64)>,
    /// Tables, above the plots.
    pub tables: Vec<Table>,
    /// Heat maps, between tables and plots.
    pub heat_maps: Vec<HeatMap>,
    /// Plots, from top to bottom; those over time share one time axis.
    pub plots: Vec<Plot>,
    /// Time at which the time axis begins on the clock of the host that made the report
    /// (`CLOCK_MONOTONIC`), so that reports of one host can be laid beside each other; `None` if it
    /// has no such time.
    pub origin: Option<Time>,
    /// Messages about what failed, one line each.
    pub failures: Vec<String>,
}
