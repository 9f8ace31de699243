//! Rules for owners as typed: `anna:bert,1000-1999:5000,*:nobody`, as rsync has them.

use icdc_filter::NamePattern;
use icdc_protocol::limits::MAX_OWNER_RULES;
use icdc_protocol::owners::{OwnerPattern, OwnerRule, OwnerTarget, is_account_name};

/// The rules of one `--usermap` or `--groupmap`, by which owners are replaced at the destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerRules(pub(crate) Vec<OwnerRule>);

/// Parses the rules of `--usermap` or `--groupmap`, between commas.
pub(crate) fn owner_rules(text: &str) -> Result<OwnerRules, String> {
    let rules = text.split(',').map(rule).collect::<Option<Vec<_>>>().ok_or_else(|| {
        "write FROM:TO between commas: FROM is a name, a pattern such as '*', a number, a range such as 1000-1999, or empty for \
         those without a name; TO is a name or a number at the destination"
            .to_owned()
    })?;
    match rules.len() <= MAX_OWNER_RULES {
        true => Ok(OwnerRules(rules)),
        false => Err(format!("at most {MAX_OWNER_RULES} rules can be given")),
    }
}

/// Parses one rule, `FROM:TO`; `None` if it is malformed.
fn rule(text: &str) -> Option<OwnerRule> {
    let (from, to) = text.split_once(':')?;
    Some(OwnerRule { from: pattern(from)?, to: target(to)? })
}

/// Parses the owners that a rule is about: a name, a pattern, numbers, or those without a name.
fn pattern(from: &str) -> Option<OwnerPattern> {
    if from.starts_with(|first: char| first.is_ascii_digit()) {
        let (first, last) = from.split_once('-').unwrap_or((from, from));
        let (first, last) = (number(first)?, number(last)?);
        return (first <= last).then_some(OwnerPattern::Ids { first, last });
    }
    if from.contains(['*', '?', '[']) {
        return NamePattern::parse(from.as_bytes()).map(|_| OwnerPattern::Names(from.into()));
    }
    match from {
        "" => Some(OwnerPattern::Nameless),
        name => is_account_name(name.as_bytes()).then(|| OwnerPattern::Name(name.into())),
    }
}

/// Parses the owner at the destination: a number or a name.
fn target(to: &str) -> Option<OwnerTarget> {
    match to.bytes().all(|byte| byte.is_ascii_digit()) {
        true => number(to).map(OwnerTarget::Id),
        false => is_account_name(to.as_bytes()).then(|| OwnerTarget::Name(to.into())),
    }
}

/// Parses the number of a user or group; `None` for the largest, which stands for none.
fn number(text: &str) -> Option<u32> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_number && *number != u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_rsync_reads_them() {
        let (name, id) = (|text: &str| OwnerPattern::Name(text.into()), |id| OwnerPattern::Ids { first: id, last: id });
        for (text, from, to) in [
            ("anna:bert", name("anna"), OwnerTarget::Name(b"bert".to_vec())),
            ("anna:7", name("anna"), OwnerTarget::Id(7)),
            ("0:nobody", id(0), OwnerTarget::Name(b"nobody".to_vec())),
            ("1000-1999:5000", OwnerPattern::Ids { first: 1000, last: 1999 }, OwnerTarget::Id(5000)),
            ("*:nobody", OwnerPattern::Names(b"*".to_vec()), OwnerTarget::Name(b"nobody".to_vec())),
            ("www-[ab]:www", OwnerPattern::Names(b"www-[ab]".to_vec()), OwnerTarget::Name(b"www".to_vec())),
            (":0", OwnerPattern::Nameless, OwnerTarget::Id(0)),
        ] {
            assert_eq!(owner_rules(text), Ok(OwnerRules(vec![OwnerRule { from, to }])), "{text}");
        }
        assert_eq!(owner_rules("a:b,c:d,*:e").map(|rules| rules.0.len()), Ok(3));
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for text in [
            "",
            "anna",
            "anna:",
            "9-5:1",
            "5-:1",
            "12x:1",
            "1-2-3:1",
            "4294967295:1",
            "a:4294967295",
            "[a:b",
            "a:b,",
            "a:b:c",
        ] {
            assert!(owner_rules(text).is_err(), "{text}");
        }
        assert!(owner_rules(&vec!["a:b"; MAX_OWNER_RULES + 1].join(",")).is_err());
    }
}
