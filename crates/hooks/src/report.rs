//! The report that is passed to hooks.

/// Maximum length in bytes of an environment variable's value in a report; the kernel takes 128
/// KiB.
const LONGEST: usize = 4096;
/// Mark at the end of a value that was cut.
const CUT: &str = "…";

/// Report of an ended copy or session for hooks: JSON, and environment variables for the command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    json: String,
    variables: Vec<(&'static str, String)>,
}

impl Report {
    /// New report of `json`, one object, without variables.
    #[must_use]
    pub fn new(json: String) -> Self {
        Self { json, variables: Vec::new() }
    }

    /// Adds an environment variable. Control characters are escaped, and a long value is cut.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.variables.push((name, bounded(value)));
        self
    }

    /// JSON text of the report.
    #[must_use]
    pub fn json(&self) -> &str {
        &self.json
    }

    /// Environment variables of the report, as pairs of name and value.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.variables.iter().map(|(name, value)| (*name, value.as_str()))
    }
}

/// Value of an environment variable with its control characters escaped, cut to [`LONGEST`] bytes.
fn bounded(value: &str) -> String {
    let mut text = String::new();
    for letter in value.chars() {
        let length = text.len();
        if letter.is_control() {
            text.extend(letter.escape_default())
        } else {
            text.push(letter)
        }
        if text.len() > LONGEST - CUT.len() {
            text.truncate(length);
            return text + CUT;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_bounded_and_has_no_control_characters() {
        let report =
            Report::new("{}".into()).with("A", "x\0y\n\u{1b}[2J").with("B", &"é".repeat(10_000)).with("C", "plain é");
        let values: Vec<_> = report.variables().map(|(_, value)| value.to_owned()).collect();
        assert_eq!(values[0], "x\\u{0}y\\n\\u{1b}[2J");
        assert!(values[1].len() <= LONGEST && values[1].ends_with("é…"), "{}", values[1].len());
        assert_eq!(values[2], "plain é");
    }
}
