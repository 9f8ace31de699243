//! The mapping of owners at the destination, from a copy's command line.

use anyhow::ensure;
use icdc_filter::NamePattern;
use icdc_protocol::message::OwnerMapping;
use icdc_protocol::owners::{OwnerPattern, OwnerRule, OwnersBy};

use crate::applies::Hosts;
use crate::arguments::CopyArguments;
use crate::owner_rules::OwnerRules;

/// Mapping of owners from the source to the destination of a copy between these hosts; every error
/// is one of usage.
pub(super) fn mapping(arguments: &CopyArguments, hosts: Hosts) -> anyhow::Result<OwnerMapping> {
    let sets_owners = arguments.preserve.owner || arguments.preserve.acl;
    for (option, is_given) in [("--usermap", arguments.usermap.is_some()), ("--groupmap", arguments.groupmap.is_some())]
    {
        ensure!(
            !is_given || sets_owners,
            "{option} is about owners, and --preserve leaves them out: add owner to its list"
        );
    }
    if !sets_owners {
        return Ok(OwnerMapping::default());
    }
    // Within one host a number and its name are the same user.
    let by = if arguments.numeric_ids || hosts.is_empty() { OwnersBy::Numbers } else { OwnersBy::Names };
    let rules = |option: &str, rules: &Option<OwnerRules>| match rules {
        Some(rules) if arguments.numeric_ids => rules.0.iter().map(|rule| without_names(option, rule)).collect(),
        Some(rules) => Ok(rules.0.clone()),
        None => Ok(Vec::new()),
    };
    Ok(OwnerMapping {
        by,
        users: rules("--usermap", &arguments.usermap)?,
        groups: rules("--groupmap", &arguments.groupmap)?,
    })
}

/// The rule as it applies with `--numeric-ids`, where no owner has a name; an error for a rule
/// about a name.
fn without_names(option: &str, rule: &OwnerRule) -> anyhow::Result<OwnerRule> {
    let matches_all = match &rule.from {
        OwnerPattern::Ids { .. } => return Ok(rule.clone()),
        OwnerPattern::Nameless => true,
        OwnerPattern::Name(_) => false,
        OwnerPattern::Names(pattern) => NamePattern::parse(pattern).is_some_and(|pattern| pattern.matches(b"")),
    };
    ensure!(
        matches_all,
        "{option}: a rule begins with a name, and with --numeric-ids no names are told: write numbers, or leave --numeric-ids out"
    );
    Ok(OwnerRule { from: OwnerPattern::Ids { first: 0, last: u32::MAX - 1 }, to: rule.to.clone() })
}
