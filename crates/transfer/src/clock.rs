//! The clock adapter of this crate: everything else takes time from here or as a parameter.

pub(crate) use icdc_tcp::clock::{now, of_thread, wall};
