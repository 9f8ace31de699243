//! What a sender has announced that is not known to be there any more. A session that had to wait for an earlier one may
//! be that of a client killed long ago, and a newer run may have finished meanwhile: nothing is done until the sender
//! has answered.

use icdc_protocol::limits::{MAX_PENDING, MAX_PENDING_BYTES};
use icdc_protocol::message::Message;
use icdc_session::weight::entry_weight;

use super::TreeJob;
use crate::error::SessionError;

/// Jobs in the order of their arrival, within the bounds of what may be pending.
#[derive(Default)]
pub(super) struct Unconfirmed {
    jobs: Vec<TreeJob>,
    items: usize,
    weight: usize,
}

impl Unconfirmed {
    /// Keeps a job for later.
    pub(super) fn keep(&mut self, job: TreeJob) -> Result<(), SessionError> {
        let (items, weight) = match &job {
            TreeJob::Message(Message::Entries(entries)) => {
                (entries.len(), entries.iter().map(|entry| entry_weight(entry, &entry.name)).sum())
            }
            TreeJob::Message(_) => (1, 0),
            _ => return Err(SessionError::Protocol("data came before it was asked for".into())),
        };
        self.items += items;
        self.weight += weight;
        if self.items > 2 * MAX_PENDING || self.weight > MAX_PENDING_BYTES {
            return Err(SessionError::Protocol("more entries are announced than may be pending".into()));
        }
        self.jobs.push(job);
        Ok(())
    }

    /// What was kept, to be done now.
    pub(super) fn into_jobs(self) -> Vec<TreeJob> {
        self.jobs
    }
}
