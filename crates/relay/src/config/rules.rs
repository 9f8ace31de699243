//! Access rules: in order, the first that matches decides.
//!
//! Where none matches:
//!
//! * Clients that have shown a key or a password are admitted from anywhere. So are those of a
//!   forwarded port and of a transparent listener, unless a rule allows clients by their address.
//!   All others are admitted from this host alone.
//! * SOCKS leads to public addresses only, also where a later relay resolves the name. A rule that
//!   admits a client does not change that.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use icdc_units::Prefix;

use super::listener::{Listener, ListenerKind};
use super::private::is_private;

/// A rule. A condition that is `None` matches everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Whether the rule allows what it matches; otherwise it denies it.
    pub allow: bool,
    /// Kind of the listener, by its name in configurations; `None` matches all.
    pub listener: Option<String>,
    /// Prefix of the client's address; `None` matches all.
    pub from: Option<Prefix>,
    /// Prefix of the destination's address; `None` matches all.
    pub to: Option<Prefix>,
    /// Range of the destination's port; `None` matches all.
    pub ports: Option<RangeInclusive<u16>>,
}

/// All access rules, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(pub Vec<Rule>);

/// Decision of the access rules about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A rule denies it, or the default does.
    Denied,
    /// The rules allow the connection.
    Allowed,
    /// No rule matches, and the default allows it.
    Open,
}

impl Rules {
    /// Whether a client may connect to a listener at all.
    #[must_use]
    pub fn admits(&self, listener: &Listener, client: IpAddr) -> bool {
        let here = self.0.iter().filter(|rule| rule.matches_client(&listener.kind, client));
        for rule in here {
            match rule.allow {
                // It denies some destinations only, and this client's is not known yet.
                false if rule.to.is_some() || rule.ports.is_some() => {}
                false => return false,
                // A rule about destinations alone admits no client.
                true if rule.from.is_some() => return true,
                true => {}
            }
        }
        // Clients that authenticate need no rule; and clients of other relays are judged by their
        // own address.
        let names = |rule: &Rule| rule.allow && rule.from.is_some() && rule.is_about(&listener.kind);
        let is_by_list = !listener.kind.requires_authentication() && self.0.iter().any(names);
        (listener.kind.is_open() && !is_by_list) || client.to_canonical().is_loopback()
    }

    /// Decides whether a client may reach an address: by the first rule that matches, or else by
    /// the default of the listener's kind. Private addresses are closed to clients of SOCKS, and if
    /// `public_only`, which an earlier relay requests for such a client: only a rule that names
    /// destinations or ports allows them.
    #[must_use]
    pub fn judge(&self, kind: &ListenerKind, client: IpAddr, destination: SocketAddr, public_only: bool) -> Decision {
        let is_restricted = (public_only || kind.is_socks()) && is_private(destination.ip());
        let matches = |rule: &&Rule| {
            rule.matches_client(kind, client)
                && rule.to.is_none_or(|prefix| prefix.contains(destination.ip()))
                && rule.has_port(destination.port())
                // A rule that admits a client does not open private addresses to it.
                && !(is_restricted && rule.allow && rule.is_for_all_destinations())
        };
        match self.0.iter().find(matches) {
            Some(rule) if rule.allow => Decision::Allowed,
            Some(_) => Decision::Denied,
            None if is_restricted || !is_allowed_by_default(kind, client) => Decision::Denied,
            None => Decision::Open,
        }
    }

    /// Decides whether a client may reach a name that the next relay will resolve, where no rule
    /// [needs its address](Self::need_address).
    #[must_use]
    pub fn judge_name(&self, kind: &ListenerKind, client: IpAddr, port: u16) -> Decision {
        let matches = |rule: &&Rule| rule.matches_client(kind, client) && rule.to.is_none() && rule.has_port(port);
        match self.0.iter().find(matches) {
            Some(rule) if !rule.allow => Decision::Denied,
            None if !is_allowed_by_default(kind, client) => Decision::Denied,
            _ => Decision::Open,
        }
    }

    /// Whether a destination given by name must be resolved before the rules can decide: an address
    /// that is denied has many names, among them its own digits in other notations, and a client
    /// that is admitted to some addresses alone may name only these.
    #[must_use]
    pub fn need_address(&self, kind: &ListenerKind, client: IpAddr) -> bool {
        let depends = |rule: &Rule| rule.to.is_some() && (!rule.allow || rule.from.is_some());
        self.0.iter().any(|rule| rule.matches_client(kind, client) && depends(rule))
    }
}

/// Whether a client may reach destinations that no rule mentions. A SOCKS client that only a rule
/// admits may not.
fn is_allowed_by_default(kind: &ListenerKind, client: IpAddr) -> bool {
    !kind.is_socks() || kind.is_open() || client.to_canonical().is_loopback()
}

impl Rule {
    /// Whether the rule is about listeners of this kind and clients of this address.
    fn matches_client(&self, kind: &ListenerKind, client: IpAddr) -> bool {
        self.is_about(kind) && self.from.is_none_or(|prefix| prefix.contains(client))
    }

    /// Whether the rule is about listeners of this kind.
    fn is_about(&self, kind: &ListenerKind) -> bool {
        self.listener.as_deref().is_none_or(|name| name == kind.name())
    }

    /// Whether the rule names neither destinations nor ports.
    fn is_for_all_destinations(&self) -> bool {
        self.to.is_none() && self.ports.is_none()
    }

    fn has_port(&self, port: u16) -> bool {
        self.ports.as_ref().is_none_or(|ports| ports.contains(&port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(lines: &[(bool, &str, &str)]) -> Rules {
        let prefix = |text: &str| (!text.is_empty()).then(|| text.parse().expect(text));
        let rule = |&(allow, from, to): &(bool, &str, &str)| Rule {
            allow,
            listener: None,
            from: prefix(from),
            to: prefix(to),
            ports: None,
        };
        Rules(lines.iter().map(rule).collect())
    }

    fn socks() -> Listener {
        Listener { address: ([0, 0, 0, 0], 1080).into(), kind: ListenerKind::Socks5(None) }
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect(text)
    }

    #[test]
    fn other_hosts_need_a_rule() {
        assert!(rules(&[]).admits(&socks(), address("127.0.0.1")));
        assert!(!rules(&[]).admits(&socks(), address("192.0.2.1")));
        assert!(rules(&[(true, "192.0.2.0/24", "")]).admits(&socks(), address("192.0.2.1")));
        assert!(!rules(&[(true, "", "198.51.100.0/24")]).admits(&socks(), address("192.0.2.1")));
        assert!(!rules(&[(false, "127.0.0.0/8", "")]).admits(&socks(), address("127.0.0.1")));
        assert!(rules(&[(false, "127.0.0.0/8", "10.0.0.0/8")]).admits(&socks(), address("127.0.0.1")));
    }

    #[test]
    fn a_forwarded_port_is_for_clients_that_are_named() {
        let kind = ListenerKind::Transparent;
        let listener = Listener { address: ([0, 0, 0, 0], 2635).into(), kind };
        let client = address("198.51.100.1");
        assert!(rules(&[]).admits(&listener, client));
        assert!(rules(&[(true, "", "192.0.2.0/24"), (false, "203.0.113.0/24", "")]).admits(&listener, client));
        let named = rules(&[(true, "192.0.2.0/24", "")]);
        assert!(named.admits(&listener, address("192.0.2.1")) && named.admits(&listener, address("::1")));
        assert!(!named.admits(&listener, client));
        let of_another_kind = Rules(vec![Rule { listener: Some("peer".to_owned()), ..named.0[0].clone() }]);
        assert!(of_another_kind.admits(&listener, client));
    }

    #[test]
    fn the_first_rule_that_matches_decides_and_socks_stays_outside() {
        let judge = |rules: &Rules, to: &str| {
            rules.judge(&socks().kind, address("127.0.0.1"), SocketAddr::new(address(to), 80), false)
        };
        assert_eq!(judge(&rules(&[]), "192.0.2.1"), Decision::Open);
        assert_eq!(judge(&rules(&[]), "10.0.0.1"), Decision::Denied);
        let some = rules(&[(false, "", "10.1.0.0/16"), (true, "", "10.0.0.0/8")]);
        assert_eq!(judge(&some, "10.0.0.1"), Decision::Allowed);
        assert_eq!(judge(&some, "10.1.0.1"), Decision::Denied);
    }

    #[test]
    fn a_rule_that_admits_a_client_opens_no_more() {
        let client = address("192.0.2.1");
        let judge =
            |rules: &Rules, to: &str| rules.judge(&socks().kind, client, SocketAddr::new(address(to), 80), false);
        let anywhere = rules(&[(true, "192.0.2.0/24", "")]);
        assert_eq!(judge(&anywhere, "198.51.100.1"), Decision::Allowed);
        assert_eq!(judge(&anywhere, "10.0.0.1"), Decision::Denied);
        assert_eq!(anywhere.judge_name(&socks().kind, client, 80), Decision::Open);
        let somewhere = rules(&[(true, "192.0.2.0/24", "10.0.0.0/8")]);
        assert_eq!(judge(&somewhere, "10.0.0.1"), Decision::Allowed);
        assert_eq!(judge(&somewhere, "198.51.100.1"), Decision::Denied);
        assert_eq!(somewhere.judge_name(&socks().kind, client, 80), Decision::Denied);
        assert_eq!(rules(&[]).judge_name(&socks().kind, address("127.0.0.1"), 80), Decision::Open);
    }

    #[test]
    fn names_are_resolved_where_a_rule_is_about_addresses() {
        let needs = |lines: &[(bool, &str, &str)]| rules(lines).need_address(&socks().kind, address("192.0.2.1"));
        assert!(needs(&[(false, "", "198.51.100.66/32")]));
        assert!(needs(&[(true, "192.0.2.0/24", "198.51.100.0/24")]));
        assert!(!needs(&[(false, "203.0.113.0/24", "198.51.100.66/32")]));
        assert!(!needs(&[(true, "", "198.51.100.0/24"), (true, "192.0.2.0/24", ""), (false, "192.0.2.7/32", "")]));
    }
}
