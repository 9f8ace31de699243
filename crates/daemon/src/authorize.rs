//! Whether a request is allowed by what its key was granted.

use icdc_protocol::message::{
    ChangeRequest, Job, Missing, ReceiveOptions, Refusal, RefusalKind, Request, SendOptions, Transfer,
};
use icdc_session_process::{MAY_NOT_REMOVE, diskless};

use crate::granted::{Granted, Scope};

/// Reason for refusing block devices to a key.
const NO_DEVICES: &str = "this key may not read or write block devices, which may have what is beyond its root; that takes root=/ and \
                          rights=rw in authorized_keys there";

/// Checks a request against what its key was granted; the error is the refusal for the other end.
pub(crate) fn authorize(request: &Request, granted: &Granted) -> Result<(), Refusal> {
    if let Scope::OneTransfer(transfer, admitted) = &granted.scope {
        let is_its_own = match &request.job {
            Job::Join { .. } => true,
            Job::Transfer(job) => is_same_work(job, admitted),
            Job::Admit { .. } | Job::Drive(_) | Job::DriveKey | Job::Measure(_) | Job::List(_) | Job::Change(_) => {
                false
            }
        };
        if request.transfer != *transfer || !is_its_own {
            return Err(Refusal::new(RefusalKind::NotAllowed, "this key was admitted for another transfer"));
        }
    }
    let is_standing = granted.scope == Scope::StandingKey;
    let allowed = match &request.job {
        // Zeros concern no file.
        job if diskless(job).is_some() => true,
        Job::Measure(_) | Job::Drive(_) | Job::DriveKey if !granted.unlimited => {
            let reason = format!(
                "this key may not {}: its rate or bytes are limited there, and these limits would not apply",
                job_name(&request.job)
            );
            return Err(Refusal::new(RefusalKind::NotAllowed, reason));
        }
        Job::Drive(drive) if drive.send.copy_devices && !may_use_devices(granted) => {
            return Err(Refusal::new(RefusalKind::NotAllowed, NO_DEVICES));
        }
        Job::Join { .. } | Job::Measure(_) => true,
        Job::Transfer(job) => return authorize_transfer(job, granted),
        Job::Admit { job, .. } if is_standing => return authorize_transfer(job, granted),
        Job::Admit { .. } => false,
        Job::List(_) if granted.rights.access.drop_box().is_some() => {
            let reason = "a drop box does not tell what is there";
            return Err(Refusal::new(RefusalKind::NotAllowed, reason));
        }
        Job::List(_) => granted.rights.access.reads(),
        Job::Change(_) if granted.rights.access.drop_box().is_some() => {
            let reason = format!("this key may not {}: what is in a drop box stays as it is", job_name(&request.job));
            return Err(Refusal::new(RefusalKind::NotAllowed, reason));
        }
        Job::Change(ChangeRequest::MakeDirectories { .. }) => granted.rights.access.writes(),
        // They tell what is there.
        Job::Change(ChangeRequest::Remove { .. } | ChangeRequest::Rename { .. }) => {
            granted.rights.access.writes() && granted.rights.access.reads()
        }
        Job::Drive(_) | Job::DriveKey => is_standing && granted.rights.access.reads(),
    };
    if allowed { Ok(()) } else { Err(no_rights(job_name(&request.job))) }
}

/// Checks a transfer against what its key was granted.
fn authorize_transfer(job: &Transfer, granted: &Granted) -> Result<(), Refusal> {
    let refused = |reason: &str| Err(Refusal::new(RefusalKind::NotAllowed, reason));
    match job {
        _ if job.diskless().is_some() => Ok(()),
        Transfer::Receive { .. } if !granted.rights.access.writes() => Err(no_rights(transfer_name(job))),
        Transfer::Send { .. } if !granted.rights.access.reads() => Err(no_rights(transfer_name(job))),
        Transfer::Receive { options: ReceiveOptions { write_device: true, .. }, .. }
        | Transfer::Send { options: SendOptions { copy_devices: true, .. }, .. }
            if !may_use_devices(granted) =>
        {
            refused(NO_DEVICES)
        }
        Transfer::Send { options, .. } if options.moves && !granted.rights.access.writes() => refused(MAY_NOT_REMOVE),
        Transfer::Receive { options, .. } if options.preserve.owner && !granted.owners => refused(
            "this key may not set owners; leave owner out of --preserve, or ask for owner=keep in authorized_keys there",
        ),
        Transfer::Receive { options, .. } if options.dry_run && granted.rights.access.drop_box().is_some() => {
            refused("a drop box does not tell what is there; leave --dry-run out")
        }
        Transfer::Receive { options, .. }
            if options.preserve.specials && granted.rights.access.drop_box().is_some() =>
        {
            refused("a drop box takes no named pipes, sockets and devices; leave specials out of --preserve")
        }
        Transfer::Receive { options, .. }
            if options.snapshot.is_some() && granted.rights.access.drop_box().is_some() =>
        {
            refused("a drop box does not tell what is there; leave --snapshot out")
        }
        Transfer::Receive { options, .. } if options.delete.is_some() && granted.rights.access.drop_box().is_some() => {
            refused("nothing is deleted from a drop box; leave --delete out")
        }
        Transfer::Receive { options, .. }
            if !options.link_dest.is_empty() && granted.rights.access.drop_box().is_some() =>
        {
            refused("a drop box does not tell what is there; leave --link-dest out")
        }
        Transfer::Receive { options, .. } if !options.bases.is_empty() && !granted.rights.access.reads() => refused(
            "this key may not read what is there; leave --basis out, or ask for rights=rw in authorized_keys there",
        ),
        Transfer::Receive { options, .. }
            if options.directory_links.is_some() && granted.rights.access.drop_box().is_some() =>
        {
            refused("a drop box does not tell what is there; leave --keep-dirlinks out")
        }
        Transfer::Receive { options, .. } if options.backup.is_some() && granted.rights.access.drop_box().is_some() => {
            refused("in a drop box nothing that exists is replaced; leave --backup-dir and --suffix out")
        }
        Transfer::Receive { options, .. }
            if options.missing == Missing::LeaveOut && granted.rights.access.drop_box().is_some() =>
        {
            refused("in a drop box nothing that exists is written; leave --existing out")
        }
        Transfer::Receive { options, .. } if options.in_place && granted.rights.access.drop_box().is_some() => {
            refused("in a drop box nothing that exists is written; leave --in-place out")
        }
        Transfer::Receive { .. } | Transfer::Send { .. } => Ok(()),
    }
}

/// Whether a key may do all that its user may on the whole host: a device may have what is beyond any
/// directory, and its node may be one that the key's holder has made.
fn may_use_devices(granted: &Granted) -> bool {
    let access = &granted.rights.access;
    access.reads() && access.writes() && access.drop_box().is_none() && granted.rights.root.is_whole_host()
}

/// The refusal of a key that lacks the right to do `what`.
fn no_rights(what: &str) -> Refusal {
    let reason = format!("this key may not {what}; ask for rights= in authorized_keys there");
    Refusal::new(RefusalKind::NotAllowed, reason)
}

/// Whether a job is the admitted one. A receiving job may differ in `resume` and `place`: later
/// sessions of a run resume where the first one has found its place.
fn is_same_work(job: &Transfer, admitted: &Transfer) -> bool {
    let mut job = job.clone();
    if let (Transfer::Receive { options, .. }, Transfer::Receive { options: admitted, .. }) = (&mut job, admitted) {
        options.resume = admitted.resume;
        options.place = admitted.place;
    }
    job == *admitted
}

/// Action of a job as a verb (`write`, `read`, `join`, …) for logs and for refusals: "this key may
/// not …".
pub(crate) fn job_name(job: &Job) -> &'static str {
    match job {
        job if diskless(job).is_some() => "measure a copy",
        Job::Transfer(transfer) => transfer_name(transfer),
        Job::Join { .. } => "join",
        Job::Admit { .. } => "admit another key",
        Job::Drive(_) | Job::DriveKey => "drive a transfer",
        Job::Measure(_) => "measure",
        Job::List(_) => "list",
        Job::Change(ChangeRequest::MakeDirectories { .. }) => "make directories",
        Job::Change(ChangeRequest::Remove { .. }) => "remove",
        Job::Change(ChangeRequest::Rename { .. }) => "rename",
    }
}

/// Action of the end that is asked for a transfer, as a verb: `write` if it receives, `read` if it
/// sends.
fn transfer_name(transfer: &Transfer) -> &'static str {
    match transfer {
        Transfer::Receive { .. } => "write",
        Transfer::Send { .. } => "read",
    }
}

#[cfg(test)]
mod tests {
    use icdc_protocol::message::SourcePosition;

    use super::*;

    #[test]
    fn a_run_that_goes_on_is_the_work_that_was_admitted() {
        let receive = |destination: &[u8], change: fn(&mut ReceiveOptions)| {
            let mut options = ReceiveOptions::default();
            change(&mut options);
            Transfer::Receive { destination: destination.to_vec(), options }
        };
        let admitted = receive(b"in", |_| ());
        assert!(is_same_work(&receive(b"in", |options| options.resume = true), &admitted));
        assert!(is_same_work(&receive(b"in", |options| options.place = Some(SourcePosition::Inside)), &admitted));
        assert!(!is_same_work(&receive(b"in/other", |_| ()), &admitted));
        assert!(!is_same_work(&receive(b"in", |options| options.preserve.owner = true), &admitted));
        assert!(!is_same_work(&Transfer::Send { sources: vec![], options: Default::default() }, &admitted));
    }
}
