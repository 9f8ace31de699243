//! Experiments on relays (split TCP): their benefit for untuned hosts, their cost, and their best
//! placement.
//!
//! | shared by several scenarios | file |
//! |---|---|
//! | the TCP-proxy paper's path | `paper_path.rs` |
//! | plain hosts at both ends of a row of labs | `plain_hosts.rs` |
//! | flows between those hosts | `plain_flow.rs` |
//! | relays on the row | `relays.rs` |
//! | one measurement through relays or without them | `relayed.rs` |

pub(crate) mod paper_path;
pub(crate) mod plain_flow;
pub(crate) mod plain_hosts;
pub(crate) mod proxy;
pub(crate) mod proxy_chain;
pub(crate) mod proxy_cost;
pub(crate) mod proxy_fair;
pub(crate) mod proxy_lfn;
pub(crate) mod proxy_line;
pub(crate) mod proxy_placement;
mod relayed;
mod relays;
