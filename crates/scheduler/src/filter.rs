//! Filters that select the frames of a class.

use std::ops::RangeInclusive;

use super::Headers;
use icdc_units::Prefix;

/// A filter that selects IP packets by their headers: all that is given has to match; a filter
/// without anything matches every IP packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Prefix of the destination address; `None` matches all.
    pub to: Option<Prefix>,
    /// Prefix of the source address; `None` matches all.
    pub from: Option<Prefix>,
    /// IP protocol number, 6 for TCP, 17 for UDP; `None` matches all.
    pub protocol: Option<u8>,
    /// Range of the destination port; `None` matches all.
    pub ports: Option<RangeInclusive<u16>>,
    /// Range of the source port; `None` matches all.
    pub source_ports: Option<RangeInclusive<u16>>,
    /// Differentiated services code point (DSCP), 0 to 63; `None` matches all.
    pub dscp: Option<u8>,
}

impl Filter {
    /// Whether a packet with these headers matches the filter; one without ports matches no range
    /// of ports.
    #[must_use]
    pub fn fits(&self, headers: &Headers) -> bool {
        let in_range = |range: &Option<RangeInclusive<u16>>, port: Option<u16>| {
            range.as_ref().is_none_or(|range| port.is_some_and(|port| range.contains(&port)))
        };
        self.to.is_none_or(|prefix| prefix.contains(headers.destination))
            && self.from.is_none_or(|prefix| prefix.contains(headers.source))
            && self.protocol.is_none_or(|protocol| protocol == headers.protocol)
            && self.dscp.is_none_or(|dscp| dscp == headers.dscp)
            && in_range(&self.source_ports, headers.ports.map(|(source, _)| source))
            && in_range(&self.ports, headers.ports.map(|(_, destination)| destination))
    }

    /// Whether some packet can match both filters, as far as each field by itself tells.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        fn apart<T>(a: Option<&T>, b: Option<&T>, meet: impl Fn(&T, &T) -> bool) -> bool {
            a.zip(b).is_some_and(|(a, b)| !meet(a, b))
        }
        let ranges = |a: &RangeInclusive<u16>, b: &RangeInclusive<u16>| a.start() <= b.end() && b.start() <= a.end();
        let is_apart = apart(self.to.as_ref(), other.to.as_ref(), |a, b| a.overlaps(b))
            || apart(self.from.as_ref(), other.from.as_ref(), |a, b| a.overlaps(b))
            || apart(self.protocol.as_ref(), other.protocol.as_ref(), |a, b| a == b)
            || apart(self.dscp.as_ref(), other.dscp.as_ref(), |a, b| a == b)
            || apart(self.ports.as_ref(), other.ports.as_ref(), ranges)
            || apart(self.source_ports.as_ref(), other.source_ports.as_ref(), ranges);
        !is_apart
    }
}

#[cfg(test)]
mod tests {
    use super::super::headers::tests::v4;
    use super::*;

    #[test]
    fn everything_given_has_to_fit() {
        let headers = Headers::of(&v4([192, 0, 2, 9], 6, (1000, 443), 46 << 2)).unwrap();
        let to = |text: &str| Filter { to: Some(text.parse().unwrap()), ..Filter::default() };
        assert!(Filter::default().fits(&headers));
        assert!(to("192.0.2.0/24").fits(&headers) && !to("192.0.3.0/24").fits(&headers) && !to("::/0").fits(&headers));
        let web = Filter { protocol: Some(6), ports: Some(440..=443), ..to("192.0.2.0/24") };
        assert!(web.fits(&headers));
        for other in [
            Filter { protocol: Some(17), ..web.clone() },
            Filter { ports: Some(80..=80), ..web.clone() },
            Filter { source_ports: Some(1..=999), ..web.clone() },
            Filter { dscp: Some(0), ..web.clone() },
            Filter { from: Some("10.0.0.0/8".parse().unwrap()), ..web.clone() },
        ] {
            assert!(!other.fits(&headers), "{other:?}");
        }
        let portless = Headers { ports: None, ..headers };
        assert!(!web.fits(&portless) && to("192.0.2.9/32").fits(&portless));
    }

    #[test]
    fn filters_overlap_where_a_packet_can_fit_both() {
        let low = Filter { ports: Some(1..=100), ..Filter::default() };
        let high = Filter { ports: Some(101..=200), ..Filter::default() };
        let tcp = Filter { protocol: Some(6), ..Filter::default() };
        assert!(!low.overlaps(&high) && low.overlaps(&tcp) && high.overlaps(&high) && Filter::default().overlaps(&low));
    }
}
