//! Queue of settled items of followed sources, between the thread that watches them and the session that announces
//! it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};

use crossbeam_channel::{Receiver, Sender, bounded, select};
use icdc_protocol::listed::list_order;
use icdc_session::sender::Counts;
use icdc_units::Time;
use icdc_watch::Place;
use rustix::event::{EventfdFlags, eventfd};

use super::growing_file::GrowingFile;

/// Most items that wait for a session: beyond, the walk pauses.
const MOST_READY: usize = 1 << 16;
/// Most items that are announced in one walk from the root.
const BATCH: usize = 4096;
/// Items after which a session ends at the next pause, and another begins: what both ends keep of a session stays
/// bounded.
const SESSION: u64 = 1 << 18;
/// Most directories of a session that are kept, to be announced anew after a cut.
const MOST_DIRECTORIES: usize = 1 << 16;

/// Item of followed sources that has settled, in the version that is announced; or a file that travels while it grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) place: Place,
    pub(crate) is_directory: bool,
    /// Time of its close, or from which on it was as it is.
    pub(crate) since: Time,
    /// Its version, as far as it is told from others.
    pub(crate) version: u64,
    /// The file, if it travels while it grows.
    pub(crate) growing: Option<Arc<GrowingFile>>,
}

/// Next step of a session that announces what settles.
pub(crate) enum Next {
    /// Announce these items of the tree of this number, each with its path as lists name it, in the order of a scan.
    Announce(u32, Vec<(Vec<u8>, Settled)>),
    /// End: everything is announced, or another session is to go on.
    End,
    /// Nothing: the session is over.
    Over,
}

/// News of a session, for the watch thread, about an item that it was given.
#[derive(Debug)]
pub(crate) enum Told {
    /// It was changed while it was read, and settles again.
    Changed(Settled),
    /// It was no longer what had settled when it was to be announced; this is its present version.
    Outdated(Settled),
    /// It has failed, and is tried again when it changes or the tree is walked.
    Failed(Settled),
    /// It is durable.
    Durable,
    /// It has travelled while it grew, and is published.
    Grown(Settled),
    /// Directories are no longer known to be as they should.
    DirectoriesLost,
}

/// Queue of settled items from the thread that watches followed sources to the sessions that
/// announce them, with their news back; it outlives sessions.
pub(crate) struct Queue {
    state: Mutex<State>,
    /// Wakes the session.
    bell: Sender<()>,
    heard: Receiver<()>,
    /// Wakes the session's thread that reads files which grow.
    growth: (Sender<()>, Receiver<()>),
    /// Wakes the watch thread.
    wake: OwnedFd,
}

/// Items in the queue, those that a session has taken, and news for the watch thread, behind the
/// queue's lock.
#[derive(Default)]
struct State {
    ready: VecDeque<Settled>,
    /// Number of items that a session has taken and that are neither durable nor given back.
    taken: usize,
    /// Directories that the present session was given.
    directories: Vec<Settled>,
    has_lost_directories: bool,
    /// Number of items that the present session was given.
    given: u64,
    told: Vec<Told>,
    /// Whether the receiver takes files that grow; `None` until it has told.
    takes_growing: Option<bool>,
    /// Items whose files grow, which wait for the receiver to tell that.
    later: Vec<Settled>,
    /// Files that travel while they grow.
    growing: Vec<Arc<GrowingFile>>,
    /// Whether nothing more gets ready.
    is_last: bool,
    /// Whether the watch thread is to end.
    stops: bool,
    /// Reason why the following cannot go on.
    failure: Option<String>,
    /// Counts of the sessions that have ended before their work was done.
    carried: Counts,
}

impl Queue {
    /// An empty queue; an error if no descriptor can be had for waking the watch thread.
    pub(crate) fn new() -> io::Result<Self> {
        let (bell, heard) = bounded(1);
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { state: Mutex::default(), bell, heard, growth: bounded(1), wake })
    }

    // The watch thread.

    /// Adds an item that has settled, for the session to announce.
    pub(crate) fn add(&self, settled: Settled) {
        {
            let mut state = self.state();
            state.growing.retain(|file| file.is_open());
            state.growing.extend(settled.growing.clone());
            state.ready.push_back(settled);
        }
        let _ = self.bell.try_send(());
    }

    /// Whether too many items wait for a session, so that a walk is to pause.
    pub(crate) fn is_full(&self) -> bool {
        self.state().ready.len() >= MOST_READY
    }

    /// Whether every item that was added is durable or has failed, or is a file that grows and is open, and the watch
    /// thread has been told.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state();
        let is_told = state.told.iter().all(|told| matches!(told, Told::Durable));
        state.ready.len() + state.later.len() + state.taken == state.open() && is_told
    }

    /// Has the session look at the files that grow: one has grown, was closed or abandoned.
    pub(crate) fn on_growth(&self) {
        let _ = self.growth.0.try_send(());
    }

    /// Takes the news of sessions about items, for the watch thread.
    pub(crate) fn take_told(&self) -> Vec<Told> {
        let mut number = [0; 8];
        let _ = rustix::io::read(&self.wake, &mut number);
        std::mem::take(&mut self.state().told)
    }

    /// Handles that nothing more is added: the scan of the session ends when the queue is empty.
    pub(crate) fn end(&self) {
        self.state().is_last = true;
        let _ = self.bell.try_send(());
    }

    /// Handles that the following cannot go on, for this reason: the session fails with it, and the
    /// watch thread ends.
    pub(crate) fn fail(&self, reason: String) {
        {
            let mut state = self.state();
            (state.failure, state.stops) = (Some(reason), true);
        }
        self.end();
    }

    /// Whether the watch thread is to end.
    pub(crate) fn stops(&self) -> bool {
        self.state().stops
    }

    /// Has the watch thread look what there is to do.
    pub(crate) fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Has the watch thread end, at the end of the run.
    pub(crate) fn stop(&self) {
        self.state().stops = true;
        self.wake();
    }

    /// Whether nothing more is added, and every item is durable or has failed.
    pub(crate) fn is_through(&self) -> bool {
        let state = self.state();
        state.is_last && state.ready.is_empty() && state.later.is_empty() && state.taken == 0
    }

    // Sessions.

    /// Begins a session: what is counted and kept of one session is reset.
    pub(crate) fn begin_session(&self) {
        let mut state = self.state();
        (state.given, state.has_lost_directories, state.takes_growing) = (0, false, None);
        state.directories.clear();
    }

    /// Notes whether the receiver takes files that grow: otherwise they are announced when they have settled.
    pub(crate) fn takes_growing(&self, takes: bool) {
        let later = {
            let mut state = self.state();
            state.takes_growing = Some(takes);
            let later = std::mem::take(&mut state.later);
            if takes {
                state.ready.extend(later);
                Vec::new()
            } else {
                state.taken += later.len();
                later
            }
        };
        later.into_iter().for_each(|settled| self.left_alone(settled));
        let _ = self.bell.try_send(());
    }

    /// Waits for the next items to be announced, until the session is `over`.
    ///
    /// # Errors
    /// The reason why the following cannot go on.
    pub(crate) fn next(&self, over: &Receiver<Infallible>) -> Result<Next, String> {
        loop {
            if let Some(next) = self.take()? {
                return Ok(next);
            }
            select! {
                recv(self.heard) -> _ => {}
                recv(over) -> _ => return Ok(Next::Over),
            }
        }
    }

    /// Next step of the session, without waiting for one; `None` if there is nothing to do yet.
    fn take(&self) -> Result<Option<Next>, String> {
        let mut state = self.state();
        state.put_off();
        if let Some(first) = state.ready.front() {
            let (tree, was_full) = (first.place.tree, state.ready.len() >= MOST_READY);
            let of_tree = state.ready.iter().take(BATCH).take_while(|settled| settled.place.tree == tree).count();
            let mut batch: Vec<_> = state.ready.drain(..of_tree).map(|settled| (settled.listed(), settled)).collect();
            batch.sort_by(|(one, _), (other, _)| list_order(one, other));
            // The later of two is newer, and a sort keeps their order.
            batch.dedup_by(|(later, newer), (first, older)| {
                let is_same = later == first;
                if is_same {
                    std::mem::swap(newer, older);
                }
                is_same
            });
            state.taken += batch.len();
            state.given += batch.len() as u64;
            drop(state);
            // A file that grows may be too far behind now.
            self.on_growth();
            if was_full {
                self.wake();
            }
            return Ok(Some(Next::Announce(tree, batch)));
        }
        if let Some(reason) = &state.failure {
            return Err(reason.clone());
        }
        let is_long = state.given >= SESSION && state.taken == 0;
        Ok(((state.is_last && state.later.is_empty()) || is_long).then_some(Next::End))
    }

    /// Signalled when a file that grows has grown, was closed or abandoned.
    pub(crate) fn grew(&self) -> &Receiver<()> {
        &self.growth.1
    }

    /// Handles that an announced item is published.
    pub(crate) fn published(&self, settled: Settled) {
        match settled.growing {
            Some(_) => self.tell(Told::Grown(settled)),
            None => self.durable(),
        }
    }

    /// Handles that an item which was to be announced was not, or that the receiver leaves it alone: a file that grows
    /// is announced again when it has settled.
    pub(crate) fn left_alone(&self, settled: Settled) {
        match settled.growing {
            Some(_) => self.changed(settled),
            None => self.durable(),
        }
    }

    /// Handles that an announced item is durable at the receiver, or need not travel.
    pub(crate) fn durable(&self) {
        self.tell(Told::Durable);
    }

    /// Handles that an announced item was changed while it was read: the watch thread has it settle
    /// again.
    pub(crate) fn changed(&self, settled: Settled) {
        self.tell(Told::Changed(settled));
    }

    /// Handles that an item is no longer what had settled, so that it is not announced; `settled` has its
    /// present version.
    pub(crate) fn outdated(&self, settled: Settled) {
        self.tell(Told::Outdated(settled));
    }

    /// Handles that an announced item has failed: it is tried again when it changes or the tree is
    /// walked.
    pub(crate) fn failed(&self, settled: Settled) {
        self.tell(Told::Failed(settled));
    }

    /// Passes news of an item to the watch thread; of durable items only when no other is under
    /// way.
    fn tell(&self, told: Told) {
        {
            let mut state = self.state();
            state.taken = state.taken.saturating_sub(1);
            if let Told::Changed(Settled { growing: Some(file), .. })
            | Told::Failed(Settled { growing: Some(file), .. })
            | Told::Grown(Settled { growing: Some(file), .. }) = &told
            {
                file.end();
            }
            match told {
                Told::Durable if state.taken > state.open() => return,
                told => state.told.push(told),
            }
        }
        // A long session may end now.
        let _ = self.bell.try_send(());
        self.wake();
    }

    /// Keeps a directory that was announced, to be announced anew if the session is cut.
    pub(crate) fn directory_announced(&self, settled: Settled) {
        let mut state = self.state();
        state.taken = state.taken.saturating_sub(1);
        let is_last = state.taken <= state.open();
        if state.directories.len() < MOST_DIRECTORIES {
            state.directories.push(settled);
        } else {
            state.has_lost_directories = true;
        }
        drop(state);
        if is_last {
            self.wake();
        }
    }

    /// Keeps what a session has counted that has ended before its work was done.
    pub(crate) fn carry(&self, counts: &Counts) {
        self.state().carried.add(counts);
    }

    /// Takes the counts of sessions that have ended before their work was done.
    pub(crate) fn take_carried(&self) -> Counts {
        std::mem::take(&mut self.state().carried)
    }

    /// Returns to the queue, for the next session, the items that a session which ended early had
    /// not made durable, and the directories that it had announced.
    pub(crate) fn give_back(&self, undone: Vec<Settled>) {
        {
            let mut state = self.state();
            state.taken = state.taken.saturating_sub(undone.len());
            undone.into_iter().rev().for_each(|settled| state.ready.push_front(settled));
            let directories = std::mem::take(&mut state.directories);
            directories.into_iter().rev().for_each(|settled| state.ready.push_front(settled));
            if std::mem::take(&mut state.has_lost_directories) {
                state.told.push(Told::DirectoriesLost);
            }
        }
        let _ = self.bell.try_send(());
        self.wake();
    }

    /// Locks the contents of the queue.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while settled items are passed on")
    }
}

impl State {
    /// Puts items whose files grow off until it is known whether the receiver takes them.
    fn put_off(&mut self) {
        if self.takes_growing.is_none() && self.ready.iter().any(|settled| settled.growing.is_some()) {
            let (later, ready): (Vec<_>, Vec<_>) = self.ready.drain(..).partition(|settled| settled.growing.is_some());
            self.later.extend(later);
            self.ready = ready.into();
        }
    }

    /// Number of files that travel while they grow, and are open.
    fn open(&self) -> usize {
        self.growing.iter().filter(|file| file.is_open()).count()
    }
}

impl AsFd for Queue {
    /// Readable when the watch thread has something to do.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl Settled {
    /// Path of the item as lists name it: that of a directory by itself ends in a slash; empty for the root.
    pub(crate) fn listed(&self) -> Vec<u8> {
        let mut path = self.place.path.clone();
        if self.is_directory && !path.is_empty() {
            path.push(b'/');
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(tree: u32, path: &str) -> Settled {
        let (path, is_directory) = (path.trim_end_matches('/').as_bytes().to_vec(), path.ends_with('/'));
        Settled { place: Place { tree, path }, is_directory, since: Time::ORIGIN, version: 0, growing: None }
    }

    fn names(next: Option<Next>) -> Vec<String> {
        let Some(Next::Announce(_, batch)) = next else { panic!("nothing is to be announced") };
        batch.into_iter().map(|(name, _)| String::from_utf8(name).unwrap()).collect()
    }

    #[test]
    fn a_batch_is_of_one_tree_in_the_order_of_a_scan_and_each_name_once() {
        let queue = Queue::new().unwrap();
        for path in ["b", "a/x", "a/", "b", "a.b"] {
            queue.add(settled(1, path));
        }
        queue.add(settled(2, "c"));
        assert_eq!(names(queue.take().unwrap()), ["a/", "a/x", "a.b", "b"]);
        assert_eq!(names(queue.take().unwrap()), ["c"]);
        assert!(queue.take().unwrap().is_none() && !queue.is_idle());
        (0..5).for_each(|_| queue.durable());
        assert!(queue.is_idle() && !queue.is_through());
        queue.end();
        assert!(matches!(queue.take(), Ok(Some(Next::End))) && queue.is_through());
    }

    #[test]
    fn what_a_session_has_not_made_durable_is_given_to_the_next_one() {
        let queue = Queue::new().unwrap();
        queue.begin_session();
        ["d/", "durable", "undone"].into_iter().for_each(|path| queue.add(settled(0, path)));
        assert_eq!(names(queue.take().unwrap()).len(), 3);
        queue.directory_announced(settled(0, "d/"));
        queue.durable();
        queue.add(settled(0, "later"));
        queue.give_back(vec![settled(0, "undone")]);
        queue.begin_session();
        assert_eq!(names(queue.take().unwrap()), ["d/", "later", "undone"]);
    }

    #[test]
    fn the_watch_thread_is_woken_when_the_last_item_is_through_be_it_a_directory() {
        let queue = Queue::new().unwrap();
        let is_woken = || rustix::io::read(&queue.wake, &mut [0; 8]).is_ok();
        ["d/", "d/x"].into_iter().for_each(|path| queue.add(settled(0, path)));
        assert_eq!(names(queue.take().unwrap()), ["d/", "d/x"]);
        queue.durable();
        assert!(!is_woken(), "a directory is left");
        queue.directory_announced(settled(0, "d/"));
        assert!(is_woken() && queue.is_idle());
    }

    /// An item whose file grows, of a file that exists.
    fn growing(path: &str) -> (Settled, Arc<GrowingFile>) {
        let file = std::fs::File::open("/dev/null").unwrap();
        let stat = icdc_disk::tree::Stat::of(&file).unwrap();
        let file = Arc::new(GrowingFile::new(file, stat));
        (Settled { growing: Some(Arc::clone(&file)), ..settled(0, path) }, file)
    }

    #[test]
    fn a_file_that_grows_is_no_work_until_it_is_closed() {
        let queue = Queue::new().unwrap();
        queue.begin_session();
        let (item, file) = growing("grows");
        queue.add(item.clone());
        assert!(queue.take().unwrap().is_none() && queue.is_idle(), "it is not known whether the receiver takes it");
        queue.takes_growing(true);
        assert_eq!(names(queue.take().unwrap()), ["grows"]);
        assert!(queue.is_idle());
        assert!(file.close(Time::ORIGIN, [0; 16]) && !queue.is_idle());
        queue.published(item);
        assert!(!queue.is_idle(), "the watch thread has not been told");
        assert!(matches!(queue.take_told().as_slice(), [Told::Grown(_)]) && queue.is_idle());
        assert_eq!(file.closed_at(), Some(Time::ORIGIN));
        assert!(!file.close(Time::ORIGIN, [0; 16]), "it is published");
    }

    #[test]
    fn of_an_older_receiver_a_file_that_grows_settles_as_any_other() {
        let queue = Queue::new().unwrap();
        queue.begin_session();
        let (item, file) = growing("grows");
        queue.add(item);
        queue.add(settled(0, "other"));
        assert_eq!(names(queue.take().unwrap()), ["other"]);
        queue.takes_growing(false);
        assert!(matches!(queue.take_told().as_slice(), [Told::Changed(_)]) && !file.is_open());
        queue.durable();
        queue.end();
        assert!(matches!(queue.take(), Ok(Some(Next::End))) && queue.is_through());
    }

    #[test]
    fn after_a_cut_a_file_that_grows_waits_for_the_next_receiver() {
        let queue = Queue::new().unwrap();
        queue.begin_session();
        queue.takes_growing(true);
        let (item, file) = growing("grows");
        queue.add(item.clone());
        assert_eq!(names(queue.take().unwrap()), ["grows"]);
        queue.give_back(vec![item]);
        queue.begin_session();
        queue.end();
        assert!(queue.take().unwrap().is_none() && !queue.is_through() && file.is_open());
        queue.takes_growing(true);
        assert_eq!(names(queue.take().unwrap()), ["grows"]);
    }

    #[test]
    fn a_long_session_ends_at_a_pause_and_a_failure_behind_what_was_ready() {
        let queue = Queue::new().unwrap();
        queue.begin_session();
        queue.state().given = SESSION - 1;
        queue.add(settled(0, "last"));
        assert_eq!(names(queue.take().unwrap()), ["last"]);
        assert!(queue.take().unwrap().is_none(), "it is not durable");
        queue.durable();
        assert!(matches!(queue.take(), Ok(Some(Next::End))) && !queue.is_through());
        queue.begin_session();
        assert!(queue.take().unwrap().is_none(), "the next session goes on");
        queue.add(settled(0, "x"));
        queue.fail("gone".to_owned());
        assert_eq!(names(queue.take().unwrap()), ["x"]);
        assert!(queue.take().is_err_and(|reason| reason == "gone") && queue.stops());
    }
}
