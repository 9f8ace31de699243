//! The command line in words, for reports.

use std::ffi::OsString;

/// The words of a command, quoted as a shell would want them, and the program without its
/// directory.
pub(crate) fn command_line(words: impl Iterator<Item = OsString>) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_./:@=,+%[]~".contains(letter);
    let words: Vec<String> = words
        .map(|word| word.to_string_lossy().into_owned())
        .enumerate()
        .map(|(index, word)| {
            let word = if index == 0 { word.rsplit('/').next().map(str::to_owned).unwrap_or(word) } else { word };
            let quoted = word.is_empty() || !word.chars().all(plain);
            if quoted { format!("'{}'", word.replace('\'', "'\\''")) } else { word }
        })
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_can_be_pasted() {
        let words = ["/usr/bin/icdc", "--ssh", "ssh -p 22", "it's", ""].map(Into::into);
        assert_eq!(command_line(words.into_iter()), r"icdc --ssh 'ssh -p 22' 'it'\''s' ''");
    }
}
