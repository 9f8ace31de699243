//! Who may go where: rules in order, the first that fits decides.
//!
//! Where none fits: whoever has shown a key or a password is welcome from anywhere, and so is who comes to a forwarded
//! port or by the host's own routing, unless a rule names those who may come; all others are welcome from this host alone. SOCKS leads to public addresses
//! only, also where a relay further on is the one that resolves a name; an invitation alone does not change that.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use icdc_control::Prefix;

use super::private::is_private;
use super::{Listener, ListenerKind};

/// One rule. What is `None` fits everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Whether it lets pass.
    pub allow: bool,
    /// Listeners that it is for, by the word that a configuration has for them.
    pub listener: Option<String>,
    /// Where the client is.
    pub from: Option<Prefix>,
    /// Where the destination is.
    pub to: Option<Prefix>,
    /// Ports of the destination.
    pub ports: Option<RangeInclusive<u16>>,
}

/// All rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(pub Vec<Rule>);

/// What the rules say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// No.
    Denied,
    /// A rule says so.
    Allowed,
    /// No rule fits, and nothing else is against it.
    Open,
}

impl Rules {
    /// Whether a client may speak to a listener at all.
    #[must_use]
    pub fn admits(&self, listener: &Listener, client: IpAddr) -> bool {
        let here = self.0.iter().filter(|rule| rule.is_for(&listener.kind, client));
        for rule in here {
            match rule.allow {
                // Only some destinations are denied: the one that it wants is not known yet.
                false if rule.to.is_some() || rule.ports.is_some() => {}
                false => return false,
                // A rule about destinations alone is no invitation.
                true if rule.from.is_some() => return true,
                true => {}
            }
        }
        // Who has shown a key or a password is named by it; and what relays bring is judged by the client behind them.
        let names = |rule: &Rule| rule.allow && rule.from.is_some() && rule.is_about(&listener.kind);
        let is_by_list = !listener.kind.wants_proof() && self.0.iter().any(names);
        (listener.kind.is_open() && !is_by_list) || client.to_canonical().is_loopback()
    }

    /// Whether a client may reach an address. `public_only` is what a relay before has asked for.
    #[must_use]
    pub fn judge(&self, kind: &ListenerKind, client: IpAddr, destination: SocketAddr, public_only: bool) -> Decision {
        let is_guarded = (public_only || kind.is_socks()) && is_private(destination.ip());
        let fits = |rule: &&Rule| {
            rule.is_for(kind, client)
                && rule.to.is_none_or(|prefix| prefix.contains(destination.ip()))
                && rule.has_port(destination.port())
                // Who may come in may not for that reason go to what is guarded.
                && !(is_guarded && rule.allow && rule.is_for_all_destinations())
        };
        match self.0.iter().find(fits) {
            Some(rule) if rule.allow => Decision::Allowed,
            Some(_) => Decision::Denied,
            None if is_guarded || !is_at_home(kind, client) => Decision::Denied,
            None => Decision::Open,
        }
    }

    /// The same for a name that the next relay will resolve, where no rule [needs its address](Self::need_address).
    #[must_use]
    pub fn judge_name(&self, kind: &ListenerKind, client: IpAddr, port: u16) -> Decision {
        let fits = |rule: &&Rule| rule.is_for(kind, client) && rule.to.is_none() && rule.has_port(port);
        match self.0.iter().find(fits) {
            Some(rule) if !rule.allow => Decision::Denied,
            None if !is_at_home(kind, client) => Decision::Denied,
            _ => Decision::Open,
        }
    }

    /// Whether what becomes of a name depends on its address: one that is denied has many names, among them its own
    /// digits in other notations, and who is invited to some addresses alone may name only these.
    #[must_use]
    pub fn need_address(&self, kind: &ListenerKind, client: IpAddr) -> bool {
        let depends = |rule: &Rule| rule.to.is_some() && (!rule.allow || rule.from.is_some());
        self.0.iter().any(|rule| rule.is_for(kind, client) && depends(rule))
    }
}

/// Whether a client may go where no rule says anything. A stranger that rules have let in to SOCKS may not: it goes where
/// they say.
fn is_at_home(kind: &ListenerKind, client: IpAddr) -> bool {
    !kind.is_socks() || kind.is_open() || client.to_canonical().is_loopback()
}

impl Rule {
    fn is_for(&self, kind: &ListenerKind, client: IpAddr) -> bool {
        self.is_about(kind) && self.from.is_none_or(|prefix| prefix.contains(client))
    }

    fn is_about(&self, kind: &ListenerKind) -> bool {
        self.listener.as_deref().is_none_or(|word| word == kind.word())
    }

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
    fn strangers_need_an_invitation() {
        assert!(rules(&[]).admits(&socks(), address("127.0.0.1")));
        assert!(!rules(&[]).admits(&socks(), address("192.0.2.1")));
        assert!(rules(&[(true, "192.0.2.0/24", "")]).admits(&socks(), address("192.0.2.1")));
        assert!(!rules(&[(true, "", "198.51.100.0/24")]).admits(&socks(), address("192.0.2.1")));
        assert!(!rules(&[(false, "127.0.0.0/8", "")]).admits(&socks(), address("127.0.0.1")));
        assert!(rules(&[(false, "127.0.0.0/8", "10.0.0.0/8")]).admits(&socks(), address("127.0.0.1")));
    }

    #[test]
    fn a_forwarded_port_is_for_those_who_are_named() {
        let kind = ListenerKind::Transparent;
        let door = Listener { address: ([0, 0, 0, 0], 2635).into(), kind };
        let stranger = address("198.51.100.1");
        assert!(rules(&[]).admits(&door, stranger));
        assert!(rules(&[(true, "", "192.0.2.0/24"), (false, "203.0.113.0/24", "")]).admits(&door, stranger));
        let named = rules(&[(true, "192.0.2.0/24", "")]);
        assert!(named.admits(&door, address("192.0.2.1")) && named.admits(&door, address("::1")));
        assert!(!named.admits(&door, stranger));
        let of_another_kind = Rules(vec![Rule { listener: Some("peer".to_owned()), ..named.0[0].clone() }]);
        assert!(of_another_kind.admits(&door, stranger));
    }

    #[test]
    fn the_first_rule_that_fits_decides_and_socks_stays_outside() {
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
    fn an_invitation_opens_no_more_than_it_says() {
        let stranger = address("192.0.2.1");
        let judge =
            |rules: &Rules, to: &str| rules.judge(&socks().kind, stranger, SocketAddr::new(address(to), 80), false);
        let anywhere = rules(&[(true, "192.0.2.0/24", "")]);
        assert_eq!(judge(&anywhere, "198.51.100.1"), Decision::Allowed);
        assert_eq!(judge(&anywhere, "10.0.0.1"), Decision::Denied);
        assert_eq!(anywhere.judge_name(&socks().kind, stranger, 80), Decision::Open);
        let somewhere = rules(&[(true, "192.0.2.0/24", "10.0.0.0/8")]);
        assert_eq!(judge(&somewhere, "10.0.0.1"), Decision::Allowed);
        assert_eq!(judge(&somewhere, "198.51.100.1"), Decision::Denied);
        assert_eq!(somewhere.judge_name(&socks().kind, stranger, 80), Decision::Denied);
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
