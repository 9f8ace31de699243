//! Changes of names, on this host or at a far end: directories made, items removed and renamed.

use std::path::Path;

use icdc_changes::Reporter;
use icdc_disk::tree::Tree;
use icdc_protocol::message::{ChangeCount, ChangeRequest};
use icdc_stop::StopSignal;
use icdc_transfer::EventSink;

use crate::connect::{ConnectError, Far};
use crate::location::Location;
use crate::look::LookError;
use crate::options::CopyOptions;
use crate::transfer_id::new_transfer;

/// Makes directories, or removes or renames items, at the host of `location`, as requested, and
/// tells `reporter` about it; returns how much is changed, or would be in a dry run. Of
/// `connection`, the options for reaching the far end are used.
///
/// # Errors
/// See [`LookError`]; it is interrupted also if the reporter ends the change.
pub fn change(
    location: &Location,
    request: ChangeRequest,
    (connection, events): (&CopyOptions, &EventSink),
    stop: &StopSignal,
    reporter: &mut dyn Reporter,
) -> Result<ChangeCount, LookError> {
    icdc_tcp::raise_descriptor_limit();
    if matches!(location, Location::Local(_)) {
        let tree = Tree::unconfined(Path::new(".")).map_err(|error| LookError::Failed(error.to_string()))?;
        return icdc_changes::carry_out(&tree, &request, stop, reporter).map_err(|_| LookError::Interrupted);
    }
    // A Ctrl-C also reaches ssh, whose error is then not the cause.
    let not_reached = |error: ConnectError| if stop.is_requested() { ConnectError::Interrupted } else { error };
    let mut far = Far::open(location, connection, events, stop).map_err(not_reached)?;
    let link = far.link().map_err(not_reached)?;
    let transfer = new_transfer().map_err(LookError::Failed)?;
    Ok(icdc_changes::request(link, transfer, request, stop, reporter)?)
}
