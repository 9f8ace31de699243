//! Whole sessions in a simulated world: see the modules.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that fails says where")]

mod agenda;
mod audit;
mod client;
mod connections;
mod disk;
mod environment;
mod finds;
mod forging;
mod mutations;
mod older;
mod plan;
mod random;
mod receiver;
mod scenarios;
mod sender;
mod source;
mod wire;
mod world;
