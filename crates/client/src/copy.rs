//! `icdc copy`: dispatches by the locations of sources and destination to a push, a pull, a local
//! copy or a copy between two far ends.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use icdc_disk::tree::Tree;
use icdc_protocol::message::TransferId;
use icdc_stop::StopSignal;
use icdc_tcp::{Privileges, clock};
use icdc_transfer::receiver::Output;
use icdc_transfer::sender::{Follow, Input};
use icdc_transfer::{Account, EventSink, Notary, Summary, WithinHost, sender};
use icdc_trust::Identity;

use crate::between;
use crate::connect::{ConnectError, Far, Need};
use crate::durable_stream::DurableStream;
use crate::error::CopyError;
use crate::location::Location;
use crate::marking::Marked;
use crate::options::CopyOptions;
use crate::output::ReceivingDirectory;
use crate::receipt::{OwnReceipt, ReceiptFile};
use crate::runs::{PullRequest, PushRequest, PushedNames, PushedReceipt, PushedSigner, pull_over, push_over};
use crate::sources::{paths_on_one_host, refuse_into_itself};
use crate::transfer_id::new_transfer;
use crate::unfinished_files::UnfinishedFiles;

/// Copies `sources`, or the [stream](CopyOptions::input) in place of them, to `destination` and reports
/// progress by `events`.
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
    let unfinished = options.receive.in_place.then(UnfinishedFiles::default);
    let kept = options.input.as_ref().and_then(Input::from).map(DurableStream::new);
    let noting = match (&unfinished, &kept) {
        (Some(unfinished), _) => Some(unfinished.noting(events)),
        (None, Some(kept)) => Some(kept.noting(events)),
        (None, None) => None,
    };
    let copied = dispatch(sources, destination, options, noting.as_ref().unwrap_or(events), stop);
    copied.map_err(|error| match error {
        error if options.has_stream() => error.of_stream(kept.as_ref().map(DurableStream::bytes)),
        error if options.receive.write_device => error.of_device(),
        error => match &unfinished {
            Some(unfinished) => error.of_files(&unfinished.paths()),
            None => error,
        },
    })
}

/// Chooses by the locations whether this end sends, receives, copies on this host or introduces two
/// far ends; runs that.
fn dispatch(
    sources: &[Location],
    destination: &Location,
    options: &CopyOptions,
    events: &EventSink,
    stop: &StopSignal,
) -> Result<Summary, CopyError> {
    let local: Option<Vec<Vec<u8>>> = sources.iter().map(local_path).collect();
    match (local, destination) {
        (Some(paths), Location::Local(destination)) => {
            refuse_into_itself(&paths, destination)?;
            refuse_within_copy(options.receipt.as_deref(), &paths, Some(destination))?;
            copy_here(&paths, destination, options, events, stop)
        }
        (Some(paths), far) => {
            refuse_within_copy(options.receipt.as_deref(), &paths, None)?;
            push(&paths, far, options, events, stop)
        }
        (None, _) if options.follow.is_some() => Err(CopyError::Usage(
            "--follow follows directories of the host that it runs on: run icdc where the sources are".into(),
        )),
        (None, _) if options.selection.is_some() => {
            Err(CopyError::Usage("what is planned is copied from this host: its sources are local paths".into()))
        }
        (None, Location::Local(destination)) => match &options.output {
            Some(output) => pull_to_output(sources, output, options, events, stop),
            None => pull(sources, destination.as_os_str().as_bytes(), options, events, stop),
        },
        (None, _) => between::copy_between(sources, destination, options, events, stop).map_err(|error| match error {
            CopyError::Connect(error) => not_reached(error, stop),
            other => other,
        }),
    }
}

/// Copies what is at `paths` of this host to the far end `to`.
fn push(
    paths: &[Vec<u8>],
    to: &Location,
    options: &CopyOptions,
    events: &EventSink,
    stop: &StopSignal,
) -> Result<Summary, CopyError> {
    let signer = match to {
        Location::Daemon { .. } => PushedSigner::LinkKey,
        _ => PushedSigner::LoginKey,
    };
    let tree = here()?;
    let follow = follow(&tree, paths, options, events)?;
    let far = Far::open_for(Need::of_push(options), to, options, events, stop);
    let mut far = far.map_err(|error| not_reached(error, stop))?;
    let order = PushRequest {
        transfer: new_transfer().map_err(CopyError::Failed)?,
        tree: &tree,
        paths,
        input: options.input.as_ref(),
        selection: options.selection.as_ref(),
        listed: options.listed.as_ref().map_or(PushedNames::All, PushedNames::Listed),
        send: &options.send,
        privileges: &Privileges::own(),
        destination: far.path().to_vec(),
        receive: options.receive.clone(),
        retry_for: options.patience(),
        account: &Account::new(clock::now()),
        receipt: options.receipt.as_ref().map(|file| PushedReceipt::Written { file, signer }),
        follow: follow.as_ref(),
        ceiling: &options.ceiling(),
    };
    push_over(&mut Marked::new(&mut far, options.marker.as_ref(), true), &order, events, stop)
}

/// Copies `sources`, which are on one far end, to `destination` on this host.
fn pull(
    sources: &[Location],
    destination: &[u8],
    options: &CopyOptions,
    events: &EventSink,
    stop: &StopSignal,
) -> Result<Summary, CopyError> {
    let Some(first) = sources.first() else { return Err(CopyError::Usage("no source is given".into())) };
    let paths = paths_on_one_host(sources, first)?;
    refuse_within_copy(options.receipt.as_deref(), &[], Some(Path::new(OsStr::from_bytes(destination))))?;
    let transfer = new_transfer().map_err(CopyError::Failed)?;
    let receipt = own_receipt(options, &transfer, first.to_string())?;
    let far = Far::open_for(Need::of_pull(options), first, options, events, stop);
    let mut far = far.map_err(|error| not_reached(error, stop))?;
    let order = PullRequest {
        transfer,
        tree: &here()?,
        sources: &paths,
        listed: options.listed.as_ref(),
        send: &options.send,
        destination,
        receive: &options.receive,
        output: options.output.as_ref(),
        retry_for: options.patience(),
        account: &Account::new(clock::now()),
        notary: receipt.as_ref().map(|receipt| receipt as &dyn Notary),
        ceiling: &options.ceiling(),
    };
    pull_over(&mut Marked::new(&mut far, options.marker.as_ref(), false), &order, events, stop)
}

/// Copies the only one of `sources`, a file on a far end, to `output`.
fn pull_to_output(
    sources: &[Location],
    output: &Output,
    options: &CopyOptions,
    events: &EventSink,
    stop: &StopSignal,
) -> Result<Summary, CopyError> {
    let receiving = ReceivingDirectory::new()?;
    let summary = pull(sources, &receiving.destination(), options, events, stop)?;
    receiving.complete(output, &summary)?;
    Ok(summary)
}

/// Converts a connection error: to itself, or to [`CopyError::Interrupted`] after a request to
/// stop, as a Ctrl-C also reaches ssh, whose error is then not the cause.
fn not_reached(error: ConnectError, stop: &StopSignal) -> CopyError {
    if stop.is_requested() { CopyError::Interrupted } else { error.into() }
}

/// Path of a location on this host; `None` for one on another host.
fn local_path(location: &Location) -> Option<Vec<u8>> {
    match location {
        Location::Local(path) => Some(path.as_os_str().as_bytes().to_vec()),
        _ => None,
    }
}

/// The receipt of a copy to this host, if one is asked for, which the user's identity signs.
fn own_receipt<'a>(
    options: &'a CopyOptions,
    transfer: &TransferId,
    sender: String,
) -> Result<Option<OwnReceipt<'a>>, CopyError> {
    let Some(file) = &options.receipt else { return Ok(None) };
    let identity = Identity::load_with_agent(&options.identity).map_err(|error| {
        CopyError::Usage(format!(
            "a receipt of what arrives here is signed by your key, which cannot be used: {error}; `icdc keygen` makes one"
        ))
    })?;
    Ok(Some(OwnReceipt::new(file, Arc::new(identity), sender, *transfer, &options.receive)))
}

/// Fails if the receipt's file would be in one of the sources or in the destination, and so a part
/// of the copy.
fn refuse_within_copy(
    receipt: Option<&ReceiptFile>,
    sources: &[Vec<u8>],
    destination: Option<&Path>,
) -> Result<(), CopyError> {
    let Some(receipt) = receipt else { return Ok(()) };
    let Some(directory) = receipt.directory() else { return Ok(()) };
    let sources = sources.iter().map(|source| Path::new(OsStr::from_bytes(source)));
    for copied in sources.chain(destination) {
        if copied.canonicalize().is_ok_and(|copied| directory.starts_with(copied)) {
            return Err(CopyError::Usage(format!(
                "{}: would be a part of the copy, as it is in {}; name a file elsewhere",
                receipt.path().display(),
                copied.display()
            )));
        }
    }
    Ok(())
}

/// Starts to watch the sources at `paths` of this host for changes, if the options say so; `None`
/// if not.
fn follow(
    tree: &Tree,
    paths: &[Vec<u8>],
    options: &CopyOptions,
    events: &EventSink,
) -> Result<Option<Follow>, CopyError> {
    let Some(follow) = &options.follow else { return Ok(None) };
    let started = Follow::start(tree, paths, &options.send, follow.clone(), events);
    started.map(Some).map_err(CopyError::Usage)
}

/// This host's file system, with relative paths starting in the current directory.
fn here() -> Result<Tree, CopyError> {
    Tree::unconfined(Path::new(".")).map_err(|error| CopyError::Failed(error.to_string()))
}

/// Copies what is at `paths` of this host to `destination` on this host.
fn copy_here(
    paths: &[Vec<u8>],
    destination: &Path,
    options: &CopyOptions,
    events: &EventSink,
    stop: &StopSignal,
) -> Result<Summary, CopyError> {
    let transfer = new_transfer().map_err(CopyError::Failed)?;
    let receipt = own_receipt(options, &transfer, "this host".to_owned())?;
    let tree = here()?;
    let follow = follow(&tree, paths, options, events)?;
    let order = WithinHost {
        transfer,
        tree: &tree,
        paths,
        input: options.input.as_ref(),
        selection: options.selection.as_ref(),
        listed: options.listed.as_ref(),
        follow: follow.as_ref(),
        destination: destination.as_os_str().as_bytes(),
        send: &options.send,
        receive: &options.receive,
        notary: receipt.as_ref().map(|receipt| receipt as &dyn Notary),
        ceiling: &options.ceiling(),
    };
    Ok(order.copy(events, stop)?)
}
