//! `icdc copy`: dispatches by the locations of sources and destination to a push, a pull, a local
//! copy or a copy between two far ends.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use icdc_disk::tree::Tree;
use icdc_stop::StopSignal;
use icdc_tcp::{Privileges, clock};
use icdc_transfer::{Account, EventSink, Summary, WithinHost, sender};

use crate::between;
use crate::connect::{ConnectError, Far, Need};
use crate::error::CopyError;
use crate::location::Location;
use crate::marking::Marked;
use crate::options::CopyOptions;
use crate::runs::{PullRequest, PushRequest, PushedNames, pull_over, push_over};
use crate::sources::{paths_on_one_host, refuse_into_itself};
use crate::transfer_id::new_transfer;

/// Copies `sources` to `destination` and reports progress by `events`.
///
/// # Errors
/// See [`CopyError`]; items that fail are no error but counted in [`Summary::errors`].
pub fn copy(
    sources: &[Location],
    destination: &Location,
    options: &CopyOptions,
    events: &EventSink,
    stop: &StopSignal,
) -> Result<Summary, CopyError> {
    icdc_tcp::raise_descriptor_limit();
    sender::check_choice(&options.send.choice).map_err(|error| CopyError::Usage(error.to_string()))?;
    let local: Option<Vec<Vec<u8>>> = sources.iter().map(local_path).collect();
    match (local, destination) {
        (Some(paths), Location::Local(destination)) => {
            refuse_into_itself(&paths, destination)?;
            copy_here(&paths, destination, options, events, stop)
        }
        (Some(paths), far) => {
            let tree = here()?;
            let far = Far::open_for(Need::of_push(options), far, options, events, stop);
            let mut far = far.map_err(|error| not_reached(error, stop))?;
            let order = PushRequest {
                transfer: new_transfer().map_err(CopyError::Failed)?,
                tree: &tree,
                paths: &paths,
                selection: options.selection.as_ref(),
                listed: options.listed.as_ref().map_or(PushedNames::All, PushedNames::Listed),
                send: &options.send,
                privileges: &Privileges::own(),
                destination: far.path().to_vec(),
                receive: options.receive.clone(),
                retry_for: options.retry_for,
                account: &Account::new(clock::now()),
            };
            push_over(&mut Marked::new(&mut far, options.marker.as_ref(), true), &order, events, stop)
        }
        (None, _) if options.selection.is_some() => {
            Err(CopyError::Usage("what is planned is copied from this host: its sources are local paths".into()))
        }
        (None, Location::Local(destination)) => {
            let Some(first) = sources.first() else { return Err(CopyError::Usage("no source is given".into())) };
            let paths = paths_on_one_host(sources, first)?;
            let far = Far::open_for(Need::of_pull(options), first, options, events, stop);
            let mut far = far.map_err(|error| not_reached(error, stop))?;
            let order = PullRequest {
                transfer: new_transfer().map_err(CopyError::Failed)?,
                tree: &here()?,
                sources: &paths,
                listed: options.listed.as_ref(),
                send: &options.send,
                destination: destination.as_os_str().as_bytes(),
                receive: &options.receive,
                retry_for: options.retry_for,
                account: &Account::new(clock::now()),
            };
            pull_over(&mut Marked::new(&mut far, options.marker.as_ref(), false), &order, events, stop)
        }
        (None, _) => between::copy_between(sources, destination, options, events, stop).map_err(|error| match error {
            CopyError::Connect(error) => not_reached(error, stop),
            other => other,
        }),
    }
}

/// Converts a connection error: to itself, or to [`CopyError::Interrupted`] after a request to
/// stop, as a Ctrl-C also reaches ssh, whose error is then not the cause.
fn not_reached(error: ConnectError, stop: &StopSignal) -> CopyError {
    if stop.is_requested() { CopyError::Interrupted } else { error.into() }
}

fn local_path(location: &Location) -> Option<Vec<u8>> {
    match location {
        Location::Local(path) => Some(path.as_os_str().as_bytes().to_vec()),
        _ => None,
    }
}

fn here() -> Result<Tree, CopyError> {
    Tree::unconfined(Path::new(".")).map_err(|error| CopyError::Failed(error.to_string()))
}

fn copy_here(
    paths: &[Vec<u8>],
    destination: &Path,
    options: &CopyOptions,
    events: &EventSink,
    stop: &StopSignal,
) -> Result<Summary, CopyError> {
    let order = WithinHost {
        transfer: new_transfer().map_err(CopyError::Failed)?,
        tree: &here()?,
        paths,
        selection: options.selection.as_ref(),
        listed: options.listed.as_ref(),
        destination: destination.as_os_str().as_bytes(),
        send: &options.send,
        receive: &options.receive,
    };
    Ok(order.copy(events, stop)?)
}
