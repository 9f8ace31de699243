//! A client's measurement of everything in a copy but the disks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use icdc_protocol::message::{Diskless, Preserve, ReceiveOptions, SendOptions};
use icdc_stop::StopSignal;
use icdc_tcp::{Privileges, clock};
use icdc_transfer::{Account, Event, EventSink, Outcome, Summary, UserCeiling};
use icdc_units::{ByteCount, Rate, Span};

use crate::connect::{Far, Need};
use crate::error::CopyError;
use crate::location::Location;
use crate::options::CopyOptions;
use crate::runs::{PullRequest, PushRequest, PushedNames, pull_over, push_over};
use crate::scratch::Scratch;
use crate::transfer_id::new_transfer;

/// Name under which the receiving end receives the file, without a disk.
const ARRIVES: &[u8] = b"arrived";

/// A measurement of a copy without disks, as requested: direction, contents and length.
#[derive(Clone, Copy, Debug)]
pub struct PipelineOptions {
    /// Whether the far end sends, instead of this one.
    pub reverse: bool,
    /// Contents of the file that is sent, all of it unless `time` ends before.
    pub diskless: Diskless,
    /// Length of the measurement, from the first data; `None` sends the whole file.
    pub time: Option<Span>,
}

/// Result of measuring a copy without disks: rate, retransmissions, and what limited the rate.
#[derive(Debug)]
pub struct PipelineResult {
    /// Payload bytes that arrived within `time`.
    pub bytes: ByteCount,
    /// Time from the first data to the last.
    pub time: Span,
    /// Number of TCP segments retransmitted.
    pub retransmitted_segments: u64,
    /// Congestion control of the sending end by its kernel name; empty where that is unknown.
    pub congestion: String,
    /// Share of the time (0 to 1) for which each pipeline stage limited the rate, by the stage's
    /// name.
    pub limited_by: BTreeMap<String, f64>,
    /// Limit that the daemon sets to the rate of the key in use; `None` for no limit.
    pub max_rate: Option<Rate>,
    /// Whether the user stopped the measurement.
    pub interrupted: bool,
}

/// State of the measured copy by its events so far.
#[derive(Default)]
struct Progress {
    /// The first sample with data: seconds since the start of the run, and bytes that had arrived.
    first: Option<(f64, u64)>,
    /// The last sample with data, in the form of `first`.
    last: Option<(f64, u64)>,
    /// Reason of the last item that failed.
    failure: Option<String>,
}

/// Measures a copy between this process and the far end at `target`, which must not be local,
/// without the disks of either; its path is ignored.
///
/// # Errors
/// See [`CopyError`]. The end of the time is none, and neither is an interruption once data has
/// arrived.
pub fn measure_pipeline(
    target: &Location,
    order: &PipelineOptions,
    options: &CopyOptions,
    events: &EventSink,
    stop: &StopSignal,
) -> Result<PipelineResult, CopyError> {
    icdc_tcp::raise_descriptor_limit();
    let (send, receive) = without_disks(order, options);
    let need = if order.reverse { Need::of_pull(options) } else { Need::of_push(options) };
    let mut far = Far::open_for(need, target, options, events, stop)
        .map_err(|error| if stop.is_requested() { CopyError::Interrupted } else { error.into() })?;
    let scratch = Scratch::new((!order.reverse).then_some(order.diskless)).map_err(CopyError::Failed)?;
    let account = Account::new(clock::now());
    let seen = Arc::new(Mutex::new(Progress::default()));
    let over = stop.child();
    let events = recording(&seen, events, order.time.map(|time| (time, over.clone())));
    let transfer = new_transfer().map_err(CopyError::Failed)?;
    // What came before a cut and after it would be no measurement.
    let (tree, retry_for, account) = (scratch.tree(), Span::ZERO, &account);
    let (sent, destination) = (&[icdc_transfer::diskless::NAME.into()], ARRIVES);
    let ceiling = &Arc::new(UserCeiling::new(send.rate));
    let outcome = if order.reverse {
        let order = PullRequest {
            transfer,
            tree,
            sources: sent,
            listed: None,
            send: &send,
            destination,
            receive: &receive,
            output: None,
            retry_for,
            account,
            notary: None,
            ceiling,
        };
        pull_over(&mut far, &order, &events, &over)
    } else {
        let order = PushRequest {
            transfer,
            tree,
            paths: sent,
            input: None,
            selection: None,
            listed: PushedNames::All,
            send: &send,
            privileges: &Privileges::own(),
            destination: destination.to_vec(),
            receive,
            retry_for,
            account,
            receipt: None,
            follow: None,
            ceiling,
        };
        push_over(&mut far, &order, &events, &over)
    };
    measured(outcome, &seen, account, (over.is_requested(), stop.is_requested()))
}

/// Result of a measurement that has ended with `outcome`: by the end of its time, or because it
/// `was_stopped` by the user.
fn measured(
    outcome: Result<Summary, CopyError>,
    seen: &Mutex<Progress>,
    account: &Account,
    (is_over, was_stopped): (bool, bool),
) -> Result<PipelineResult, CopyError> {
    let seen = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
    let first = seen.first;
    let last = last_sample(outcome, seen, is_over)?;
    Ok(PipelineResult::between(first, last, account, was_stopped))
}

/// Options of both ends of a copy without disks.
fn without_disks(order: &PipelineOptions, options: &CopyOptions) -> (SendOptions, ReceiveOptions) {
    let (preserve, diskless) = (Preserve::NOTHING, Some(order.diskless));
    let SendOptions { rate, congestion, streams, .. } = options.send.clone();
    let send = SendOptions { rate, congestion, streams, preserve, diskless, ..SendOptions::default() };
    (send, ReceiveOptions { preserve, diskless, ..ReceiveOptions::default() })
}

/// Seconds and bytes at the end of a run, by its outcome or, if it `was_ended` before, by its last
/// sample.
fn last_sample(outcome: Result<Summary, CopyError>, seen: Progress, was_ended: bool) -> Result<(f64, u64), CopyError> {
    match outcome {
        Ok(summary) if summary.errors > 0 => {
            Err(CopyError::Failed(seen.failure.unwrap_or_else(|| "the copy has failed".to_owned())))
        }
        // The last sample was taken before all had arrived.
        Ok(summary) => Ok((summary.seconds, summary.bytes)),
        Err(error) if !was_ended => Err(error),
        Err(_) => seen.last.ok_or(CopyError::Interrupted),
    }
}

impl PipelineResult {
    /// Result of the run of `account`, by the first and the last sample with data.
    fn between(first: Option<(f64, u64)>, last: (f64, u64), account: &Account, interrupted: bool) -> Self {
        // Of so little that all arrived at once, the whole run counts.
        let first = first.filter(|first| first.1 < last.1).unwrap_or_default();
        let (seconds, bytes) = (last.0 - first.0, last.1 - first.1);
        Self {
            bytes: ByteCount::new(bytes),
            time: Span::from_nanos((seconds * 1e9) as u64),
            retransmitted_segments: account.retransmitted_segments(),
            congestion: account.congestion(),
            limited_by: account.limited_by(),
            max_rate: account.last_max_rate(),
            interrupted,
        }
    }
}

/// Event sink that passes events on, records when data arrived, and ends the run when data has
/// flowed for the span of `end`.
fn recording(seen: &Arc<Mutex<Progress>>, events: &EventSink, end: Option<(Span, StopSignal)>) -> EventSink {
    let (seen, events) = (Arc::clone(seen), Arc::clone(events));
    Arc::new(move |event| {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Event::Item { reason: reason @ Some(_), outcome: Outcome::Failed, .. } = &event {
            seen.failure.clone_from(reason);
        }
        if let Event::Progress(sample) = &event
            && sample.bytes_done > 0
        {
            let arrived = (sample.seconds, sample.bytes_done);
            let first = *seen.first.get_or_insert(arrived);
            seen.last = Some(arrived);
            if let Some((time, over)) = &end
                && arrived.0 - first.0 >= time.as_secs_f64()
            {
                over.request();
            }
        }
        drop(seen);
        events(event);
    })
}
