//! Changes of names at the end that has them: directories made, items removed and renamed.
//!
//! | file | what |
//! |---|---|
//! | `carry_out` | a request, carried out in a tree |
//! | `place` | the item that a path names, and what is never changed |
//! | `directories`, `removal`, `renaming` | the three kinds of changes |
//! | `walk` | an item and everything in it, unless a running copy may hold something |
//! | `in_use` | unfinished files that a running copy may hold |
//! | `report` | what a change tells as it goes |
//! | `far` | the end that changes for another |
//! | `near` | asks another end for a change |

#![forbid(unsafe_code)]

mod carry_out;
mod directories;
mod far;
mod in_use;
mod near;
mod place;
mod removal;
mod renaming;
mod report;
mod walk;

pub use carry_out::carry_out;
pub use far::answer;
pub use near::request;
pub use report::{Over, Reporter};
