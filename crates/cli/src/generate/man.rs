//! Man pages, from the same source as the help.
//!
//! `clap_mangen` renders names, descriptions and options. The synopsis is made here, with the
//! values that options take; and so is what follows the options, line by line as it was written, so
//! that examples can be pasted.

use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_mangen::Man;

use crate::config::settings;

/// Writes the man page of `command` and those of its subcommands to `directory`.
pub(super) fn pages(mut command: Command, directory: &Path) -> io::Result<()> {
    command = command.disable_help_subcommand(true);
    command.build();
    write(&command, None, directory)
}

/// Writes the man pages of a command and its subcommands; `above` is the command that it belongs
/// to.
fn write(command: &Command, above: Option<&Command>, directory: &Path) -> io::Result<()> {
    for subcommand in visible(command) {
        write(subcommand, Some(command), directory)?;
    }
    let man = Man::new(command.clone());
    fs::write(directory.join(man.get_filename()), page(command, above, &man)?)
}

/// Subcommands that are for users.
fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set())
}

/// The man page of a command, in roff.
fn page(command: &Command, above: Option<&Command>, man: &Man) -> io::Result<String> {
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    page.extend(synopsis(command).bytes());
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if visible(command).next().is_some() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(rest) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        page.extend(sections(&rest.to_string()).bytes());
    }
    for (heading, text) in [("FILES", files(command)), ("ENVIRONMENT", environment(command))] {
        // Some pages have their own.
        let begins = format!("\n.SH {heading}\n");
        if !String::from_utf8_lossy(&page).contains(&begins) {
            page.extend(format!(".SH {heading}\n.nf\n{text}.fi\n").bytes());
        }
    }
    page.extend(see_also(command, above).bytes());
    if command.get_version().is_some() {
        man.render_version_section(&mut page)?;
    }
    let page = String::from_utf8(page).map_err(io::Error::other)?;
    Ok(pastable(&page))
}

/// Section SYNOPSIS: the usage line with each option in place of `[OPTIONS]`.
fn synopsis(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim().trim_start_matches("Usage:").trim();
    let options: Vec<String> = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() && !argument.is_positional() && !argument.is_required_set())
        .map(|argument| argument.to_string())
        .filter(|option| !usage.contains(option.as_str()))
        .map(|option| format!("[{option}]"))
        .collect();
    let usage = usage.replacen("[OPTIONS]", &options.join(" "), 1);
    let lines: Vec<String> = usage.lines().map(|line| escaped(line.trim())).collect();
    // Neither words broken at hyphens nor lines filled up with blanks.
    format!(".SH SYNOPSIS\n.nh\n.ad l\n{}\n.ad b\n.hy\n", lines.join("\n.br\n"))
}

/// Sections from the help's text after the options: a line that ends in a colon heads a section.
fn sections(text: &str) -> String {
    let mut roff = String::new();
    let mut open = false;
    for line in text.lines() {
        match line.strip_suffix(':').filter(|heading| !heading.starts_with(' ') && !heading.is_empty()) {
            Some(heading) => {
                roff += if open { ".fi\n" } else { "" };
                roff += &format!(".SH {}\n.nf\n", heading.to_uppercase());
                open = true;
            }
            None => {
                if !open {
                    roff += ".SH NOTES\n.nf\n";
                    open = true;
                }
                roff += &escaped(line.strip_prefix("  ").unwrap_or(line));
                roff.push('\n');
            }
        }
    }
    roff + if open { ".fi\n" } else { "" }
}

/// Words of a command as they are typed behind `icdc`, such as `plan join`.
fn typed(command: &Command) -> &str {
    command.get_bin_name().unwrap_or_default().strip_prefix("icdc").unwrap_or_default().trim_start()
}

/// Whether a command has options about keys and known hosts, so reaches other hosts.
fn has_keys(command: &Command) -> bool {
    command.get_arguments().any(|argument| matches!(argument.get_id().as_str(), "identity" | "known_hosts"))
}

/// Lines of section FILES for a command.
fn files(command: &Command) -> String {
    let mut files = vec![
        ("~/.config/icdc/config.toml", "settings of a user ($XDG_CONFIG_HOME/icdc/config.toml)"),
        ("/etc/icdc/config.toml", "settings of the system"),
    ];
    if has_keys(command) {
        files.push(("~/.config/icdc/identity", "private key of a user"));
        files.push(("~/.config/icdc/known_hosts", "public keys of daemons that are trusted"));
    }
    if typed(command) == "serve" {
        files.push(("~/.config/icdc/authorized_keys", "public keys that the daemon admits, with their rights"));
    }
    files.iter().map(|(file, text)| escaped(&format!("{file:<31} {text}")) + "\n").collect()
}

/// Lines of section ENVIRONMENT: variables that set options of the command, and those that every
/// command knows.
fn environment(command: &Command) -> String {
    let own = settings::all().filter(|setting| setting.commands.contains(&typed(command)));
    let own = own.map(|setting| (setting.variable, format!("sets --{}", setting.key)));
    let common = [
        ("ICDC_CONFIG", "another file of settings than the user's; none: neither files nor variables ICDC_* are used"),
        ("XDG_CONFIG_HOME", "where the directory icdc of a user's files is (~/.config)"),
        ("RUST_LOG", "debug prints a detailed log on standard error"),
    ];
    let all = own.chain(common.map(|(name, text)| (name, text.to_owned())));
    all.map(|(name, text)| escaped(&format!("{name:<23} {text}")) + "\n").collect()
}

/// Section SEE ALSO: pages of the commands above, beside and below, and of other programs that
/// matter to a command.
fn see_also(command: &Command, above: Option<&Command>) -> String {
    let name_of = |command: &Command| command.get_bin_name().unwrap_or(command.get_name()).replace(' ', "-");
    let own = name_of(command);
    let mut pages = Vec::new();
    for relative in above.into_iter().chain(above.into_iter().flat_map(visible)).chain(visible(command)) {
        pages.push((name_of(relative), 1));
    }
    pages.push(("icdc-config".to_owned(), 1));
    let others: &[(&str, u8)] = match typed(command) {
        "copy" | "sync" => &[("ssh", 1), ("ssh_config", 5), ("scp", 1), ("rsync", 1), ("b3sum", 1)],
        "ls" | "du" => &[("ls", 1), ("du", 1), ("ssh", 1), ("ssh_config", 5)],
        "mkdir" | "rm" | "mv" => &[(typed(command), 1), ("ssh", 1), ("ssh_config", 5)],
        "verify" => &[("b3sum", 1), ("sha256sum", 1), ("md5sum", 1), ("ssh", 1), ("ssh_config", 5)],
        "measure" | "doctor" | "plan join" => &[("ssh", 1), ("ssh_config", 5)],
        "keygen" => &[("ssh-keygen", 1), ("ssh-agent", 1)],
        "serve" => &[("systemd.service", 5)],
        "slurm submit" => &[("sbatch", 1)],
        _ => &[],
    };
    pages.extend(others.iter().map(|(name, section)| ((*name).to_owned(), *section)));
    let mut seen = vec![own];
    pages.retain(|(name, _)| {
        let is_new = !seen.contains(name);
        seen.push(name.clone());
        is_new
    });
    let pages: Vec<String> =
        pages.iter().map(|(name, section)| format!("\\fB{}\\fR({section})", escaped(name))).collect();
    format!(".SH SEE ALSO\n{}\n", pages.join(", "))
}

/// The line escaped for roff, so that it is taken as text and not as a request.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    if line.starts_with('.') { format!("\\&{line}") } else { line }
}

/// The page with escapes for characters that roff would show as similar ones, which no shell takes.
fn pastable(page: &str) -> String {
    page.replace('~', "\\(ti").replace('^', "\\(ha").replace('`', "\\(ga")
}

#[cfg(test)]
mod tests {
    use crate::arguments;

    use super::*;

    fn examples(command: &Command, found: &mut Vec<String>) {
        let text = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
        let (_, lines) = text.split_once("Examples:\n").unwrap_or_default();
        found.extend(lines.lines().map_while(|line| line.strip_prefix("  ")).map(str::to_owned));
        visible(command).for_each(|subcommand| examples(subcommand, found));
    }

    #[test]
    fn every_example_is_a_command_that_is_understood() {
        let mut found = Vec::new();
        examples(&arguments::command(), &mut found);
        assert!(found.len() > 50, "{found:?}");
        for example in found {
            let code = example.split(" # ").next().unwrap_or_default().replace("; ", " ; ");
            let words = shell_words::split(&code).unwrap();
            for part in words.split(|word| [";", "|"].contains(&word.as_str())) {
                let part = part.strip_prefix(&["sudo".to_owned()]).unwrap_or(part);
                // Command lines of rsync are read, and their examples tried, in `crate::rsync`.
                if part.first().is_some_and(|program| program == "icdc") && part[1] != "rsync" {
                    let parsed = arguments::parse_from(part);
                    assert!(parsed.is_ok(), "{example}: {}", parsed.err().unwrap());
                }
            }
        }
    }

    #[test]
    fn the_synopsis_has_the_values() {
        let mut command = arguments::command();
        command.build();
        let copy = synopsis(command.find_subcommand("copy").unwrap());
        for words in ["icdc copy", "[\\-\\-ssh <CMD>]", "[\\-\\-preserve <LIST>]", "[\\-4]", "<SRC>... <DST>"] {
            assert!(copy.contains(words), "{words} is missing in {copy}");
        }
        let add = synopsis(command.find_subcommand("cc").unwrap().find_subcommand("load").unwrap());
        assert!(add.contains("[\\-\\-param <"), "{add}");
    }

    #[test]
    fn what_follows_the_options_stays_line_by_line() {
        let roff = sections("Notes here\n\nExamples:\n  icdc copy 'a' -v\n  .x");
        assert_eq!(
            roff,
            ".SH NOTES\n.nf\nNotes here\n\n.fi\n.SH EXAMPLES\n.nf\nicdc copy \\(aqa\\(aq \\-v\n\\&.x\n.fi\n"
        );
        assert_eq!(pastable("~/x"), "\\(ti/x");
    }
}
