//! Files of rules, with the syntax of rsync's merge files and lists of patterns.

use crate::{Effect, PatternError, Rule, compile};

/// Syntax of the lines of a file of rules, or of one option's rule: rsync's rules (`+ PATTERN`,
/// `- PATTERN`), or patterns that have one effect. In all forms, empty lines and those that begin
/// with `#` or `;` are left out, and `!` alone takes back all rules before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Rules: `+ PATTERN` or `include PATTERN`, `- PATTERN` or `exclude PATTERN`. A line that is
    /// only a pattern excludes. Other rules of rsync are refused.
    Rules,
    /// Patterns with this effect, but for those that begin with `+ ` and `- `.
    Patterns(Effect),
}

/// Result of reading one line of a file of rules, or one option that gives a rule. An
/// option is never [`Line::Nothing`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The line is empty or a comment.
    Nothing,
    /// The rules before this one are taken back.
    Clear,
    /// A rule.
    Rule(Rule),
}

/// Reason why a line of a file, or the text of an option, is no include or exclude rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The pattern cannot be compiled.
    #[error("{0}")]
    Pattern(PatternError),
    /// A rule that rsync has and icdc does not.
    #[error(
        "the rule {0:?} of rsync is not supported, only + PATTERN, - PATTERN, include PATTERN, exclude PATTERN and ! are; for \
         names that begin with it write - {1}"
    )]
    Unsupported(String, String),
    /// Something follows a `!`.
    #[error(
        "! stands alone, and takes back all rules before it; to keep names that a later rule excludes, write + PATTERN before \
         that; for names that begin with ! write - !{0}"
    )]
    AfterClear(String),
}

/// The first line of a file of rules that is no rule: its position, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {error}")]
pub struct FileError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Number of the byte in the line, from 1.
    pub column: usize,
    /// Fault of the line.
    pub error: LineError,
}

/// Names of rsync's filter rules that icdc does not support: a line that begins with one is
/// refused, and not taken for a pattern.
const WORDS: [&str; 6] = ["merge", "dir-merge", "hide", "show", "protect", "risk"];
/// First letters of rsync's filter rules that icdc does not support, such as `.` (merge) and `P`
/// (protect).
const LETTERS: &[u8] = b".:HSPR";
/// Modifiers of rsync that may stand between a rule's letter and its blank, by which unsupported
/// rules are recognized.
const MODIFIERS: &[u8] = b",/!+-Censwrpx";

/// Reads the lines of `text` and appends their rules to `rules`, which a line with `!` empties.
///
/// # Errors
/// The first line that is no rule; `rules` has those before it.
pub fn read_file(text: &[u8], form: Form, rules: &mut Vec<Rule>) -> Result<(), FileError> {
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        // As many a file from Windows has.
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let read = if let [] | [b'#' | b';', ..] = line { Ok((0, Line::Nothing)) } else { read_line(line, form) };
        match read {
            Ok((_, Line::Nothing)) => {}
            Ok((_, Line::Clear)) => rules.clear(),
            Ok((_, Line::Rule(rule))) => rules.push(rule),
            Err((column, error)) => return Err(FileError { line: number + 1, column: column + 1, error }),
        }
    }
    Ok(())
}

/// Parses the rule that one command-line option gives, as a line of this `form` in a file.
///
/// # Errors
/// It is none.
pub fn parse_rule(text: &[u8], form: Form) -> Result<Line, LineError> {
    read_line(text, form).map(|(_, line)| line).map_err(|(_, error)| error)
}

/// Parses a line that is neither empty nor a comment; returns it with the byte offset of its
/// pattern, or the error with the byte offset of the fault.
fn read_line(line: &[u8], form: Form) -> Result<(usize, Line), (usize, LineError)> {
    if line == b"!" || (form == Form::Rules && line == b"clear") {
        return Ok((0, Line::Clear));
    }
    if let Some(rest) = line.strip_prefix(b"!") {
        return Err((1, LineError::AfterClear(String::from_utf8_lossy(rest).into_owned())));
    }
    let (effect, start) = effect_of(line, form).map_err(|error| (0, error))?;
    let pattern = line[start..].to_vec();
    match compile(&pattern) {
        Ok(_) => Ok((start, Line::Rule(Rule { effect, pattern }))),
        Err(error) => Err((start + error.offset, LineError::Pattern(error))),
    }
}

/// Effect (include or exclude) of the rule in `line`, and the byte offset at which its pattern
/// begins.
fn effect_of(line: &[u8], form: Form) -> Result<(Effect, usize), LineError> {
    let prefixes: [(&[u8], Effect); 4] = [
        (b"+ ", Effect::Include),
        (b"- ", Effect::Exclude),
        (b"include ", Effect::Include),
        (b"exclude ", Effect::Exclude),
    ];
    let known = match form {
        Form::Rules => 4,
        Form::Patterns(_) => 2,
    };
    let found = prefixes[..known].iter().find(|(prefix, _)| line.starts_with(prefix));
    match (found, form) {
        (Some((prefix, effect)), _) => Ok((*effect, prefix.len())),
        (None, Form::Patterns(effect)) => Ok((effect, 0)),
        (None, Form::Rules) => match unsupported(line) {
            Some(rule) => Err(LineError::Unsupported(rule, String::from_utf8_lossy(line).into_owned())),
            None => Ok((Effect::Exclude, 0)),
        },
    }
}

/// Word or letter, with its modifiers, of a rule that rsync has and icdc does not support, for the
/// error message; `None` if the line begins with none and is only a pattern.
fn unsupported(line: &[u8]) -> Option<String> {
    let end = line.iter().position(|byte| *byte == b' ')?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let head = &line[..end];
    let word = head.split(|byte| *byte == b',').next().unwrap_or(head);
    let has_word = WORDS.iter().any(|known| known.as_bytes() == word)
        // With modifiers only: without them they are rules here, too.
        || (word.len() < head.len() && [b"include".as_slice(), b"exclude", b"+", b"-"].contains(&word));
    let has_letter = head.first().is_some_and(|letter| LETTERS.contains(letter) || b"+-".contains(letter))
        && head[1..].iter().all(|byte| MODIFIERS.contains(byte));
    (has_word || has_letter).then(|| text(head))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str, form: Form) -> Result<Vec<(Effect, String)>, String> {
        let mut rules = vec![Rule { effect: Effect::Include, pattern: b"before".to_vec() }];
        read_file(text.as_bytes(), form, &mut rules).map_err(|error| error.to_string())?;
        Ok(rules.into_iter().map(|rule| (rule.effect, String::from_utf8(rule.pattern).unwrap())).collect())
    }

    #[test]
    fn lines_are_rules_patterns_and_comments() {
        use Effect::{Exclude, Include};
        let text = "# data only\n; as well\n\n+ *.nc\r\ninclude */\n- *.tmp\nexclude /cache/\n.git\n- # name\nmerge\nSofia\n-x\n";
        let expected = [
            (Include, "before"),
            (Include, "*.nc"),
            (Include, "*/"),
            (Exclude, "*.tmp"),
            (Exclude, "/cache/"),
            (Exclude, ".git"),
            (Exclude, "# name"),
            (Exclude, "merge"),
            (Exclude, "Sofia"),
            (Exclude, "-x"),
        ];
        let expected: Vec<_> = expected.map(|(effect, pattern)| (effect, pattern.to_owned())).into();
        assert_eq!(rules(text, Form::Rules), Ok(expected));
    }

    #[test]
    fn lists_of_patterns_have_an_effect() {
        use Effect::{Exclude, Include};
        let text = "*.nc\n- *.tmp\n+ a b\ninclude x\n";
        let expected = |effect| {
            let lines =
                [(Include, "before"), (effect, "*.nc"), (Exclude, "*.tmp"), (Include, "a b"), (effect, "include x")];
            Vec::from(lines.map(|(effect, pattern)| (effect, pattern.to_owned())))
        };
        for effect in [Include, Exclude] {
            assert_eq!(rules(text, Form::Patterns(effect)), Ok(expected(effect)));
        }
    }

    #[test]
    fn an_exclamation_mark_takes_back_what_was_before() {
        for text in ["a\n!\n- b", "a\nclear\n- b"] {
            assert_eq!(rules(text, Form::Rules), Ok(vec![(Effect::Exclude, "b".to_owned())]), "{text}");
        }
        for form in [Form::Rules, Form::Patterns(Effect::Exclude)] {
            let told = rules("a\n!*.nc", form).unwrap_err();
            assert!(told.starts_with("line 2, column 2: ! stands alone"), "{told}");
        }
    }

    #[test]
    fn other_rules_of_rsync_are_refused_by_name() {
        for (line, name) in [
            ("merge more", "merge"),
            (". more", "."),
            (": .filter", ":"),
            (":n- .filter", ":n-"),
            ("dir-merge .filter", "dir-merge"),
            ("dir-merge,n .filter", "dir-merge,n"),
            ("P *.keep", "P"),
            ("protect *.keep", "protect"),
            ("H x", "H"),
            ("S x", "S"),
            ("R x", "R"),
            ("-s x", "-s"),
            ("-,p x", "-,p"),
            ("+/ x", "+/"),
            ("exclude,! x", "exclude,!"),
        ] {
            let told = rules(&format!("ok\n{line}"), Form::Rules).unwrap_err();
            assert!(told.starts_with(&format!("line 2, column 1: the rule {name:?} of rsync")), "{line}: {told}");
            assert!(told.ends_with(&format!("write - {line}")), "{line}: {told}");
        }
        for line in [".cache", ".s file", "Project x", "-sy file", "merged x"] {
            let read = rules(line, Form::Rules);
            let is_modifier = line == ".s file";
            assert_eq!(read.is_err(), is_modifier, "{line}: {read:?}");
        }
    }

    #[test]
    fn a_pattern_that_is_none_has_line_and_column() {
        let told = rules("a\n\n- ab[c", Form::Rules).unwrap_err();
        assert!(told.starts_with("line 3, column 5: ab[c: the bracket is not closed"), "{told}");
        assert_eq!(rules("- ", Form::Rules).unwrap_err().split(':').next(), Some("line 1, column 3"));
        assert!(rules("a\0b", Form::Rules).is_err_and(|told| told.contains("NUL")));
    }
}
