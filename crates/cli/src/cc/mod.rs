//! `icdc cc`: congestion control of our own in the running kernel.
//!
//! | file | what |
//! |---|---|
//! | `show` | the list, and one algorithm with its parameters |
//! | `keep` | an algorithm loaded while a command runs |

mod keep;
mod show;

use icdc_cc::Algorithm;
use icdc_tcp::congestion::{self, LoadError};

use crate::arguments::cc::{CcArguments, CcCommand, LoadArguments, UnloadArguments};
use crate::console::Console;
use crate::{exit, logs};

/// Runs `icdc cc` and returns the exit code.
pub(crate) fn run(arguments: CcArguments, console: &Console) -> u8 {
    logs::start(console, logs::Level::OFF);
    let result = match arguments.command {
        CcCommand::List(arguments) => {
            show::list(console, arguments.json);
            Ok(0)
        }
        CcCommand::Show(arguments) => find(&arguments.name).map(|algorithm| {
            show::one(console, algorithm, arguments.json);
            0
        }),
        CcCommand::Load(arguments) => load(&arguments, console),
        CcCommand::Unload(arguments) => unload(&arguments, console),
    };
    console.flush();
    match result {
        Ok(code) => code,
        Err(failure) => {
            console.complain(&failure.reason);
            failure.code
        }
    }
}

/// Failure of an `icdc cc` command: text for the user, and the exit code.
struct Failure {
    reason: String,
    code: u8,
}

impl Failure {
    /// A failure of the command line.
    fn usage(reason: String) -> Self {
        Self { reason, code: exit::USAGE }
    }

    /// A failure while carrying out the command; `lacks_privilege` decides on the exit code.
    fn new(error: &impl ToString, lacks_privilege: bool) -> Self {
        Self { reason: error.to_string(), code: if lacks_privilege { exit::NOT_LET_IN } else { exit::FAILED } }
    }
}

/// Finds icdc's own algorithm of this name.
fn find(name: &str) -> Result<&'static Algorithm, Failure> {
    congestion::find(name).ok_or_else(|| {
        if icdc_tcp::available_congestion().iter().any(|kernel| kernel == name) {
            return Failure::usage(format!(
                "{name} is the kernel's own: there is nothing to load, and it has no parameters here"
            ));
        }
        let known: Vec<&str> = congestion::ours().map(|algorithm| algorithm.name).collect();
        Failure::usage(format!("there is no algorithm {name:?}; icdc has: {}", known.join(", ")))
    })
}

/// Runs `icdc cc load`: loads an algorithm and pins it, or keeps it loaded while a command runs.
/// Returns the exit code.
fn load(arguments: &LoadArguments, console: &Console) -> Result<u8, Failure> {
    let algorithm = find(&arguments.name)?;
    let (name, kernel_name) = (algorithm.name, algorithm.kernel_name());
    if !arguments.pin && arguments.command.is_empty() {
        return Err(Failure::usage(format!(
            "say how long {name} shall stay: `icdc cc load {name} --pin` until `icdc cc unload {name}`, `icdc cc load {name} -- CMD` while CMD runs"
        )));
    }
    let settings: Vec<(&str, i64)> = arguments.parameters.iter().map(|one| (one.name.as_str(), one.value)).collect();
    let loaded = congestion::load(algorithm, &settings).map_err(|error| match &error {
        LoadError::Parameter(_) => Failure::usage(error.to_string()),
        LoadError::Taken { .. } => {
            Failure::new(&format!("{error}; `icdc cc unload {name}` removes a pin of ours"), false)
        }
        _ => Failure::new(&error, error.lacks_privilege()),
    })?;
    if !arguments.pin {
        return keep::while_running(loaded, &arguments.command).map_err(|reason| Failure::new(&reason, false));
    }
    let pinned = loaded.pin().map_err(|error| Failure::new(&error, false))?;
    if pinned.mounted {
        console.complain("the BPF file system was not mounted; it is now, at /sys/fs/bpf");
    }
    let place = pinned.path.map_or_else(String::new, |path| format!(", pinned at {}", path.display()));
    console.result(&format!("{kernel_name} is loaded{place}"));
    Ok(0)
}

/// Runs `icdc cc unload`: removes an algorithm's pin. Returns the exit code.
fn unload(arguments: &UnloadArguments, console: &Console) -> Result<u8, Failure> {
    let algorithm = find(&arguments.name)?;
    congestion::unload(algorithm).map_err(|error| Failure::new(&error, error.lacks_privilege()))?;
    console.result(&format!(
        "{} is unloaded; connections that use it keep it until they are closed, new ones cannot choose it",
        algorithm.kernel_name()
    ));
    Ok(0)
}
