//! Raw frames of a network device, by AF_PACKET (packet(7)).
//!
//! | part | file |
//! |---|---|
//! | frames in, with the kernel's time stamps, in a ring that the kernel shares | [`Ring`] |
//! | frames out, many by one system call | [`Outlet`] |
//! | work that a device may leave to its peer (segmentation, checksums) | [`offloads`] |
//! | the header that says so, frame by frame | [`Offload`] |
//! | other properties from the device driver (flow control, rings) | [`ethtool`] |
//! | packets of many segments: their frames, and cutting some out | [`Superpacket`] |
//! | a device whose other end is this process | [`Tap`] |
//! | answers of neighbours to requests for their addresses | [`Neighbours`] |
//! | arrival times of the segments of one TCP port | [`Capture`] |
//! | the clock of the time stamps | [`clock`] |
//! | datagrams that the kernel cuts from larger pieces | [`datagrams`] |
//! | real-time priority of threads | [`precedence`] |
//!
//! A frame in a [`Ring`] stays in the kernel's slot until it is given back: an emulator that delays
//! packets needs no other memory for them. Frames need `CAP_NET_RAW`, and changes of a device
//! `CAP_NET_ADMIN`, in the network namespace of the calling thread; reading a device's properties
//! needs no privilege.

mod capture;
pub mod clock;
pub mod datagrams;
mod error;
pub mod ethtool;
mod mapped;
mod neighbours;
mod offload;
pub mod offloads;
mod outlet;
pub mod precedence;
mod ring;
mod socket;
mod superpacket;
mod tap;

pub use capture::{Capture, Port, Segment};
pub use error::PacketError;
pub use neighbours::Neighbours;
pub use offload::Offload;
pub use outlet::{Outlet, Sent};
pub use ring::{Arrival, Geometry, Ring, Slot};
pub use superpacket::Superpacket;
pub use tap::Tap;
