//! Telling the other end of changes of the limit that this end sets to its key as a daemon.

use icdc_protocol::Features;
use icdc_protocol::message::Message;
use icdc_units::Rate;

use crate::account::Account;

/// The limit of this end, as a daemon, as the other end knows it.
pub(crate) struct ToldLimit<'a> {
    account: &'a Account,
    told: Option<Rate>,
}

impl<'a> ToldLimit<'a> {
    /// The limit at the start of a session, as the answer to the request has
    /// [announced](Account::announce_max_rate) it.
    pub(crate) fn new(account: &'a Account) -> Self {
        Self { account, told: account.announced_max_rate() }
    }

    /// Message by which a peer with these features is told of a change; `None` if there is none, or the
    /// peer takes no changes: this end keeps the session to the limit all the same.
    pub(crate) fn due(&mut self, peer: Features) -> Option<Message> {
        let limit = self.account.max_rate();
        let has_changed = limit != std::mem::replace(&mut self.told, limit);
        (has_changed && peer.has(Features::KEY_CEILING)).then_some(Message::KeyCeiling(limit))
    }
}

#[cfg(test)]
mod tests {
    use icdc_units::Time;

    use super::*;

    #[test]
    fn a_limit_is_told_when_it_changes_to_those_that_take_it() {
        let rate = |bits| Some(Rate::from_bits_per_second(bits));
        let account = Account::new(Time::ORIGIN);
        account.set_max_rate(rate(9));
        assert_eq!(account.announce_max_rate(), rate(9));
        let mut told = ToldLimit::new(&account);
        assert_eq!(told.due(Features::OURS), None);
        account.set_max_rate(rate(0));
        assert_eq!(told.due(Features::OURS), Some(Message::KeyCeiling(rate(0))));
        account.set_max_rate(None);
        assert_eq!(told.due(Features::OURS), Some(Message::KeyCeiling(None)));
        account.set_max_rate(rate(9));
        assert_eq!(told.due(Features::OURS.without(Features::KEY_CEILING)), None);
    }
}
