//! Experiments on icdc's rate control and copies: rate and evenness of sending, and times of
//! copies, alone and beside other programs.
//!
//! | shared by several scenarios | file |
//! |---|---|
//! | one `icdc copy` in a lab of its own | `copying.rs` |
//! | one run of any copier, from command to exit | `race.rs` |
//! | one copy between two hosts without a path; rounds of them | `direct.rs`, `rounds.rs` |
//! | cross-traffic that is on and off, and the capacity that it leaves | `beside_others.rs` |
//! | the other copiers, and what each needs at the far end | `peers.rs` |
//! | a disk that is limited below its rate | `throttle.rs` |

pub(crate) mod any_host;
mod beside_others;
pub(crate) mod bundles_simulated;
pub(crate) mod copy_file;
pub(crate) mod copy_files;
pub(crate) mod copying;
mod direct;
pub(crate) mod icdc_background;
pub(crate) mod icdc_disk;
pub(crate) mod icdc_fast;
pub(crate) mod icdc_simulated;
mod peers;
mod race;
pub(crate) mod ramp;
pub(crate) mod rate_faults;
mod rounds;
pub(crate) mod shots;
pub(crate) mod slow_disk;
pub(crate) mod steady;
mod throttle;
pub(crate) mod versus;
