//! The book with an executor that writes down what it does.

mod beginning;
mod confirmation;
mod desk;
mod extras;
mod names;
mod orders;
mod owners;
mod publishing;
mod snapshot;
