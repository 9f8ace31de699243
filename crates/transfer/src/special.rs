//! Named pipes, sockets and devices, in the terms of the file system and of messages.

use icdc_disk::tree::{self, Stat};
use icdc_protocol::message::{DeviceNumber, Special};

/// Kind of the item that `stat` describes, if it is neither file nor directory nor link; `None` if
/// it is one of these.
pub(crate) fn of(stat: &Stat) -> Option<Special> {
    Some(match stat.special()? {
        tree::Special::Pipe => Special::Pipe,
        tree::Special::Socket => Special::Socket,
        tree::Special::BlockDevice(number) => Special::BlockDevice(device(number)),
        tree::Special::CharacterDevice(number) => Special::CharacterDevice(device(number)),
    })
}

/// Converts the kind of a named pipe, socket or device from the form of messages to that of the
/// file system, to make it.
pub(crate) fn to_make(special: Special) -> tree::Special {
    match special {
        Special::Pipe => tree::Special::Pipe,
        Special::Socket => tree::Special::Socket,
        Special::BlockDevice(number) => tree::Special::BlockDevice(node(number)),
        Special::CharacterDevice(number) => tree::Special::CharacterDevice(node(number)),
    }
}

/// Major and minor number of a device, for messages.
fn device(number: u64) -> DeviceNumber {
    let (major, minor) = tree::device_number(number);
    DeviceNumber { major, minor }
}

/// Number of a device as the file system has it.
fn node(DeviceNumber { major, minor }: DeviceNumber) -> u64 {
    tree::device_node(major, minor)
}
