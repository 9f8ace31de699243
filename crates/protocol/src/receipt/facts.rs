//! Lines of facts: `NAME: VALUE`.

/// Text of facts of a receipt, `NAME: VALUE` in each line, as it is being written.
#[derive(Clone, Debug, Default)]
pub struct Facts(String);

impl Facts {
    /// Begins the facts above the lines of items, with the first line of a receipt.
    #[must_use]
    pub fn of_head() -> Self {
        Self(format!("{}\n", super::FIRST_LINE))
    }

    /// Begins the facts below the lines of items, with the empty line before them.
    #[must_use]
    pub fn of_foot() -> Self {
        Self("\n".to_owned())
    }

    /// Adds a fact. Control characters in its value, and a backslash, are escaped as in a path.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        let escaped = super::escape::escaped(value.as_bytes());
        self.0.push_str(name);
        self.0.push_str(": ");
        self.0.push_str(&String::from_utf8_lossy(&escaped));
        self.0.push('\n');
        self
    }

    /// The text above the lines of items, with the empty line that ends it.
    #[must_use]
    pub fn into_head(mut self) -> Vec<u8> {
        self.0.push('\n');
        self.0.into_bytes()
    }

    /// The text to put below the lines of items.
    #[must_use]
    pub fn into_foot(self) -> Vec<u8> {
        self.0.into_bytes()
    }
}

/// The facts above the lines of items, as (name, value); `None` if the text is not such a head.
#[must_use]
pub fn head(text: &[u8]) -> Option<Vec<(&str, &str)>> {
    let text = std::str::from_utf8(text).ok()?.strip_prefix(super::FIRST_LINE)?.strip_prefix('\n')?;
    facts(text.strip_suffix('\n')?)
}

/// The facts below the lines of items, as (name, value); `None` if the text is not such a foot.
#[must_use]
pub fn foot(text: &[u8]) -> Option<Vec<(&str, &str)>> {
    facts(std::str::from_utf8(text).ok()?.strip_prefix('\n')?)
}

/// The value of the fact of this name; `None` if there is none, or more than one.
#[must_use]
pub fn value<'a>(facts: &[(&str, &'a str)], name: &str) -> Option<&'a str> {
    let mut values = facts.iter().filter(|(other, _)| *other == name).map(|(_, value)| *value);
    values.next().filter(|_| values.next().is_none())
}

/// Names and values of lines that end with a newline each; `None` if one is no fact.
fn facts(text: &str) -> Option<Vec<(&str, &str)>> {
    text.strip_suffix('\n')?.split('\n').map(fact).collect()
}

/// Name and value of a line `NAME: VALUE`; `None` if it is none.
fn fact(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(": ")?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    (is_name && !value.bytes().any(|byte| byte.is_ascii_control())).then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_as_they_were_written_and_no_value_makes_a_line() {
        let text = Facts::of_head().with("directory", "/srv/a\nsigned-by: me").with("run", "7").into_head();
        let read = head(&text).unwrap();
        assert_eq!(read, [("directory", "/srv/a\\nsigned-by: me"), ("run", "7")]);
        assert_eq!((value(&read, "run"), value(&read, "signed-by")), (Some("7"), None));
        let text = Facts::of_foot().with("items", "1").into_foot();
        assert_eq!(foot(&text).unwrap(), [("items", "1")]);
    }

    #[test]
    fn what_is_no_list_of_facts_is_none() {
        for text in ["", "icdc-receipt 1\n", "icdc-receipt 1\n\n", "icdc-receipt 2\na: b\n\n", "icdc-receipt 1\na: b\n"]
        {
            assert_eq!(head(text.as_bytes()), None, "{text:?}");
        }
        for text in ["", "\n", "a: b\n", "\na: b", "\na: b\n\n", "\nA: b\n", "\na:b\n", "\n: b\n", "\na: \u{1b}\n"] {
            assert_eq!(foot(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(value(&[("a", "1"), ("a", "2")], "a"), None, "a fact that is told twice is none");
    }
}
