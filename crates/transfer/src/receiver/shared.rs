//! State that the threads of a receiving session share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use crossbeam_channel::Sender as Channel;
use icdc_disk::BlockPool;
use icdc_disk::tree::Tree;
use icdc_link::LinkControl;
use icdc_protocol::Features;
use icdc_protocol::message::{Feedback, Message, NoticeKind, Ready, ReceiveOptions, SourcePosition, TransferId};
use icdc_rate::disk_ceiling::Load;
use icdc_session::SessionError;
use icdc_session::receiver::ending::Ending;
use icdc_session::receiver::frames_arrived::Connections;
use icdc_session::receiver::tally::Tally;
use icdc_units::{ByteCount, Rate, Span, Time};

use super::bases::ReplacedFiles;
use super::delta::DeltaBases;
use super::device::Device;
use super::disk_rate::DiskQueue;
use super::expanding::Expanding;
use super::large_files::LargeFiles;
use super::output::Output;
use super::owners::OwnerLookup;
use super::staging::Whose;
use super::throttle::Throttle;
use crate::clock;
use crate::event::{Event, EventSink};
use crate::further_links::{FurtherControls, Wanted};
use crate::known_digests::KnownDigests;
use crate::name_list::NameList;
use crate::notices::Notices;
use crate::once::{Ended, Once, Running, watched};
use crate::receipt::Notary;
use crate::user_ceiling::UserCeiling;

/// Panic message of a lock on notices, which only a panic can poison.
const NO_PANIC: &str = "no panic while notices are noted";

/// Interval of feedback messages to the sender and of progress events.
pub(crate) const FEEDBACK: Span = Span::from_millis(100);

/// Request of a receiving session: destination and options.
#[derive(Clone, Copy)]
pub struct ReceiveRequest<'a> {
    /// Id of the run that the session is part of.
    pub transfer: TransferId,
    /// Tree in which the destination is resolved.
    pub tree: &'a Tree,
    /// Destination, as the user wrote it.
    pub destination: &'a [u8],
    /// Paths that were requested of the sender, as the user wrote them; `None` where the sender
    /// chooses.
    pub asked: Option<&'a [Vec<u8>]>,
    /// Whether the run is over once everything is durable here, even if the sender does not learn of it: this end
    /// has requested items that stay at the source.
    pub ends_here: bool,
    /// Names that the sender is to send, and asks for; `None` where it has them, or sends
    /// everything.
    pub listed: Option<&'a NameList>,
    /// Options of the receiving end.
    pub options: &'a ReceiveOptions,
    /// Stream that takes the only file in place of the destination, which only has its blocks that come
    /// too early; `None` where files are written.
    pub output: Option<&'a Output>,
    /// Limits on what the other end may do.
    pub allowed: Allowed,
    /// Features of the sender, as far as they are known before it answers.
    pub peer: Features,
    /// Signs a receipt; `None` if none is made.
    pub notary: Option<&'a dyn Notary>,
}

/// Limits on what the other end of a session may do, whatever it requests. By default there are
/// none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowed {
    /// Key of a drop box, whose holder may only make what does not exist, and learns nothing of
    /// what exists; its unfinished files are kept apart from others' by this key. `None` if the
    /// other end's key has no drop box.
    pub drop_box: Option<[u8; 32]>,
    /// Whether the other end must not learn what existing files contain.
    pub conceals: bool,
}

/// Work for the thread that sends messages to the sender of the session.
pub(super) enum Reply {
    /// Send this message.
    Message(Box<Message>),
    /// Send the next part of the list of names, in this pass.
    Names { pass: u32 },
    /// Flush everything so far to the carrier, then drop this.
    Flush(Running),
    /// Send nothing more.
    End,
}

/// State that a session's threads share.
pub(super) struct Shared<'a> {
    pub(super) order: ReceiveRequest<'a>,
    pub(super) options: &'a ReceiveOptions,
    pub(super) pool: BlockPool,
    pub(super) waiting: DiskQueue,
    /// Keeps what is received to the limit that this end sets as a daemon.
    pub(super) throttle: Throttle,
    pub(super) replies: Channel<Reply>,
    /// Number of times that the sender was asked whether it is connected.
    pub(super) asked: Mutex<u64>,
    pub(super) events: &'a EventSink,
    pub(super) link: LinkControl,
    /// Controls of the connections after the first.
    pub(super) further: FurtherControls,
    /// Accounting of the blocks that have arrived over the connections after the first.
    pub(super) connections: Mutex<Connections>,
    pub(super) large_files: LargeFiles,
    /// Files at the destination with which large files are compared.
    pub(super) bases: ReplacedFiles,
    /// Files at the destination in which content of large files may be that has moved.
    pub(super) delta: DeltaBases,
    /// Takes how many connections the sender needs; `None` at the end that does not make them.
    pub(super) wanted: Option<&'a Channel<Wanted>>,
    pub(super) ending: Mutex<Ending>,
    /// Signalled when the first connection has ended: what has arrived is still processed.
    pub(super) draining: Once,
    /// Wakes the supervising thread after a change in how the session ends.
    pub(super) wake_supervisor: Channel<()>,
    pub(super) tally: Mutex<Tally>,
    /// Compressed payloads that have arrived.
    pub(super) expanding: Expanding,
    /// Payload bytes of the frames that were taken up, before they were compressed, those of blocks which
    /// travelled again included.
    pub(super) received: AtomicU64,
    pub(super) max_rate: Mutex<Option<Rate>>,
    /// Features of the sender, as bits.
    pub(super) peer: AtomicU64,
    /// Notices collected by this end.
    pub(super) notices: Mutex<Notices>,
    /// Notices received from the sender's end.
    pub(super) noticed: Mutex<Notices>,
    /// Place of the source at the destination, for further sessions of the run.
    pub(super) place: OnceLock<SourcePosition>,
    /// Number of bytes of an unfinished stream behind which the sender continues it, zero where it begins
    /// one that is kept; empty where streams are not kept unfinished.
    pub(super) stream_from: OnceLock<ByteCount>,
    /// The device into which the only file is written, once it is claimed; empty where files are
    /// written.
    pub(super) device: OnceLock<Device>,
    /// The accounts of this host, as far as owners are restored by names or rules.
    pub(super) owners: &'a OwnerLookup,
    /// Digests that earlier runs have kept of files here.
    pub(super) digests: &'a KnownDigests,
    /// Ceiling of this end's user, of which the sender is told; `None` where the sender has it.
    pub(super) ceiling: Option<&'a Arc<UserCeiling>>,
}

impl Shared<'_> {
    /// Features of the sender, as far as they are known: as requested at first, then as it has
    /// announced.
    pub(super) fn peer(&self) -> Features {
        Features::from_bits(self.peer.load(Ordering::Relaxed))
    }

    /// Locks the state machine of the session's ending.
    pub(super) fn ending(&self) -> MutexGuard<'_, Ending> {
        self.ending.lock().expect("no panic while a session ends")
    }

    /// Locks the accounting of the blocks that arrive over the connections after the first.
    pub(super) fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().expect("no panic while frames are counted")
    }

    /// Locks the counts of the session's items by outcome.
    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().expect("no panic while items are counted")
    }

    /// Locks the rate limit of this end's key, as the daemon at the other end has told it; it
    /// is only shown. `None` if none was told. The limit that this end imposes, as a daemon,
    /// is not here but in `throttle`.
    pub(super) fn max_rate(&self) -> MutexGuard<'_, Option<Rate>> {
        self.max_rate.lock().expect("no panic while a limit is noted")
    }

    /// Passes an event by which the session may end to the state machine of its ending, and wakes
    /// the supervising thread.
    pub(super) fn on_ending(&self, event: impl FnOnce(&mut Ending, Time)) {
        event(&mut self.ending(), clock::now());
        // One that is not taken yet will do.
        let _ = self.wake_supervisor.try_send(());
    }

    /// Ends the session; the first reason counts. The sender learns it by the last message.
    pub(super) fn fail(&self, error: SessionError) {
        tracing::debug!(%error, "the receiving session fails, unless it has ended already");
        self.on_ending(|ending, now| ending.on_failure(now, error));
    }

    /// Whether the session may only make items that do not exist yet (drop box).
    pub(super) fn only_new(&self) -> bool {
        self.order.allowed.drop_box.is_some()
    }

    /// Whether files may travel as their differences to those at the destination: the sender can do
    /// so, and may learn what they contain.
    pub(super) fn describes_files(&self) -> bool {
        let Allowed { conceals, .. } = self.order.allowed;
        !conceals && !self.only_new() && self.peer().has(Features::DIFFERENCES)
    }

    /// Whether the sender finds content that has moved.
    pub(super) fn finds_moved(&self) -> bool {
        self.describes_files() && self.peer().has(Features::DELTA)
    }

    /// Owner of the unfinished files that are found and made.
    pub(super) fn whose(&self) -> Whose {
        Whose(self.order.allowed.drop_box)
    }

    /// Whether the session has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.ending().failure().is_some()
    }

    /// Notes that the item at `path` meets the condition `kind`, for a notice to the user.
    pub(super) fn notice(&self, kind: NoticeKind, path: &[u8]) {
        self.notices.lock().expect(NO_PANIC).note(kind, path);
    }

    /// Reports the notices of both ends to the user.
    pub(super) fn tell_noticed(&self) {
        for notices in [&self.notices, &self.noticed] {
            let noticed: Vec<_> = notices.lock().expect(NO_PANIC).all().collect();
            noticed.into_iter().for_each(|noticed| (self.events)(Event::Noticed(noticed)));
        }
    }

    /// Queues a message for the sender. Notices precede it, because a message that ends the last
    /// items may be the last one that the sender reads.
    pub(super) fn reply(&self, message: Message) {
        if matches!(message, Message::Done(_)) {
            let changed = self.notices.lock().expect(NO_PANIC).take_changed();
            changed.into_iter().for_each(|notice| self.queue(Message::Notice(notice)));
        }
        self.queue(message);
    }

    /// Asks the sender whether it is connected; returns the number of the question. It is answered when
    /// as many `Confirmed` have arrived in the session, whichever thread has asked.
    pub(super) fn ask(&self, ready: Ready) -> u64 {
        let mut asked = self.asked.lock().expect("no panic while questions are counted");
        *asked += 1;
        self.queue(Message::Ready(ready));
        *asked
    }

    /// Queues a message for the thread that sends, without the notices that [`reply`](Self::reply)
    /// puts before it.
    fn queue(&self, message: Message) {
        // After the outlet's end no thread receives it; the session is ending then.
        let _ = self.replies.send(Reply::Message(Box::new(message)));
    }

    /// Queues a flush; the returned signal comes when everything queued so far has been handed to
    /// the carrier.
    pub(super) fn flush(&self) -> Ended {
        let (running, ended) = watched();
        let _ = self.replies.send(Reply::Flush(running));
        ended
    }

    /// Payload bytes that have arrived in this session over all connections: blocks that are not
    /// complete yet are included, and blocks that arrive again count again. What was compressed counts
    /// as what it stands for, once it is complete.
    pub(super) fn arrived(&self) -> ByteCount {
        self.further.received() + self.link.received() + self.expanding.saved()
    }

    /// Feedback for the sender: bytes that have arrived and that are durable, blocks in the ring,
    /// and the disk's rate.
    pub(super) fn feedback(&self) -> Feedback {
        let Load { blocks, rate } = self.waiting.load();
        Feedback {
            received: self.arrived().as_u64(),
            durable: self.tally().durable.as_u64(),
            ring_used: blocks,
            ring_blocks: self.pool.capacity() as u32,
            write_rate: rate.map(Rate::as_bytes_per_second),
        }
    }
}
