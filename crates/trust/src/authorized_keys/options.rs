//! The options of a line: split, and read one by one.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::SystemTime;

use icdc_schedule::limit_schedule;
use icdc_units::ByteCount;

use super::access::{Access, Owner};
use super::expiry;
use super::grant::{Grant, Limits};
use super::sources::Sources;
use crate::PublicKey;
use crate::public_key::{KEY_TYPE, SSH_KEY_TYPE, is_other_ssh_type};

/// Names of OpenSSH's options that have no equivalent here.
const ONLY_OF_OPENSSH: [&str; 22] = [
    "agent-forwarding",
    "cert-authority",
    "command",
    "environment",
    "no-agent-forwarding",
    "no-port-forwarding",
    "no-pty",
    "no-touch-required",
    "no-user-rc",
    "no-x11-forwarding",
    "permitlisten",
    "permitopen",
    "port-forwarding",
    "principals",
    "pty",
    "restrict",
    "touch-required",
    "tunnel",
    "user-rc",
    "verify-required",
    "x11-forwarding",
    "zos-key-ring-label",
];

/// Options of a line, each at most once.
#[derive(Default)]
pub(super) struct Options {
    root: Option<PathBuf>,
    access: Option<fn(Owner) -> Access>,
    user: Option<String>,
    owners: Option<bool>,
    expires: Option<SystemTime>,
    from: Option<Sources>,
    limits: Limits,
}

impl Options {
    /// Parses the options of a line; returns them and the rest of the line.
    pub(super) fn read(line: &str) -> Result<(Self, &str), String> {
        let (written, rest) = split(line)?;
        let mut options = Self::default();
        for (name, value) in written {
            options.set(&name, value)?;
        }
        Ok((options, rest))
    }

    /// Grant for the key of the line, by its options.
    pub(super) fn grant(self, key: &PublicKey, comment: &str, line: usize) -> Result<Grant, String> {
        let root =
            self.root.ok_or("no root= option: say which directory the key may see, for example root=/srv/icdc")?;
        Ok(Grant {
            root,
            access: self.access.map_or(Access::Read, |access| access(*key.as_bytes())),
            user: self.user,
            owners: self.owners.unwrap_or(false),
            expires: self.expires,
            from: self.from,
            limits: self.limits,
            comment: comment.to_owned(),
            line,
        })
    }

    /// Sets the option `name`; an error if it is unknown, has a wrong value, or was set before.
    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        let limits = &mut self.limits;
        let again = match name {
            "root" if Path::new(&value).is_absolute() => self.root.replace(PathBuf::from(value)).is_some(),
            "root" => return Err(format!("root={value} is not an absolute path")),
            "rights" => {
                let access = Access::parse(&value);
                let access = access.ok_or_else(|| format!("rights={value}: expected r, w, rw or drop-box"))?;
                self.access.replace(access).is_some()
            }
            "user" if !value.is_empty() => self.user.replace(value).is_some(),
            "user" => return Err("user= names nobody".into()),
            "owner" if value == "keep" => self.owners.replace(true).is_some(),
            "owner" => return Err(format!("owner={value}: expected keep, or no such option")),
            "expires" => self.expires.replace(expiry::parse(&value)?).is_some(),
            "expiry-time" => self.expires.replace(expiry::parse_of_openssh(&value)?).is_some(),
            "from" => self.from.replace(Sources::parse(&value)?).is_some(),
            "max-rate" => {
                let schedule = limit_schedule(&value);
                let schedule =
                    schedule.map_err(|error| match value.starts_with(|first: char| first.is_ascii_digit()) {
                        true => format!("max-rate={value}: {error}"),
                        false => format!("max-rate={value}: {error}; for {QUOTED}"),
                    })?;
                limits.max_rate.replace(schedule).is_some()
            }
            "max-sessions" => {
                let number = value.parse::<NonZeroU32>();
                let number = number.map_err(|_| format!("max-sessions={value}: expected a number from 1"))?;
                limits.max_sessions.replace(number).is_some()
            }
            "bytes-per-day" => limits.bytes_per_day.replace(quantity(name, &value, ByteCount::ZERO)?).is_some(),
            "quota" => limits.quota.replace(quantity(name, &value, ByteCount::ZERO)?).is_some(),
            _ => return Err(unknown(name)),
        };
        if again { Err(format!("option {name} is given twice")) } else { Ok(()) }
    }
}

/// Parses a quantity that must be more than zero.
fn quantity<T: FromStr<Err: ToString> + PartialEq>(name: &str, value: &str, zero: T) -> Result<T, String> {
    match value.parse::<T>() {
        Ok(quantity) if quantity == zero => {
            Err(format!("{name}={value} allows nothing; to refuse the key, remove its line"))
        }
        Ok(quantity) => Ok(quantity),
        Err(error) => Err(format!("{name}={value}: {}", error.to_string())),
    }
}

/// Notation of rates over time as the value of an option.
const QUOTED: &str = "rates over time, which stand in quotes: max-rate=\"mon-fri 08:00-18:00=200mbit, else=1gbit\"";

/// Error for an option that is not supported.
fn unknown(name: &str) -> String {
    if ONLY_OF_OPENSSH.contains(&name) {
        return format!(
            "option {name} of OpenSSH has no meaning here; leave it out: a key has no shell, and reaches only files beneath \
             its root="
        );
    }
    if name == "else" {
        return format!("else belongs to {QUOTED}");
    }
    format!(
        "unknown option {name:?}: expected root=, rights=, user=, owner=, expires=, from=, max-rate=, max-sessions=, \
         bytes-per-day= or quota="
    )
}

/// An option as written: name in lower case, and value without quotes.
type NameValue = (String, String);

/// Splits `name=value,name="va lue" rest` into the options and the rest of the line.
fn split(line: &str) -> Result<(Vec<NameValue>, &str), String> {
    let mut options = Vec::new();
    let mut rest = line;
    // A type of key is not an option; an unsupported type is reported where the key is read.
    let is_type = |word: &str| word == KEY_TYPE || word == SSH_KEY_TYPE || is_other_ssh_type(word);
    if rest.split_whitespace().next().is_some_and(is_type) {
        return Ok((options, rest));
    }
    loop {
        let end = rest.find(|c: char| c == '=' || c == ',' || c.is_whitespace()).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        // OpenSSH takes them in any case.
        let lower = name.to_ascii_lowercase();
        let Some(after) = after.strip_prefix('=') else {
            if ONLY_OF_OPENSSH.contains(&lower.as_str()) {
                return Err(unknown(&lower));
            }
            return Err(format!("{name:?} is neither NAME=VALUE nor `{KEY_TYPE}` nor `{SSH_KEY_TYPE}`"));
        };
        let (value, after) = split_value(after)?;
        options.push((lower, value));
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None if after.is_empty() || after.starts_with(char::is_whitespace) => return Ok((options, after)),
            None => return Err(format!("expected a comma or a space after the value of {name}")),
        }
    }
}

/// Splits the value of an option, which may be quoted, from the rest of the line.
fn split_value(text: &str) -> Result<(String, &str), String> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(|c: char| c == ',' || c.is_whitespace()).unwrap_or(text.len());
        return Ok((text[..end].to_owned(), &text[end..]));
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((value, &quoted[at + 1..])),
            '\\' => match characters.next() {
                Some((_, escaped @ ('"' | '\\'))) => value.push(escaped),
                _ => return Err("a backslash within quotes stands before \" or \\ only".into()),
            },
            other => value.push(other),
        }
    }
    Err("a quote is not closed".into())
}
