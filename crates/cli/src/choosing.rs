//! The choice of what is copied, made from its options and the files that they name.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, anyhow, ensure};
use icdc_filter::{Form, Line, Rule, read_file};
use icdc_protocol::limits::{MAX_PATH, MAX_RULE_BYTES, MAX_RULES};
use icdc_protocol::message::Choice;

use crate::arguments::{ChoosingArguments, RuleArguments};
use crate::rules::RuleArgument;

/// Longest file of rules that is read in bytes, comments included.
const MAX_FILE: u64 = 16 << 20;

/// Makes the choice of what is copied from its options, and reads the files of rules that they
/// name.
///
/// # Errors
/// A file that cannot be read, or is no file of rules; too many rules.
pub(crate) fn choice(arguments: &ChoosingArguments) -> anyhow::Result<Choice> {
    let ChoosingArguments { rules, min_size, max_size, newer_than, older_than, one_file_system, exclude_caches } =
        arguments;
    if let (Some(least), Some(most)) = (min_size, max_size) {
        ensure!(least <= most, "--min-size {least} and --max-size {most} leave out every file");
    }
    if let (Some(after), Some(before)) = (newer_than, older_than) {
        ensure!(
            after < before,
            "--newer-than and --older-than leave out every file: the first is not before the second"
        );
    }
    Ok(Choice {
        rules: rules_of(rules)?,
        min_size: *min_size,
        max_size: *max_size,
        newer_than: *newer_than,
        older_than: *older_than,
        one_file_system: *one_file_system,
        exclude_caches: *exclude_caches,
    })
}

/// Bytes that rules take in a request to a far end, at most.
pub(crate) fn rule_bytes(rules: &[Rule]) -> usize {
    rules.iter().map(|rule| rule.pattern.len() + 4).sum()
}

/// Makes the rules of these options, and reads the files that they need.
///
/// # Errors
/// A file that cannot be read, or is no file of rules; too many rules.
pub(crate) fn rules_of(RuleArguments(arguments): &RuleArguments) -> anyhow::Result<Vec<Rule>> {
    let mut rules = Vec::new();
    for argument in arguments {
        match argument {
            RuleArgument::One(Line::Rule(rule)) => rules.push(rule.clone()),
            RuleArgument::One(Line::Clear) => rules.clear(),
            RuleArgument::One(Line::Nothing) => {}
            RuleArgument::File { option, path, form } => {
                add_file(path, *form, &mut rules).with_context(|| format!("{option} {}", path.display()))?;
            }
        }
    }
    let bytes = rule_bytes(&rules);
    ensure!(rules.len() <= MAX_RULES, "{} rules are too many; the most is {MAX_RULES}", rules.len());
    ensure!(
        bytes <= MAX_RULE_BYTES,
        "the rules are too long together ({bytes} bytes with 4 for each; the most is {MAX_RULE_BYTES})"
    );
    let longest = rules.iter().map(|rule| rule.pattern.len()).max().unwrap_or(0);
    ensure!(longest <= MAX_PATH, "a pattern of {longest} bytes is longer than any path; the most is {MAX_PATH}");
    Ok(rules)
}

/// Reads a file of rules, or standard input for `-`, and appends them to `rules`.
fn add_file(path: &Path, form: Form, rules: &mut Vec<Rule>) -> anyhow::Result<()> {
    let mut text = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(MAX_FILE + 1).read_to_end(&mut text)
    } else {
        File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut text))
    };
    let length = read.map_err(|error| anyhow!("cannot be read: {error}"))?;
    ensure!(length as u64 <= MAX_FILE, "is longer than {MAX_FILE} bytes, which is no file of rules");
    Ok(read_file(&text, form, rules)?)
}
