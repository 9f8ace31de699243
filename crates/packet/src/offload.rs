//! Work on a frame that is left to the device which transmits it: `struct virtio_net_hdr`
//! (linux/virtio_net.h).

/// Length of the header of offloads before each frame, in bytes.
pub(crate) const LENGTH: usize = Offload::LENGTH;

/// Flag: the checksum is left to be completed (`VIRTIO_NET_HDR_F_NEEDS_CSUM`).
const NEEDS_CHECKSUM: u8 = 1;
/// Kind of segmentation: none.
const GSO_NONE: u8 = 0;
/// Kind of segmentation: TCP over IPv4.
const GSO_TCP_IPV4: u8 = 1;
/// Kind of segmentation: TCP over IPv6.
const GSO_TCP_IPV6: u8 = 4;
/// Kind of segmentation: UDP, into datagrams.
const GSO_UDP_L4: u8 = 5;
/// Bit beside the kind of segmentation: TCP has the flag CWR set.
const GSO_ECN: u8 = 0x80;

/// Kind of segmentation that a packet still needs, by the header of its offloads.
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

/// Header before each frame (`struct virtio_net_hdr`): segmentation and checksum that the sender
/// left to the device.
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

    /// Kind of segmentation that is left to be done.
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

    /// Offset in the frame of the TCP or UDP header whose checksum is left to be completed; `None`
    /// if none is.
    pub(crate) fn checksum_start(self) -> Option<usize> {
        (self.0[0] & NEEDS_CHECKSUM != 0).then(|| usize::from(u16::from_ne_bytes([self.0[6], self.0[7]])))
    }

    /// This header for a packet that is one frame: without segmentation, with the same checksum to
    /// complete.
    #[must_use]
    pub fn unsegmented(mut self) -> Self {
        self.0[1..6].fill(0);
        self
    }
}
