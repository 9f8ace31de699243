//! Plots: series over an axis, and their drawing.
//!
//! | file | what |
//! |---|---|
//! | `definition` | what a plot shows |
//! | `canvas` | the drawing area, its axes and grid |
//! | `outline` | paths of series |
//! | `drawing` | a plot as inline SVG |

mod canvas;
mod definition;
mod drawing;
mod outline;

pub use definition::{Axis, Baseline, Plot};
pub(crate) use drawing::{ZOOM, draw};
