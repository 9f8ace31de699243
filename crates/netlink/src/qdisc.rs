//! Queueing disciplines.

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};

use crate::request::{NetlinkError, Wanted, ask};

/// A queueing discipline of a device, for outgoing packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    /// Index of the device.
    pub device: u32,
    /// Position of the discipline at the device.
    pub parent: Parent,
    /// Kind of the discipline: `fq`, `mq` and so on.
    pub kind: String,
}

/// Position of a queueing discipline at its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    /// At the root of the device.
    Root,
    /// Below another discipline.
    Other,
}

/// Lists all queueing disciplines for outgoing packets.
///
/// # Errors
/// The request to the kernel fails.
pub fn qdiscs() -> Result<Vec<Qdisc>, NetlinkError> {
    let answers = ask("disciplines", Wanted::All, RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default()))?;
    Ok(answers.into_iter().filter_map(qdisc_of).collect())
}

/// Queueing discipline that an answer of the kernel describes; `None` for one of arriving packets,
/// and for messages of another kind.
fn qdisc_of(message: RouteNetlinkMessage) -> Option<Qdisc> {
    let RouteNetlinkMessage::NewQueueDiscipline(message) = message else { return None };
    let parent = match message.header.parent {
        // It only looks at arrivals.
        TcHandle::INGRESS => return None,
        TcHandle::ROOT => Parent::Root,
        _ => Parent::Other,
    };
    let kind = message.attributes.into_iter().find_map(|attribute| match attribute {
        TcAttribute::Kind(kind) => Some(kind),
        _ => None,
    })?;
    Some(Qdisc { device: message.header.index.cast_unsigned(), parent, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disciplines_of_arrivals_are_left_out() {
        let qdisc = |parent| {
            let mut message = TcMessage::default();
            message.header.index = 3;
            message.header.parent = parent;
            message.attributes.push(TcAttribute::Kind("fq".to_owned()));
            qdisc_of(RouteNetlinkMessage::NewQueueDiscipline(message)).map(|qdisc| (qdisc.device, qdisc.parent))
        };
        assert_eq!(qdisc(TcHandle::ROOT), Some((3, Parent::Root)));
        assert_eq!(qdisc(TcHandle { major: 1, minor: 2 }), Some((3, Parent::Other)));
        assert_eq!(qdisc(TcHandle::INGRESS), None);
        qdiscs().unwrap();
    }
}
