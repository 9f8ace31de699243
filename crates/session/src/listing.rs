//! Listings without sockets and files: the check of one, and the comparison of two.
//!
//! | module | what |
//! |---|---|
//! | [`checker`] | checks the records of a listing, and gives each its path |
//! | [`names`] | names as a listing end sends them: without what the one before has, too |
//! | [`compare`] | compares two trees by their listings, record by record |
//! | [`window`] | how much a listing end may send ahead of what the other has used |

pub mod checker;
pub mod compare;
pub mod names;
pub mod window;
