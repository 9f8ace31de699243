//! The native twins against what their papers and RFCs publish.

mod any_sequence;
mod bic;
mod cubic;
mod ghstcp;
mod growth;
mod htcp;
mod parameters;
mod path;
