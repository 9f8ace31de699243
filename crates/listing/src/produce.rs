//! Produces a listing: records in order, in batches, each file's with its digest.

use std::convert::Infallible;

use crossbeam_channel::{Receiver, bounded, select};
use icdc_filter::Rules;
use icdc_limits::thread::start_scoped;
use icdc_protocol::limits::{MAX_LISTED, MAX_LISTED_BYTES};
use icdc_protocol::message::{ListDetail, ListRequest, Listed, ListedItem, ListedKind};
use icdc_session::SessionError;
use icdc_stop::StopSignal;
use icdc_tcp::clock;
use icdc_units::{Span, Time};

use crate::digests::Digester;
use crate::root::Root;
use crate::subject::Digested;
use crate::walk::{Over, Walked, walk};

/// Weight in bytes of the records at which a batch of them is passed on.
const BATCH: usize = 128 << 10;
const _: () = assert!(BATCH + (16 << 10) <= MAX_LISTED_BYTES);
/// Time after which a batch is passed on that is not full.
const PATIENCE: Span = Span::from_millis(100);
/// Number of records between the walk and those that are passed on: as many files are opened and
/// digested ahead.
const AHEAD: usize = 4096;

/// Function that passes a batch on; false once the other end, or the reader of the listing, is
/// gone.
pub(crate) type Pass<'a> = &'a mut dyn FnMut(Vec<Listed>) -> bool;

/// A record in its place in the order; a file's may still wait for its digest.
enum Pending {
    Record(Listed),
    File(ListedItem, Receiver<Digested>),
}

/// Walks `root` as requested and passes its records to `pass` in batches, until all are passed or
/// `over` is requested.
///
/// # Errors
/// This host lacks threads or memory, or [`SessionError::Interrupted`].
pub(crate) fn produce(
    root: Root,
    (request, rules): (&ListRequest, &Rules),
    over: &StopSignal,
    pass: Pass<'_>,
) -> Result<(), SessionError> {
    let mut batch = Batch { records: Vec::new(), weight: 0, begun: clock::now(), pass };
    let outcome = match request.detail {
        ListDetail::Names | ListDetail::Metadata => {
            let mut take = |walked| match walked {
                _ if over.is_requested() => Err(Over),
                Walked::Record(record) => batch.add(record),
                Walked::File(item, _) => batch.add(Listed::Item(item)),
            };
            walk(root, request, rules, &mut take)
        }
        ListDetail::Digests(digest) => std::thread::scope(|scope| {
            let digester = Digester::start(scope, digest, over)?;
            let (queue, pending) = bounded(AHEAD);
            let work = move || {
                let mut take = |walked| {
                    let pending = match walked {
                        Walked::Record(record) => Pending::Record(record),
                        Walked::File(item, subject) => Pending::File(item, digester.digest(subject)),
                    };
                    queue.send(pending).map_err(|_| Over)
                };
                // Whoever takes the records has gone: nobody is left to be told.
                let _ = walk(root, request, rules, &mut take);
            };
            start_scoped(scope, "icdc-list", work).map_err(|error| SessionError::Local(error.to_string()))?;
            let outcome = in_order(&pending, over, &mut batch);
            if outcome.is_err() {
                // The threads of the scope end.
                over.request();
            }
            drop(pending);
            Ok::<_, SessionError>(outcome)
        })?,
    };
    outcome.and_then(|()| batch.flush()).map_err(|Over| SessionError::Interrupted)
}

/// Adds records to the batch in the order of the walk, each file's once its digest is there.
fn in_order(pending: &Receiver<Pending>, over: &StopSignal, batch: &mut Batch<'_>) -> Result<(), Over> {
    let (hold, ended) = bounded::<Infallible>(0);
    over.on_request(move || drop(hold));
    for next in pending {
        let record = match next {
            Pending::Record(record) => record,
            Pending::File(item, digested) => Listed::Item(with_digest(item, &digested, &ended, batch)?),
        };
        batch.add(record)?;
    }
    if over.is_requested() { Err(Over) } else { Ok(()) }
}

/// Waits for the item's digest and puts it into the record; if it is not there yet, passes the
/// batch on first. An error if `ended` is disconnected before.
fn with_digest(
    item: ListedItem,
    digested: &Receiver<Digested>,
    ended: &Receiver<Infallible>,
    batch: &mut Batch<'_>,
) -> Result<ListedItem, Over> {
    let digest = match digested.try_recv() {
        Ok(digest) => Some(digest),
        Err(_) => {
            batch.flush()?;
            select! {
                recv(digested) -> digest => digest.ok(),
                recv(ended) -> _ => None,
            }
        }
    };
    Ok(ListedItem { kind: ListedKind::File { digest: Some(digest.ok_or(Over)?) }, ..item })
}

/// Records collected to be passed on together.
struct Batch<'a> {
    records: Vec<Listed>,
    weight: usize,
    begun: Time,
    pass: Pass<'a>,
}

impl Batch<'_> {
    /// Adds a record; passes the batch on if it is full or older than [`PATIENCE`].
    fn add(&mut self, record: Listed) -> Result<(), Over> {
        if self.records.is_empty() {
            self.begun = clock::now();
        }
        self.weight += record.weight();
        self.records.push(record);
        let is_due = self.records.len() >= MAX_LISTED || self.weight >= BATCH || clock::now() >= self.begun + PATIENCE;
        if is_due { self.flush() } else { Ok(()) }
    }

    /// Passes the collected records on, if there are any.
    fn flush(&mut self) -> Result<(), Over> {
        self.weight = 0;
        let records = std::mem::take(&mut self.records);
        if records.is_empty() || (self.pass)(records) { Ok(()) } else { Err(Over) }
    }
}
