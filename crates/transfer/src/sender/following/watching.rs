//! The watch thread: takes events, examines what is due, and ends the following.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;
use std::sync::Arc;

use icdc_disk::tree::{Kind, Stat, is_staging};
use icdc_filter::{Effect, Rules};
use icdc_protocol::message::SendOptions;
use icdc_tcp::clock::timespec;
use icdc_units::{Span, Time};
use icdc_watch::{Candidates, Delays, Due, Event as Change, Place, Settling, Verdict, Watcher, What, reports_changes};
use rustix::event::{PollFd, PollFlags, poll};

use super::growth_options::GrowthOptions;
use super::known::Known;
use super::options::FollowOptions;
use super::tree::FollowedTree;
use super::walk::Walk;
use crate::clock;
use crate::event::{Event, EventSink};
use crate::path_text;
use crate::sender::chosen::Chosen;
use crate::sender::growing_file::GrowingFile;
use crate::sender::settled::{Queue, Settled, Told};
use crate::sender::source_version::version_of;

/// Time after a close in which a file may be renamed or opened again before it travels. It is a part of the lag of each
/// file, and longer than what lies between the close and the renaming of a program that writes aside.
const AFTER_CLOSE: Span = Span::from_millis(200);
/// Time between two walks where changes are not reported.
const SCAN_INTERVAL: Span = Span::from_secs(10);
/// Walks take at most one part in this many of the time.
const WALK_SHARE: u64 = 10;
/// Most files that are named because they had not settled at the end.
const NAMED: usize = 5;
/// Longest pause of the watch thread. All that it waits for wakes it, but for the removal of a root: the kernel reports
/// that only when nobody has the directory open, as this thread has.
const LONGEST_PAUSE: Span = Span::from_secs(10);

/// State of the thread that watches the followed sources for the whole run.
pub(super) struct Watching {
    trees: Vec<FollowedTree>,
    pub(super) chosen: Chosen,
    options: FollowOptions,
    marker_pattern: Rules,
    pub(super) queue: Arc<Queue>,
    events: EventSink,
    /// Watches the directories; `None` where that is not possible.
    pub(super) watcher: Option<Watcher>,
    pub(super) settling: Settling,
    pub(super) known: Known,
    /// Files that are being written, and are looked at.
    pub(super) candidates: Candidates,
    /// Files that travel while they grow, until they are published or given up.
    pub(super) growing: HashMap<Place, Arc<GrowingFile>>,
    pub(super) growth: GrowthOptions,
    /// Device and inode of files that do not travel while they grow, as they were given up once.
    pub(super) refused: HashSet<(u64, u64)>,
    pub(super) walk: Walk,
    /// Time between two walks; `None` while the watches tell everything.
    interval: Option<Span>,
    walked: Walked,
    /// Time at which the following was asked to end; `None` until then.
    finishing: Option<Time>,
    /// Time of the last change, or of the last item that became durable.
    pub(super) active: Time,
    /// Markers that were found, which travel last.
    markers: Vec<Settled>,
    /// Problems that were told; each is told once.
    told: Vec<String>,
}

/// Progress of the walk: when the one that goes on began, or when the last one ended and how long
/// it took.
#[derive(Clone, Copy)]
enum Walked {
    UnderWay { since: Time },
    Over { at: Time, took: Span },
}

impl Walked {
    /// Time at which it began.
    fn begun(self) -> Time {
        match self {
            Self::UnderWay { since } => since,
            Self::Over { at, took } => at - took,
        }
    }
}

impl Watching {
    /// State at the beginning of a run, with the watches begun; an error is a sentence for the
    /// user.
    pub(super) fn new(
        trees: Vec<FollowedTree>,
        send: &SendOptions,
        options: FollowOptions,
        queue: Arc<Queue>,
        events: EventSink,
    ) -> Result<Self, String> {
        let chosen = Chosen::new(&send.choice).map_err(|error| error.to_string())?;
        let marker_pattern = options.marker()?;
        let delays = Delays { settle: options.settle, after_close: AFTER_CLOSE.min(options.settle) };
        let now = clock::now();
        let mut watching = Self {
            trees,
            chosen,
            interval: options.scan_interval,
            marker_pattern,
            options,
            queue,
            events,
            watcher: None,
            candidates: Candidates::new(delays.settle),
            growing: HashMap::new(),
            growth: GrowthOptions::of(send),
            refused: HashSet::new(),
            settling: Settling::new(delays),
            known: Known::default(),
            walk: Walk::default(),
            walked: Walked::UnderWay { since: now },
            finishing: None,
            active: now,
            markers: Vec::new(),
            told: Vec::new(),
        };
        watching.begin();
        Ok(watching)
    }

    /// Begins to watch, if changes are reported.
    fn begin(&mut self) {
        match Watcher::new() {
            Ok(watcher) => self.watcher = Some(watcher),
            Err(error) => self
                .walk_at_intervals(&format!("nothing can be watched: {error} (sysctl fs.inotify.max_user_instances)")),
        }
        let is_silent = |tree: &&FollowedTree| reports_changes(&tree.root).is_ok_and(|reports| !reports);
        if let Some(text) = self.trees.iter().find(is_silent).map(|tree| tree.text.clone()) {
            self.walk_at_intervals(&format!("{text}: its file system does not report what other hosts change"));
        }
    }

    /// Body of the watch thread: watches and walks the sources until nothing more is to be added to
    /// the queue.
    pub(super) fn run(mut self) {
        let finish = {
            let queue = Arc::downgrade(&self.queue);
            self.options.finish.while_waiting(move || {
                if let Some(queue) = queue.upgrade() {
                    queue.wake();
                }
            })
        };
        self.walk_all(clock::now());
        loop {
            let now = clock::now();
            self.take_told(now);
            self.take_changes(now);
            self.walk_on(now);
            self.examine_due(now);
            self.look_at_candidates(now);
            self.note_walked(now);
            self.check_roots();
            if self.queue.stops() || self.ends(now) {
                break;
            }
            self.wait(now);
        }
        drop(finish);
    }

    /// The followed tree that a place belongs to.
    pub(super) fn tree(&self, place: &Place) -> Option<&FollowedTree> {
        self.trees.iter().find(|tree| tree.number == place.tree)
    }

    /// Whether rules exclude what is at this place, or it belongs to no followed tree.
    pub(super) fn is_excluded(&self, place: &Place, is_directory: bool) -> bool {
        self.tree(place).is_none_or(|tree| tree.is_excluded(&self.chosen, place, is_directory))
    }

    /// Whether too many items wait to settle or to be announced, so that a walk pauses.
    pub(super) fn is_full(&self) -> bool {
        self.settling.is_full() || self.queue.is_full()
    }

    /// Has the sources walked at intervals from now on, and notifies the user of the reason.
    pub(super) fn walk_at_intervals(&mut self, reason: &str) {
        let interval = *self.interval.get_or_insert(SCAN_INTERVAL);
        self.tell_once(format!("{reason}; the sources are walked every {interval}"));
    }

    /// Notifies the user, unless of this text before.
    pub(super) fn tell_once(&mut self, text: String) {
        const MOST_TOLD: usize = 100;
        if self.told.len() < MOST_TOLD && !self.told.contains(&text) {
            self.told.push(text.clone());
            (self.events)(Event::Notice { text });
        }
    }

    /// Walks all trees from their roots.
    fn walk_all(&mut self, now: Time) {
        self.walk.end();
        self.walked = Walked::UnderWay { since: now };
        for number in 0..self.trees.len() {
            let root = Place { tree: self.trees[number].number, path: Vec::new() };
            if let Ok(stat) = self.trees[number].root.own_stat() {
                self.queue_unless_known(now, &root, &stat);
            }
            self.walk.add(root);
        }
    }

    /// Notes the end of a walk, and begins the next one when it is time.
    fn note_walked(&mut self, now: Time) {
        match self.walked {
            Walked::UnderWay { since } if self.walk.is_over() => {
                self.walked = Walked::Over { at: now, took: now - since }
            }
            Walked::Over { .. } if self.next_walk().is_some_and(|next| next <= now) => self.walk_all(now),
            _ => {}
        }
    }

    /// Time of the next walk; `None` if none is due, or one is under way.
    fn next_walk(&self) -> Option<Time> {
        match (self.walked, self.interval) {
            (Walked::Over { at, took }, Some(interval)) => Some(at + interval.max(took * (WALK_SHARE - 1))),
            _ => None,
        }
    }

    /// Ends the following if the root of a tree was removed.
    fn check_roots(&self) {
        let is_removed = |tree: &&FollowedTree| tree.root.own_stat().is_ok_and(|stat| stat.nlink == 0);
        if let Some(tree) = self.trees.iter().find(is_removed) {
            self.queue.fail(format!("{}: was removed while it was followed", tree.text));
        }
    }

    /// Handles the news of sessions about the items that they were given.
    fn take_told(&mut self, now: Time) {
        for told in self.queue.take_told() {
            self.active = now;
            match told {
                Told::Durable => {}
                Told::Grown(settled) => self.grown(now, &settled),
                Told::Changed(settled) if settled.growing.is_some() => {
                    self.known.remove(&settled.place);
                    self.growth_ended(&settled);
                    self.settling.touched(now, &settled.place);
                }
                Told::Changed(settled) => {
                    self.known.remove(&settled.place);
                    self.settling.seen(now, &settled.place, settled.version);
                }
                // It may have settled as it is now, too.
                Told::Outdated(settled) if !self.known.has(&settled.place, settled.version) => {
                    self.known.remove(&settled.place);
                    self.settling.seen(now, &settled.place, settled.version);
                }
                Told::Outdated(_) => {}
                Told::Failed(settled) => {
                    self.known.remove(&settled.place);
                    self.growth_ended(&settled);
                }
                Told::DirectoriesLost => {
                    self.known.clear();
                    self.walk_all(now);
                }
            }
        }
    }

    /// Takes the changes that were reported.
    fn take_changes(&mut self, now: Time) {
        let Some(watcher) = &mut self.watcher else { return };
        let changes = match watcher.take() {
            Ok(changes) => changes,
            Err(error) => {
                self.watcher = None;
                return self.walk_at_intervals(&format!("changes cannot be read: {error}"));
            }
        };
        for change in changes {
            self.active = now;
            self.handle(now, change);
        }
        if self.settling.take_dropped() {
            self.walk_all(now);
        }
    }

    /// Handles one reported change; the loss of changes has the trees walked.
    fn handle(&mut self, now: Time, Change { place, is_directory, what }: Change) {
        if what == What::Lost {
            tracing::debug!("changes were lost; the trees are walked");
            self.settling.lost(now);
            return self.walk_all(now);
        }
        let name = place.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if is_staging(name) {
            return;
        }
        if is_directory { self.handle_directory(now, &place, &what) } else { self.handle_file(now, &place, what) }
    }

    /// Handles a change of a directory: one that was made or has come is walked, one that is gone
    /// is forgotten.
    fn handle_directory(&mut self, now: Time, place: &Place, what: &What) {
        if let What::Moved(from) = what {
            self.forget(from);
        }
        match what {
            What::Gone => self.forget(place),
            What::Created | What::Arrived | What::Moved(_) if !self.is_excluded(place, true) => {
                self.forget(place);
                if let Some(Ok(stat)) = self.tree(place).map(|tree| tree.stat(place)) {
                    self.queue_unless_known(now, place, &stat);
                }
                if let Walked::Over { .. } = self.walked {
                    self.walked = Walked::UnderWay { since: now };
                }
                self.walk.add(place.clone());
            }
            What::Touched if !self.is_excluded(place, true) => {
                if let Some(Ok(stat)) = self.tree(place).map(|tree| tree.stat(place)) {
                    self.queue_unless_known(now, place, &stat);
                }
            }
            _ => {}
        }
    }

    /// Forgets what is known of a directory that is no longer at this place, and of everything
    /// beneath it.
    fn forget(&mut self, place: &Place) {
        self.settling.forget(place);
        self.abandon_within(place);
        if let Some(watcher) = &mut self.watcher {
            watcher.forget(place);
        }
    }

    /// Handles a change of what is no directory, from which it follows when that has settled.
    fn handle_file(&mut self, now: Time, place: &Place, what: What) {
        if self.is_excluded(place, false) {
            if let What::Moved(from) = what {
                self.abandon(&from);
                self.settling.gone(&from);
            }
            return;
        }
        match &what {
            What::Written => self.on_growth(now, place),
            What::Created | What::Arrived | What::Gone => self.abandon(place),
            What::Moved(from) => [from, place].into_iter().for_each(|place| self.abandon(place)),
            What::Closed | What::Touched | What::Lost => {}
        }
        match what {
            What::Created => match self.tree(place).map(|tree| tree.stat(place)) {
                Some(Ok(stat)) if stat.kind == Kind::File && stat.nlink == 1 => self.settling.written(now, place),
                Some(Ok(_)) => self.settling.closed(now, place),
                Some(Err(_)) | None => {}
            },
            What::Written => self.settling.written(now, place),
            What::Closed | What::Arrived => self.settling.closed(now, place),
            What::Touched => {
                let stat = self.tree(place).and_then(|tree| tree.stat(place).ok());
                if stat.is_some_and(|stat| !self.known.has(place, version_of(&stat))) {
                    self.settling.touched(now, place);
                }
            }
            What::Moved(from) => self.settling.moved(now, &from, place),
            What::Gone => {
                self.settling.gone(place);
                self.known.remove(place);
                self.markers.retain(|marker| marker.place != *place);
            }
            What::Lost => {}
        }
    }

    /// Examines the names whose waiting time is over; what has settled is queued for announcement.
    fn examine_due(&mut self, now: Time) {
        while !self.queue.is_full()
            && let Some((place, due)) = self.settling.due(now)
        {
            let stat = self.tree(&place).and_then(|tree| tree.stat(&place).ok());
            match stat {
                Some(stat) if stat.kind == Kind::File => {
                    let version = version_of(&stat);
                    if self.is_left_alone(now, &place, due)
                        && let Verdict::Settled { since } = self.settling.examined(now, &place, Some(version))
                        && !self.closes_growing(&place, &stat, since)
                        && !self.known.has(&place, version)
                    {
                        self.settled(Settled { place, is_directory: false, since, version, growing: None });
                    }
                }
                Some(stat) if stat.kind != Kind::Directory => {
                    self.abandon(&place);
                    self.settling.gone(&place);
                    self.queue_unless_known(now, &place, &stat);
                }
                Some(_) | None => {
                    self.abandon(&place);
                    self.settling.gone(&place);
                }
            }
        }
    }

    /// Whether the file at this place, which is due, is to be examined: not if a program has it open, as far as the
    /// kernel tells. One that counts as open and is not was closed.
    fn is_left_alone(&mut self, now: Time, place: &Place, due: Due) -> bool {
        if due == Due::Quiet && self.settling.was_closed(place) {
            return true;
        }
        match (due, self.tree(place).and_then(|tree| tree.has_writers(place))) {
            (Due::Quiet, Some(true)) => self.settling.written(now, place),
            (Due::Open, Some(false)) => self.settling.closed(now, place),
            (Due::Quiet, Some(false) | None) => return true,
            (Due::Open, Some(true) | None) => {}
        }
        false
    }

    /// Queues an item that need not settle, such as a directory or a link, unless it was queued in
    /// this version before.
    pub(super) fn queue_unless_known(&mut self, now: Time, place: &Place, stat: &Stat) {
        let version = version_of(stat);
        if !self.known.has(place, version) {
            let is_directory = stat.kind == Kind::Directory;
            self.settled(Settled { place: place.clone(), is_directory, since: now, version, growing: None });
        }
    }

    /// Queues a settled item for announcement; a marker is kept back, as it travels last.
    fn settled(&mut self, settled: Settled) {
        let path = self.tree(&settled.place).map(|tree| tree.path_from_root(&settled.place)).unwrap_or_default();
        self.known.insert(&settled.place, settled.version);
        if !settled.is_directory && self.is_marker(&path) {
            self.markers.retain(|marker| marker.place != settled.place);
            self.markers.push(settled);
            return;
        }
        self.active = settled.since.max(self.active);
        self.queue.add(settled);
    }

    /// Whether this is the path of a marker, from the transfer root.
    pub(super) fn is_marker(&self, path: &[u8]) -> bool {
        self.marker_pattern.decide(path, false) == Effect::Exclude
    }

    /// Ends the following if the user's request, a marker or the time without changes says so;
    /// returns whether it has ended.
    fn ends(&mut self, now: Time) -> bool {
        let is_finished = self.options.finish.is_requested() || self.options.until.is_some_and(|until| until <= now);
        if is_finished {
            return self.finishes(now);
        }
        if !self.markers.is_empty() {
            // What is written again and again is not waited for.
            self.settling.hasten(now);
        }
        let is_at_rest = self.walk.is_over() && self.queue.is_idle();
        if is_at_rest && self.settling.unsettled() == 0 && !self.markers.is_empty() && self.was_walked_since_markers() {
            self.markers.drain(..).for_each(|marker| self.queue.add(marker));
            self.queue.end();
            return true;
        }
        let idle = self.options.idle.map(|idle| self.active + idle).filter(|idle| *idle <= now);
        if let Some(idle) = idle
            && is_at_rest
            && self.settling.unsettled() == self.settling.open()
        {
            if !self.was_walked_since(idle) {
                self.walk_all(now);
                return false;
            }
            self.tell_unsettled();
            self.abandon_open();
            self.queue.end();
            return true;
        }
        false
    }

    /// Whether all that was there when the marker files (`--final`) were closed has been seen, so
    /// that they may travel as the last and the following may end. Always true where the sources
    /// are not walked at intervals.
    fn was_walked_since_markers(&self) -> bool {
        self.markers.iter().all(|marker| self.was_walked_since(marker.since))
    }

    /// Whether all that was there at that time has been seen: where changes are not reported, by a walk that began
    /// later and is over.
    fn was_walked_since(&self, time: Time) -> bool {
        self.interval.is_none() || matches!(self.walked, Walked::Over { .. }) && time <= self.walked.begun()
    }

    /// Ends the following with what has settled; false while something is still waited for.
    fn finishes(&mut self, now: Time) -> bool {
        let asked = *self.finishing.get_or_insert(now);
        self.settling.hasten(now);
        self.examine_due(now);
        if self.awaits_last_walk(now, asked) {
            return false;
        }
        // A marker says that nothing is missing.
        if self.walk.is_over() && self.settling.unsettled() == 0 && !self.markers.is_empty() {
            if !self.queue.is_idle() {
                return false;
            }
            self.markers.drain(..).for_each(|marker| self.queue.add(marker));
        }
        if self.growing.values().any(|file| !file.is_open()) {
            // One that was written to elsewhere while it was open travels anew.
            return false;
        }
        self.tell_unsettled();
        self.abandon_open();
        self.queue.end();
        true
    }

    /// Whether, where changes are not reported, a last walk is under way, or files that it has found have yet to
    /// be left alone for the time after which they have settled.
    fn awaits_last_walk(&mut self, now: Time, asked: Time) -> bool {
        if self.interval.is_none() {
            return false;
        }
        if self.walked.begun() < asked {
            self.walk_all(now);
        }
        match self.walked {
            Walked::UnderWay { .. } => true,
            Walked::Over { at, .. } => {
                self.settling.unsettled() > self.settling.open() && now - at <= self.options.settle
            }
        }
    }

    /// Notifies the user of files that had not settled, and of a marker that did not follow them.
    fn tell_unsettled(&mut self) {
        let markers = self.markers.iter().map(|marker| &marker.place);
        let places = self.settling.places().chain(markers).filter_map(|place| Some(self.tree(place)?.path_of(place)));
        let mut paths: Vec<_> = places.collect();
        paths.sort_unstable();
        let count = paths.len();
        if count == 0 {
            return;
        }
        let named: Vec<_> = paths.iter().take(NAMED).map(|path| path_text(path)).collect();
        let more = if count > NAMED { format!(" and {} more", count - NAMED) } else { String::new() };
        let text = format!(
            "left out, as they had not settled: {}{more}; the same command copies what is new of them",
            named.join(", ")
        );
        (self.events)(Event::Notice { text });
    }

    /// Waits until there is something to do.
    fn wait(&mut self, now: Time) {
        let walks = !self.walk.is_over() && !self.is_full();
        let idle = self.options.idle.map(|idle| self.active + idle).filter(|_| self.queue.is_idle());
        let due = self.settling.next_deadline().filter(|_| !self.queue.is_full());
        let looks = self.next_look();
        let later = [self.options.until, idle].map(|time| time.filter(|time| *time > now));
        let next = later
            .into_iter()
            .chain([due, looks, self.next_walk()])
            .flatten()
            .min()
            .map_or(LONGEST_PAUSE, |next| next - now);
        let pause = if walks { Span::ZERO } else { next.min(LONGEST_PAUSE) };
        let mut descriptors = vec![PollFd::new(&*self.queue, PollFlags::IN)];
        if let Some(watcher) = &self.watcher {
            descriptors.push(PollFd::from_borrowed_fd(watcher.as_fd(), PollFlags::IN));
        }
        // An interrupted wait is as good as one that has ended.
        let _ = poll(&mut descriptors, Some(&timespec(pause)));
    }
}
