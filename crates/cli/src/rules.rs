//! Options that give rules over paths: what may be written as their values, and what it means.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use icdc_filter::{Effect, Form, Line, Rule, Rules, parse_rule};

/// Value of an option that gives rules over paths (`--include`, `--exclude`, `--filter` and their
/// files).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RuleArgument {
    /// One rule, or that those before it are taken back.
    One(Line),
    /// A file of rules.
    File {
        /// The option that names it.
        option: &'static str,
        path: PathBuf,
        form: Form,
    },
}

/// Parses the pattern of `--include` or `--exclude`. What begins as a rule of another kind is
/// refused: it would do the opposite, or nothing, without a word.
pub(crate) fn pattern_rule(effect: Effect, text: OsString) -> Result<RuleArgument, String> {
    let pattern = text.into_vec();
    let shown = String::from_utf8_lossy(&pattern);
    if let Some(rest) = shown.strip_prefix('!') {
        return Err(format!(
            "! takes nothing back here: write --include 'PATTERN' before what excludes it; for names that begin with ! write \
             '[\\!]{rest}'"
        ));
    }
    for (prefix, option) in [("- ", "--exclude"), ("+ ", "--include")] {
        if let Some(rest) = shown.strip_prefix(prefix) {
            let letter = &prefix[..1];
            return Err(format!(
                "write {option} '{rest}', or --filter '{shown}'; for names that begin with it write '[{letter}] {rest}'"
            ));
        }
    }
    let rule = Rule { effect, pattern };
    match Rules::compile(std::slice::from_ref(&rule)) {
        Ok(_) => Ok(RuleArgument::One(Line::Rule(rule))),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses the rule of `--filter`.
pub(crate) fn filter_rule(text: OsString) -> Result<RuleArgument, String> {
    let text = text.into_vec();
    match parse_rule(&text, Form::Rules).map_err(|error| error.to_string())? {
        Line::Rule(rule) if rule.pattern == text => {
            Err("it is a pattern: write '- PATTERN' to exclude, '+ PATTERN' to include".into())
        }
        line => Ok(RuleArgument::One(line)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_is_another_rule_is_refused() {
        let exclude = |text: &str| pattern_rule(Effect::Exclude, text.into());
        for text in ["*.o", "[!a]*", "[\\!]a", "-x"] {
            let rule = Rule { effect: Effect::Exclude, pattern: text.into() };
            assert_eq!(exclude(text), Ok(RuleArgument::One(Line::Rule(rule))), "{text}");
        }
        for text in ["", "!*.nc", "!", "- *.o", "+ *.nc"] {
            assert!(exclude(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_filter_rule_says_what_it_does() {
        let filter = |text: &str| filter_rule(text.into());
        let rule = |effect| Ok(RuleArgument::One(Line::Rule(Rule { effect, pattern: b"*.o".to_vec() })));
        assert_eq!(filter("- *.o"), rule(Effect::Exclude));
        assert_eq!(filter("+ *.o"), rule(Effect::Include));
        assert_eq!(filter("exclude *.o"), rule(Effect::Exclude));
        assert_eq!(filter("!"), Ok(RuleArgument::One(Line::Clear)));
        for text in ["", "*.o", "a b", "merge x", "P x", "-", "- ", "# x"] {
            assert!(filter(text).is_err(), "{text}");
        }
    }
}
