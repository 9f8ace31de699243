//! Looking at trees and comparing them, on this host and on others.
//!
//! | file | what |
//! |---|---|
//! | `places` | the trees of a command line, and how they are reached |
//! | `ls`, `du`, `verify` | the commands |
//! | `long`, `total`, `differences` | a line about an item, the counts of a directory, what differs |
//! | `repair` | copies what differs |
//! | `checksums` | lists of digests, as archives ship them |
//! | `against_list` | compares a tree with such a list |

mod against_list;
mod checksums;
mod differences;
mod du;
mod long;
mod ls;
mod places;
mod repair;
mod total;
mod verify;

pub(crate) use du::run as du;
pub(crate) use ls::run as ls;
pub(crate) use verify::run as verify;
