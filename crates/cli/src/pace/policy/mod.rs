//! `icdc pace policy`: what TCP connections of any program get.
//!
//! | file | what |
//! |---|---|
//! | `show` | the list of policies |
//! | `watch` | sockets under a policy |

mod show;
mod watch;

use icdc_pacer::policy::{self, PolicyError};

use crate::arguments::pace::policy::{AddArguments, PolicyArguments, PolicyCommand, RemoveArguments};
use crate::console::Console;
use crate::exit;

/// Runs `icdc pace policy` and returns the exit code.
pub(super) fn run(arguments: PolicyArguments, console: &Console) -> u8 {
    let result = match arguments.command {
        PolicyCommand::Add(arguments) => add(&arguments, console),
        PolicyCommand::List(arguments) => policy::list().map(|list| show::list(console, &list, arguments.json)),
        PolicyCommand::Remove(arguments) => remove(&arguments, console),
        PolicyCommand::Watch(arguments) => watch::run(&arguments, console),
    };
    console.flush();
    match result {
        Ok(()) => 0,
        Err(error) => {
            console.complain(&error.to_string());
            match &error {
                error if error.is_usage() => exit::USAGE,
                error if error.lacks_privilege() => exit::NOT_LET_IN,
                _ => exit::FAILED,
            }
        }
    }
}

/// Runs `icdc pace policy add`: puts a policy in force.
fn add(arguments: &AddArguments, console: &Console) -> Result<(), PolicyError> {
    let added = policy::add(&arguments.policy(), arguments.cgroup.cgroup.as_deref())?;
    for note in &added.notes {
        console.complain(note);
    }
    let instead = if added.replaced { ", in place of the one before" } else { "" };
    console.result(&format!(
        "new connections to and from {} in {} get {}{instead}",
        added.policy.to,
        added.cgroup.display(),
        show::parts(&added.policy)
    ));
    Ok(())
}

/// Runs `icdc pace policy remove`: removes one policy, or all.
fn remove(arguments: &RemoveArguments, console: &Console) -> Result<(), PolicyError> {
    let Some(to) = arguments.to else {
        let cgroups = policy::remove_all()?;
        console.result(&format!("no policy is in force any more (cgroups that had some: {cgroups})"));
        return Ok(());
    };
    policy::remove(to, arguments.cgroup.cgroup.as_deref())?;
    console.result(&format!("{to} has no policy any more; connections that have got it keep what they have"));
    Ok(())
}
