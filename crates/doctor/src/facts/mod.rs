//! Facts of a host, without judgement.
//!
//! | file | from |
//! |---|---|
//! | `host` | all of these together |
//! | `device` | `/sys/class/net`, rtnetlink, ethtool: the devices that the traffic takes |
//! | `route` | devices of the default routes, addresses, and the path MTU |
//! | `processors` | lists of processors, as the kernel writes them |
//! | `clock` | clock source, adjtimex(2) |
//! | `abilities` | io_uring and eBPF |
//! | `disk` | rates of a disk, by the engines that copies use |

mod abilities;
mod clock;
mod device;
mod disk;
mod host;
mod processors;
mod route;

pub use abilities::{Abilities, Ability};
pub use clock::Clock;
pub use device::{Device, Interrupt, Node, Offloads};
pub use disk::{Disk, DiskTestError, measure as measure_disk};
pub use host::HostFacts;
pub use route::{addresses, path_mtu};
