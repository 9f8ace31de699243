//! The table of settings for people: the shipped example, and a part of the man page.

use clap::Command;

use super::option;
use super::settings::{self, Setting};

/// Most characters in a line of the example.
const WIDTH: usize = 96;

/// The example of a file of settings, which has every setting, all commented out.
pub(super) fn example(root: &Command) -> String {
    let mut text = String::from(
        "# Settings of icdc: ~/.config/icdc/config.toml for one user, /etc/icdc/config.toml for all.\n\
         # The command line and environment variables ICDC_* take precedence over this file.\n\
         # `icdc config --explain HOST` shows the values in effect for a host, and where each comes from.\n\
         \n\
         # Settings at the top are for all hosts.\n",
    );
    settings::REACH.iter().for_each(|setting| text += &lines(setting, root));
    text += "\n\
             # For hosts whose name matches, as typed in [USER@]HOST:PATH or icdc://HOST:PORT/PATH. If\n\
             # several sections match, each setting is taken from the most specific one that has it.\n\
             #[host.\"dtn*.example.org\"]\n\
             #rate = \"900mbit\"\n\
             \n\
             # The daemon on this host: icdc serve.\n\
             #[serve]\n";
    settings::SERVE.iter().for_each(|setting| text += &lines(setting, root));
    text
}

/// The example's lines about a setting, with the help of its option.
fn lines(setting: &Setting, root: &Command) -> String {
    let help = option::first(root, setting).and_then(|argument| argument.get_help()).map(ToString::to_string);
    let mut lines = String::from("\n");
    for line in wrapped(&help.unwrap_or_default()) {
        lines += &format!("# {line}\n");
    }
    lines + &format!("#{} = {}\n", setting.key, setting.example)
}

/// The text wrapped at word boundaries into lines of [`WIDTH`].
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let fits = lines.last().is_some_and(|line| line.is_empty() || line.len() + 1 + word.len() <= WIDTH);
        if !fits {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}
