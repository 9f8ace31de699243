//! Words for a shell: those of `--rsh`, which rsync splits by itself, and a command that can be
//! pasted.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// Words of a command that rsync runs (`do_cmd` in rsync's main.c): between blanks; quotes keep
/// blanks, and two of them within such quotes are one; nothing else is special.
///
/// # Errors
/// A quote is not closed.
pub(super) fn split(command: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut letters = command.chars().peekable();
    loop {
        while letters.next_if_eq(&' ').is_some() {}
        if letters.peek().is_none() {
            return Ok(words);
        }
        let mut word = String::new();
        let mut quote = None;
        while let Some(letter) = letters.next_if(|&letter| letter != ' ' || quote.is_some()) {
            match quote {
                Some(open) if letter == open => {
                    if letters.next_if_eq(&open).is_some() {
                        word.push(open);
                    } else {
                        quote = None;
                    }
                }
                None if letter == '\'' || letter == '"' => quote = Some(letter),
                _ => word.push(letter),
            }
        }
        if let Some(quote) = quote {
            return Err(format!("{command}: a {quote} is not closed"));
        }
        words.push(word);
    }
}

/// A word as a shell reads it, on one line and without characters that a terminal would act on.
pub(super) fn quoted(word: &OsStr) -> String {
    match word.to_str() {
        Some(text) if !text.chars().any(char::is_control) => shell_words::quote(text).into_owned(),
        _ => {
            let escaped: Vec<String> = word
                .as_bytes()
                .iter()
                .map(|&byte| match byte {
                    b'\'' | b'\\' => format!("\\{}", byte as char),
                    b' '..=b'~' => (byte as char).to_string(),
                    // Three digits: what follows cannot count as one more.
                    _ => format!("\\{byte:03o}"),
                })
                .collect();
            format!("$'{}'", escaped.concat())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_shell_is_split_as_rsync_splits_it() {
        let split = |text| split(text).unwrap();
        assert_eq!(split("ssh -p 2222"), ["ssh", "-p", "2222"]);
        assert_eq!(split("  ssh   -o 'A B'  "), ["ssh", "-o", "A B"]);
        assert_eq!(split("ssh -o \"A 'B\" c\"\"d 'it''s' \\x"), ["ssh", "-o", "A 'B", "cd", "it's", "\\x"]);
        assert!(super::split("ssh 'x").is_err());
    }

    #[test]
    fn what_is_printed_can_be_pasted() {
        let quoted = |bytes: &[u8]| quoted(OsStr::from_bytes(bytes));
        assert_eq!(quoted(b"a/b"), "a/b");
        assert_eq!(quoted(b"a b"), "'a b'");
        assert_eq!(quoted(b"*.nc"), "'*.nc'");
        assert_eq!(quoted(b"caf\xe91'\n"), "$'caf\\3511\\'\\012'");
    }
}
