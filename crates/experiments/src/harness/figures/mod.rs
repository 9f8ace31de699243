//! Figures for tables, measured or from virtual time.
//!
//! | what | file |
//! |---|---|
//! | numbers as cells show them | `cells.rs` |
//! | medians and ranges | `spread.rs` |
//! | what each of several flows gets | `shares.rs` |
//! | flows in virtual time | `simulated.rs` |

pub(crate) mod cells;
pub(crate) mod shares;
pub(crate) mod simulated;
pub(crate) mod spread;
