//! Telling the sender of a pull of changes of the user's ceiling.

use icdc_protocol::Features;
use icdc_protocol::message::Message;
use icdc_units::Rate;

use crate::user_ceiling::UserCeiling;

/// The user's ceiling as this end has told it to the sender.
pub(super) struct ToldCeiling<'a> {
    ceiling: &'a UserCeiling,
    told: Option<Rate>,
}

impl<'a> ToldCeiling<'a> {
    /// The ceiling at the start of a session, whose request has told the [first](UserCeiling::first).
    pub(super) fn new(ceiling: &'a UserCeiling) -> Self {
        Self { ceiling, told: ceiling.first() }
    }

    /// Message by which a sender with these features is told of a change; `None` if there is no change,
    /// or the sender has not answered yet or takes none.
    pub(super) fn due(&mut self, sender: Features) -> Option<Message> {
        if sender == Features::NONE {
            return None;
        }
        let takes_changes = sender.has(Features::USER_CEILING);
        self.ceiling.set_out_of_reach(!takes_changes);
        let rate = self.ceiling.get();
        let is_due = takes_changes && rate != std::mem::replace(&mut self.told, rate);
        is_due.then_some(Message::UserCeiling(rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_told_once_to_a_sender_that_takes_it() {
        let rate = |bits| Some(Rate::from_bits_per_second(bits));
        let ceiling = UserCeiling::new(rate(9));
        let mut told = ToldCeiling::new(&ceiling);
        assert_eq!(told.due(Features::OURS), None);
        ceiling.set(rate(0));
        assert_eq!(told.due(Features::NONE), None, "it has not answered");
        assert!(!ceiling.is_out_of_reach());
        assert_eq!(told.due(Features::OURS), Some(Message::UserCeiling(rate(0))));
        assert_eq!(told.due(Features::OURS), None);
        ceiling.set(None);
        assert_eq!(told.due(Features::OURS), Some(Message::UserCeiling(None)));
        ceiling.set(rate(5));
        assert_eq!(told.due(Features::OURS.without(Features::USER_CEILING)), None);
        assert!(ceiling.is_out_of_reach());
    }
}
