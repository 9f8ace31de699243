//! Looking at trees and comparing them, on this host and on others.
//!
//! | file | what |
//! |---|---|
//! | `places` | the trees of a command line, and how they are reached |
//! | `ls`, `du`, `verify` | the commands |
//! | `completion` | what a path on another host that is typed in part may become |
//! | `long`, `total`, `differences` | a line about an item, the counts of a directory, what differs |
//! | `repair` | copies what differs |
//! | `checksums` | lists of digests, as archives ship them |
//! | `receipt` | receipts as such lists, and their signatures |
//! | `against_list` | compares a tree with such a list |

mod against_list;
mod checksums;
mod completion;
mod differences;
mod du;
mod expected;
mod long;
mod ls;
pub(crate) mod places;
mod receipt;
mod repair;
mod total;
mod verify;

pub(crate) use du::run as du;
pub(crate) use ls::run as ls;
pub(crate) use verify::run as verify;
