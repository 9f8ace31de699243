//! The book of names: what the sender announces, from the announcement to the final name.
//!
//! | module | what |
//! |---|---|
//! | [`action`] | what the book asks for, and the outcomes |
//! | [`item`] | what it knows of directories and items |
//! | [`want`] | what is wanted of an item, by what lies at the destination |

pub mod action;
pub mod item;
pub mod want;
