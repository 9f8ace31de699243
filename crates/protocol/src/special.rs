//! Items that are neither files nor directories nor links.

use serde::{Deserialize, Serialize};

/// A named pipe, a socket or a device node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Special {
    /// A named pipe.
    Pipe,
    /// A name of a socket, which no process listens to.
    Socket,
    /// A node of a block device.
    BlockDevice(DeviceNumber),
    /// A node of a character device.
    CharacterDevice(DeviceNumber),
}

/// Number by which a kernel knows a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceNumber {
    /// Number of the driver, of 12 bits.
    pub major: u32,
    /// Number of the device among those of the driver, of 20 bits.
    pub minor: u32,
}

impl Special {
    /// Number of the device; `None` for a pipe or socket.
    #[must_use]
    pub fn device(self) -> Option<DeviceNumber> {
        match self {
            Self::Pipe | Self::Socket => None,
            Self::BlockDevice(number) | Self::CharacterDevice(number) => Some(number),
        }
    }

    /// Name of the kind with its article, for messages.
    #[must_use]
    pub fn described(self) -> &'static str {
        match self {
            Self::Pipe => "a named pipe",
            Self::Socket => "a socket",
            Self::BlockDevice(_) => "a block device",
            Self::CharacterDevice(_) => "a character device",
        }
    }
}

impl DeviceNumber {
    /// Whether Linux can have such a device: 12 bits of major and 20 of minor number.
    #[must_use]
    pub fn is_valid(self) -> bool {
        self.major < 1 << 12 && self.minor < 1 << 20
    }
}
