//! A change of a setting.

use crate::sysctl;

/// A change of a kernel setting to a new value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Name of the setting.
    pub name: &'static str,
    /// Value that the setting is to have.
    pub to: Setting,
}

/// New value of a setting: least numbers, or an exact one. Limits are only ever raised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Each number is to be at least this.
    AtLeast(Vec<u64>),
    /// The setting is to be exactly this number.
    Exactly(u64),
}

impl Change {
    /// The numbers that `current` is to become; `None` if nothing is to be changed.
    pub(super) fn wanted(&self, current: &[u64]) -> Option<Vec<u64>> {
        let wanted = self.applied_to(current);
        (wanted != current).then_some(wanted)
    }

    /// The `sysctl` command that makes the change, given the current numbers.
    pub(crate) fn command(&self, current: &[u64]) -> String {
        let (name, value) = (self.name, sysctl::text(&self.applied_to(current)));
        if value.contains(' ') { format!("sysctl -w {name}='{value}'") } else { format!("sysctl -w {name}={value}") }
    }

    /// Numbers of the setting after the change, given the `current` ones.
    fn applied_to(&self, current: &[u64]) -> Vec<u64> {
        match &self.to {
            Setting::AtLeast(least) => current.iter().zip(least).map(|(now, least)| *now.max(least)).collect(),
            Setting::Exactly(value) => vec![*value],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_raised_and_never_lowered() {
        let change = Change { name: "net.ipv4.tcp_rmem", to: Setting::AtLeast(vec![0, 0, 7]) };
        assert_eq!(change.wanted(&[1, 2, 3]), Some(vec![1, 2, 7]));
        assert_eq!(change.wanted(&[1, 2, 9]), None);
        assert_eq!(change.command(&[1, 2, 3]), "sysctl -w net.ipv4.tcp_rmem='1 2 7'");
        let switch = Change { name: "net.ipv4.tcp_sack", to: Setting::Exactly(1) };
        assert_eq!((switch.wanted(&[0]), switch.wanted(&[1])), (Some(vec![1]), None));
        assert_eq!(switch.command(&[0]), "sysctl -w net.ipv4.tcp_sack=1");
    }
}
