//! A report as HTML, JSON and CSV.

use crate::report::Report;
use crate::{csv, html, json};

impl Report {
    /// The report as an HTML page, in UTF-8.
    #[must_use]
    pub fn to_html(&self) -> String {
        html::page(self)
    }

    /// The model as JSON with every value written out.
    ///
    /// Each series has its `unit` (`bits_per_second`, `bytes`, `seconds`, …) and either `points:
    /// [[x, value], …]` or `start_seconds`, `step_seconds` and `values: […]`, where value `k`
    /// stands for the `step_seconds` that begin at `start_seconds + k * step_seconds`. Heat maps
    /// have `values` row by row. What is not finite or not there is null.
    /// `origin_monotonic_seconds` says where the time axis begins on the host's clock, if that is
    /// known.
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
    /// Columns of values end in their unit: `_bps`, `_bytes`, `_seconds`, …; see
    /// [`Series::column`](crate::Series::column). They begin with their plot's group
    /// ([`Plot::of`](crate::Plot::of)): `a_to_b_throughput_bps`. Names are shortened to 40
    /// characters and the unit; what then has the same name is numbered. A cell without a value is
    /// empty.
    #[must_use]
    pub fn to_csv(&self) -> Vec<(String, String)> {
        csv::files(self)
    }
}
