//! The rule of both ends which named pipes, sockets and devices are copied.

use icdc_protocol::message::{Preserve, Special};

/// Reason why a named pipe, socket or device is not copied with these attributes; `None` if it is.
/// A device gives whoever may open its node a part of the host, so it goes with the owner, as
/// set-id bits do.
#[must_use]
pub fn refusal(special: Special, preserve: Preserve) -> Option<String> {
    let what = special.described();
    match special.device() {
        _ if !preserve.specials => Some(format!("{what} is not copied (--preserve without specials)")),
        Some(_) if !preserve.owner => {
            Some(format!("{what} is not copied without its owner (--preserve specials,owner)"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use icdc_protocol::message::DeviceNumber;

    use super::*;

    #[test]
    fn special_items_are_copied_only_where_they_were_asked_for() {
        let device = Special::BlockDevice(DeviceNumber { major: 8, minor: 0 });
        let specials = Preserve { specials: true, ..Preserve::default() };
        let with_owner = Preserve { owner: true, ..specials };
        for (special, expected) in [
            (Special::Pipe, [true, false, false]),
            (Special::Socket, [true, false, false]),
            (device, [true, true, false]),
        ] {
            let refused =
                [Preserve::default(), specials, with_owner].map(|preserve| refusal(special, preserve).is_some());
            assert_eq!(refused, expected, "{special:?}");
        }
    }
}
