//! Taking a registration back.

use icdc_cc::Algorithm;
use libbpf_rs::{ErrorKind, MapCore};

use super::registered::find;
use super::{holder, text};
use crate::congestion::error::UnloadError;
use crate::congestion::holder::Holder;
use crate::congestion::names::registered;

/// Unloads `algorithm`, which was pinned. Sockets that use it keep it until they are closed; new
/// ones cannot choose it.
///
/// # Errors
/// See [`UnloadError`].
pub fn unload(algorithm: &'static Algorithm) -> Result<(), UnloadError> {
    let name = algorithm.name;
    if !registered(algorithm) {
        return Err(UnloadError::NotLoaded { name });
    }
    match holder(algorithm) {
        Holder::Pinned(path) => {
            let removed = std::fs::remove_file(&path);
            removed.map_err(|error| UnloadError::Call {
                name,
                call: format!("unlink {}", path.display()),
                reason: error.to_string(),
                denied: error.kind() == std::io::ErrorKind::PermissionDenied,
            })
        }
        Holder::Nobody => {
            let Some(found) = find(algorithm) else { return Err(UnloadError::NotLoaded { name }) };
            found.map.delete(&[0; 4]).map_err(|error| UnloadError::Call {
                name,
                call: "the map's element cannot be deleted".to_owned(),
                reason: text(&error),
                denied: error.kind() == ErrorKind::PermissionDenied,
            })
        }
        holder => Err(UnloadError::Held { name, holder }),
    }
}
