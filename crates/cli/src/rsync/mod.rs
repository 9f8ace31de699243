//! `icdc rsync`: command lines of rsync, each run as the `icdc sync` that means the same.
//!
//! | module | what |
//! |---|---|
//! | `options` | the options that are taken, and what each does here |
//! | `words` | a command line as rsync reads it |
//! | `quantity`, `shell` | sizes, rates and quotes as rsync writes them |
//! | `places` | sources and destination |
//! | `translate` | from one command line to the other |

mod options;
mod places;
mod quantity;
mod shell;
mod translate;
mod words;

use std::ffi::OsString;

use self::places::Surroundings;
use self::translate::translate;
use crate::console::Console;

/// Translates the command line of `icdc rsync …` to the one of `icdc sync` that it stands for, and
/// prints that with what differs; any other command line is returned as it is.
///
/// # Errors
/// A sentence: what cannot be translated, and what does it here.
pub(crate) fn expanded(words: Vec<OsString>, console: &Console) -> Result<Vec<OsString>, String> {
    let Some((program, [_, rest @ ..])) =
        words.split_first().filter(|(_, rest)| rest.first().is_some_and(|word| word == "rsync"))
    else {
        return Ok(words);
    };
    // That of this program.
    if rest.is_empty() || rest.contains(&"--help".into()) || rest == ["-h"] {
        return Ok(vec![program.clone(), "rsync".into(), "--help".into()]);
    }
    let surroundings = Surroundings {
        is_root: rustix::process::geteuid().is_root(),
        shell: std::env::var_os("RSYNC_RSH"),
        is_directory: |path| path.symlink_metadata().is_ok_and(|found| found.is_dir()),
    };
    let translation = translate(rest, &surroundings)?;
    if !translation.is_quiet {
        let words: Vec<String> = translation.words.iter().map(|word| shell::quoted(word)).collect();
        console.print(&format!("icdc {}\n", words.join(" ")));
        translation.differences.iter().for_each(|difference| console.complain(difference));
    }
    Ok([vec![program.clone()], translation.words].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments;

    #[test]
    fn the_examples_of_the_help_are_translated() {
        let root = arguments::command();
        let help = root.find_subcommand("rsync").unwrap().get_after_long_help().unwrap().to_string();
        let (_, examples) = help.split_once("Examples:\n").unwrap();
        assert!(examples.lines().count() > 1, "{help}");
        for example in examples.lines() {
            let words = shell_words::split(example.trim().strip_prefix("icdc rsync ").unwrap()).unwrap();
            let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
            let surroundings = Surroundings { is_root: false, shell: None, is_directory: |_| true };
            let translation = translate(&words, &surroundings).unwrap();
            arguments::parse_from([vec!["icdc".into()], translation.words].concat()).unwrap();
        }
    }
}
