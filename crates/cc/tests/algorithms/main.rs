//! The native twins against what their papers and RFCs publish.

mod any_sequence;
mod bbr;
mod bic;
mod bottleneck;
mod cubic;
mod ghstcp;
mod growth;
mod htcp;
mod icdc;
mod parameters;
mod path;
