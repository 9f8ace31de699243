//! The algorithm that a policy names. A policy outlasts the command, so what it names has to as
//! well.

use icdc_tcp::congestion::{self, Holder, LoadError};
use icdc_tcp::{Privileges, available_congestion};

use super::PolicyError;

/// Makes sure that the congestion control `name` is there for a policy: one of icdc's is loaded and
/// pinned unless it is loaded already. Returns its name in the kernel, and a note about the loading
/// for the user; `None` if there is nothing to tell.
pub(super) fn provide(name: &str) -> Result<(String, Option<String>), PolicyError> {
    let is_there = |name: &str| available_congestion().iter().any(|there| there == name);
    let ours = congestion::find(name).filter(|ours| name == ours.kernel_name() || !is_there(name));
    let Some(ours) = ours else {
        // A kernel that has it as a module loads it for a socket.
        let chosen = congestion::choose_in_advance(name, &Privileges::own())
            .map_err(|error| PolicyError::Congestion(error.to_string()))?;
        return match chosen.instead {
            None => Ok((chosen.name, None)),
            Some(reason) => Err(PolicyError::Congestion(reason)),
        };
    };
    let kernel_name = ours.kernel_name();
    match congestion::load(ours, &[]) {
        Ok(loaded) => {
            let place =
                loaded.pin()?.path.map_or_else(String::new, |path| format!(" and pinned at {}", path.display()));
            let note =
                format!("{kernel_name} is loaded{place}; `icdc cc unload {}` when no policy wants it", ours.name);
            Ok((kernel_name, Some(note)))
        }
        Err(LoadError::Taken { holder, .. }) => {
            let note = matches!(holder, Holder::Process { .. }).then(|| {
                format!("{kernel_name} is loaded {holder}: when it ends, new connections do not get it any more")
            });
            Ok((kernel_name, note))
        }
        Err(error) => Err(PolicyError::Congestion(error.to_string())),
    }
}
