//! Changes of modes as typed: `D2755,F644`, `Du=rwx,go=rX`, as rsync and chmod(1) write them.

use icdc_disk::tree::umask;
use icdc_protocol::limits::MAX_MODE_CHANGES;
use icdc_protocol::message::ModeChange;
use icdc_protocol::mode_change::{ChangedItems, Copied, CopiedBits, Execution, UserClass};

/// The changes of one `--chmod`, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModeChanges(pub(crate) Vec<ModeChange>);

/// All bits of a mode that can be changed: permissions, set-id bits, sticky bit.
const ALL_BITS: u16 = 0o7777;
const SET_USER_ID: u16 = 0o4000;
const SET_GROUP_ID: u16 = 0o2000;
const STICKY: u16 = 0o1000;

/// Parses changes between commas. Letters without `u`, `g`, `o` or `a` do not set what this user's
/// umask takes away, as with chmod(1).
pub(crate) fn mode_changes(text: &str) -> Result<ModeChanges, String> {
    let changes = text.split(',').map(|change| self::change(change, umask())).collect::<Option<Vec<_>>>();
    let changes = changes.ok_or_else(|| {
        "write changes of modes between commas, such as D2755,F644 or Du=rwx,go=rX: D for directories or F for others, then \
         digits, or letters as for chmod"
            .to_owned()
    })?;
    match changes.len() <= MAX_MODE_CHANGES {
        true => Ok(ModeChanges(changes)),
        false => Err(format!("at most {MAX_MODE_CHANGES} changes of modes can be made")),
    }
}

/// Whether one of these changes gives set-id bits to files.
pub(crate) fn gives_set_id(changes: &[ModeChange]) -> bool {
    changes.iter().any(|change| change.is_of(false) && change.set & (SET_USER_ID | SET_GROUP_ID) != 0)
}

/// Parses one change; `None` if it is malformed.
fn change(text: &str, umask: u16) -> Option<ModeChange> {
    let named = text.trim_start_matches(['D', 'F']);
    let of = match &text[..text.len() - named.len()] {
        "" => ChangedItems::All,
        letters if letters.bytes().all(|letter| letter == b'D') => ChangedItems::Directories,
        letters if letters.bytes().all(|letter| letter == b'F') => ChangedItems::Others,
        _ => return None,
    };
    let plain = ModeChange { of, kept: 0, set: 0, execution: Execution::Given, copied: None };
    if named.starts_with(|first: char| first.is_ascii_digit()) {
        let digits = named.bytes().all(|digit| digit.is_ascii_digit());
        let mode = u16::from_str_radix(named, 8).ok().filter(|mode| digits && *mode <= ALL_BITS)?;
        return Some(ModeChange { set: mode, ..plain });
    }
    let (users, operation, what) = split(named)?;
    let users = Users::parse(users)?;
    let copied = |from| match operation {
        Operation::Take => CopiedBits { from, to: users.bits(0o7, umask), how: Copied::Taken },
        _ => CopiedBits { from, to: users.bits(0o7, umask), how: Copied::Given },
    };
    let given = match copied_class(what) {
        Some(from) => {
            let cleared = if operation == Operation::Become { users.all() | users.special() } else { 0 };
            return Some(ModeChange { kept: ALL_BITS & !cleared, copied: Some(copied(from)), ..plain });
        }
        None => Given::parse(what, users)?,
    };
    let bits = users.bits(given.permissions, umask) | given.special;
    let (kept, set) = match operation {
        Operation::Give => (ALL_BITS, bits),
        Operation::Take => (ALL_BITS & !bits, 0),
        Operation::Become => {
            let special = if given.special == 0 { 0 } else { users.set_id() };
            (ALL_BITS & !users.all() & !special, bits)
        }
    };
    Some(ModeChange { kept, set, execution: given.execution, ..plain })
}

/// Operator of a change in letters: `+`, `-` or `=`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Give,
    Take,
    Become,
}

/// Splits a change in letters into users, operator and permissions; `None` without an operator.
fn split(text: &str) -> Option<(&str, Operation, &str)> {
    let at = text.find(['+', '-', '='])?;
    let operation = match text.as_bytes()[at] {
        b'+' => Operation::Give,
        b'-' => Operation::Take,
        _ => Operation::Become,
    };
    Some((&text[..at], operation, &text[at + 1..]))
}

/// The class of users whose permissions are copied, if `what` names one (`u`, `g`, `o`) in place of
/// permissions.
fn copied_class(what: &str) -> Option<UserClass> {
    match what {
        "u" => Some(UserClass::Owner),
        "g" => Some(UserClass::Group),
        "o" => Some(UserClass::Others),
        _ => None,
    }
}

/// The users that a change is about, one bit each where their execute permission is; 0 for all but
/// what the umask takes away.
#[derive(Clone, Copy)]
struct Users(u16);

impl Users {
    /// Parses the letters `u`, `g`, `o` and `a`; `None` for any other.
    fn parse(letters: &str) -> Option<Self> {
        let class = |letter| match letter {
            'u' => Some(0o100),
            'g' => Some(0o010),
            'o' => Some(0o001),
            'a' => Some(0o111),
            _ => None,
        };
        letters.chars().try_fold(0, |all, letter| Some(all | class(letter)?)).map(Self)
    }

    /// One bit for each class that is meant; all three where none is named.
    fn classes(self) -> u16 {
        if self.0 == 0 { 0o111 } else { self.0 }
    }

    /// Permission bits that belong to these users.
    fn all(self) -> u16 {
        self.classes() * 0o7
    }

    /// These permissions (0 to 7) as bits of these users; those that the umask takes away only
    /// where users are named.
    fn bits(self, permissions: u16, umask: u16) -> u16 {
        let bits = self.classes() * permissions;
        if self.0 == 0 { bits & !umask } else { bits }
    }

    /// Set-id bits of the users that are named; none where none is.
    fn set_id(self) -> u16 {
        let bit = |class: u16, bit| if self.0 & class == 0 { 0 } else { bit };
        bit(0o100, SET_USER_ID) | bit(0o010, SET_GROUP_ID)
    }

    /// Set-id and sticky bits that belong to these users.
    fn special(self) -> u16 {
        let bit = |class: u16, bit| if self.classes() & class == 0 { 0 } else { bit };
        bit(0o100, SET_USER_ID) | bit(0o010, SET_GROUP_ID) | bit(0o001, STICKY)
    }
}

/// Meaning of the letters behind the operator, such as `rwX` or `st`.
struct Given {
    /// Permissions, from 0 to 7.
    permissions: u16,
    /// Set-id and sticky bits.
    special: u16,
    execution: Execution,
}

impl Given {
    /// Parses the letters behind the operator; `None` for an unknown one.
    fn parse(letters: &str, users: Users) -> Option<Self> {
        let mut given = Self { permissions: 0, special: 0, execution: Execution::Given };
        for letter in letters.chars() {
            match letter {
                'r' => given.permissions |= 4,
                'w' => given.permissions |= 2,
                'x' => given.permissions |= 1,
                'X' => {
                    given.permissions |= 1;
                    given.execution = Execution::IfExecutable;
                }
                's' if users.set_id() == 0 => given.special |= SET_USER_ID,
                's' => given.special |= users.set_id(),
                't' => given.special |= STICKY,
                _ => return None,
            }
        }
        Some(given)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails says where")]

    use icdc_protocol::mode_change::changed;

    use super::*;

    /// Modes of a file and of a directory after these changes, with a umask of 022.
    fn modes(text: &str, mode: u16) -> (u16, u16) {
        let changes: Vec<_> = text.split(',').map(|text| change(text, 0o022).unwrap()).collect();
        (changed(&changes, mode, false), changed(&changes, mode, true))
    }

    #[test]
    fn digits_and_letters_mean_what_they_mean_to_rsync() {
        for (text, mode, file, directory) in [
            ("D2755,F644", 0o700, 0o644, 0o2755),
            ("Du=rwx,go=rx,Fu=rw,go=r", 0o000, 0o644, 0o744),
            ("u=rwx,go=rX", 0o644, 0o744, 0o755),
            ("u=rwX,go=rX", 0o600, 0o644, 0o755),
            ("u=rwX,go=rX", 0o710, 0o755, 0o755),
            ("a-x", 0o4755, 0o4644, 0o4644),
            ("+w", 0o444, 0o644, 0o644),
            ("=w", 0o777, 0o200, 0o200),
            ("a+w", 0o444, 0o666, 0o666),
            ("g=u", 0o2741, 0o771, 0o771),
            ("go-u", 0o577, 0o522, 0o522),
            ("o=g", 0o1750, 0o755, 0o755),
            ("u+s,g+s", 0o755, 0o6755, 0o6755),
            ("a+s", 0o755, 0o6755, 0o6755),
            ("+s", 0o755, 0o4755, 0o4755),
            ("g=rxs", 0o4755, 0o6755, 0o6755),
            ("g=rx", 0o2755, 0o2755, 0o2755),
            ("+t", 0o755, 0o1755, 0o1755),
            ("u=", 0o755, 0o055, 0o055),
            ("F0", 0o755, 0, 0o755),
            ("DDg+w", 0o755, 0o755, 0o775),
        ] {
            let found = modes(text, mode);
            assert_eq!(found, (file, directory), "{text} {mode:o}: {:o} {:o}", found.0, found.1);
        }
    }

    #[test]
    fn what_is_no_change_is_refused() {
        for text in
            ["", ",", "D", "F", "DF644", "x", "u", "8", "10000", "u=8", "q+r", "u=rg", "u=ug", "644x", "u+r,", "D,F644"]
        {
            assert!(mode_changes(text).is_err(), "{text}");
        }
        assert!(mode_changes(&["a+r"; MAX_MODE_CHANGES + 1].join(",")).is_err());
    }

    #[test]
    fn set_id_bits_of_files_are_noticed() {
        for (text, expected) in [("D2755", false), ("2755", true), ("Fu+s", true), ("D+s", false), ("a-s", false)] {
            assert_eq!(gives_set_id(&mode_changes(text).unwrap().0), expected, "{text}");
        }
    }
}
