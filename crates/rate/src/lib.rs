//! The rate of a transfer, decided without sockets or clocks: observations with their times go in,
//! ceilings come out.
//!
//! | part | file |
//! |---|---|
//! | **all decisions for one transfer** | [`controller`] |
//! | ceilings of a rate, of which the lowest counts | [`ceilings`] |
//! | ceiling of one connection, found from `TCP_INFO` | [`path_ceiling`] |
//! | ceiling by a slow disk | [`disk_ceiling`] |
//! | rate of the connections after the first, which finds the rate | [`sharing`] |
//! | several connections steered as one | [`bundle`] |
//! | number of connections that a path needs | [`connection_count`] |
//! | number that the processors of the sending host need | [`processors`] |
//! | whether data is compressed, and how much | [`compression`] |
//! | remembered paths | [`known_paths`] |
//!
//! # Constants
//!
//! Each constant names its source: a standard, the kernel's code, a record or a test, or that it is
//! *chosen*. For a chosen one follows what half and twice its value change (of a ratio above 0.6,
//! half and twice its distance from 1): which tests of this crate or of `crates/sim` fail, whether
//! the table of simulated throughputs `controller/tests/throughput.txt` changes, and whether the
//! simulated transfers of the table below differ. A transfer *differs* if it takes 1.5 % more or
//! less, drops 300 packets more, or carries 3 points more or less of the path's rate. All results
//! are in `bench/runs/2026-11-28-89d5f0fecc-rate-constants`.
//!
//! | transfer | connections | path |
//! |---|---|---|
//! | `stock` | 16 with buffers of 3 MiB | 1 Gbit/s, 300 ms, queue of 2.5 MB |
//! | `loss` | 15, and up to 49 more | the same, with a loss of 1e-4 |
//! | `pauses` | 16 | the same, with a receiver that pauses for 30 ms in each second |
//! | `cubic` | 4 to 64 with buffers of 24 MiB | 1 Gbit/s, 50 ms, 6.25 MB, beside one of CUBIC |
//! | `onoff` | 15 | 1 Gbit/s, 300 ms, 25 MB, beside 500 Mbit/s in 5 of 10 s |

#![forbid(unsafe_code)]

pub mod bundle;
pub mod ceilings;
pub mod compression;
pub mod connection_count;
pub mod controller;
pub mod disk_ceiling;
pub mod known_paths;
pub mod path_ceiling;
pub mod processors;
pub mod sharing;
