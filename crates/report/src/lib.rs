//! Turns what was measured into one HTML page that needs nothing else: no network, no files beside
//! it. Plots are inline SVG that can be read without scripts; a small script of the page's own
//! zooms them. Colours follow the reader's light or dark setting, and the numbers behind the plots
//! are embedded as JSON (`<script type="application/json">`) for other tools. The same model gives
//! JSON ([`Report::to_json`]) and CSV ([`Report::to_csv`]).
//!
//! [`Report`] is the model: facts, shares, tables, heat maps, plots, failures. Series are points,
//! or
//! [`Uniform`]: integers at equal steps, for hours at 1 ms. [`views`] makes the usual plots of
//! network traffic, [`reduce`] means and outlines; [`packed`] is how the page holds long series.
//! `axis` chooses ticks, `plot` and `heat_map` draw, `html` puts the page together. The crate knows
//! nothing about transfers or labs; its callers fill the model in.
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
mod escape;
mod heat_map;
mod html;
mod json;
mod output;
pub mod packed;
mod plot;
pub mod reduce;
mod report;
mod series;
mod table;
mod uniform;
mod unit;
pub mod views;

pub use heat_map::{Categories, ColourScale, HeatMap};
pub use plot::{Axis, Baseline, Plot};
pub use report::{Judgement, Report};
pub use series::{Series, Stroke, Values};
pub use table::Table;
pub use uniform::Uniform;
pub use unit::Unit;
