//! Figures for tables, measured or from virtual time.
//!
//! | what | file |
//! |---|---|
//! | formats of numbers in cells | `cells.rs` |
//! | medians and ranges | `spread.rs` |
//! | shares of several flows | `shares.rs` |
//! | flows in virtual time | `simulated.rs` |

pub(crate) mod cells;
pub(crate) mod shares;
pub(crate) mod simulated;
pub(crate) mod spread;
