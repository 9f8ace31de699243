//! Work on a frame that is left to the device which transmits it: `struct virtio_net_hdr`
//! (linux/virtio_net.h).

/// Length of the header before each frame.
pub(crate) const LENGTH: usize = Offload::LENGTH;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCP_IPV4: u8 = 1;
const GSO_TCP_IPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// Kind of segmentation that a packet still needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segmentation {
    /// The packet is one frame and is not segmented.
    None,
    /// TCP segments, over IPv4 or IPv6.
    Tcp,
    /// UDP segmentation, into datagrams.
    Udp,
    /// A kind of segmentation that this crate does not know.
    Other,
}

/// The header, as the kernel gives and takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offload([u8; LENGTH]);

impl Offload {
    /// Length of this header (`struct virtio_net_hdr`), which precedes each frame, in bytes.
    pub const LENGTH: usize = 10;

    /// Parses the header with which `bytes` begin; `None` if they are too short.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        Some(Self(*bytes.first_chunk()?))
    }

    /// The header's bytes, as they precede a frame.
    #[must_use]
    pub fn bytes(self) -> [u8; LENGTH] {
        self.0
    }

    /// Segmentation that is left to be done.
    pub(crate) fn segmentation(self) -> Segmentation {
        match self.0[1] & !GSO_ECN {
            GSO_NONE => Segmentation::None,
            GSO_TCP_IPV4 | GSO_TCP_IPV6 => Segmentation::Tcp,
            GSO_UDP_L4 => Segmentation::Udp,
            _ => Segmentation::Other,
        }
    }

    /// Payload bytes of each segment but the last.
    pub(crate) fn segment_size(self) -> usize {
        usize::from(u16::from_ne_bytes([self.0[4], self.0[5]]))
    }

    /// Offset of the header that carries the checksum, if the checksum is left to be computed.
    pub(crate) fn checksum_start(self) -> Option<usize> {
        (self.0[0] & NEEDS_CHECKSUM != 0).then(|| usize::from(u16::from_ne_bytes([self.0[6], self.0[7]])))
    }

    /// This header for a packet of one frame.
    #[must_use]
    pub fn unsegmented(mut self) -> Self {
        self.0[1..6].fill(0);
        self
    }
}
