//! inotify over the directories of followed trees: which name has met what.
//!
//! Directories are watched by descriptors, so that nothing is watched that a link leads to. The kernel watches a
//! directory by its inode, wherever it is: when a directory is renamed, what was known of it and of everything beneath
//! is [forgotten](Watcher::forget), and it is watched anew by whoever walks it at its new place.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::mem::MaybeUninit;
use std::ops::Bound;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use crate::Place;

/// Bytes of events that are read at a time: some hundreds.
const BUFFER: usize = 64 << 10;
/// Most events that are taken at once, so that whoever takes them comes to something else, too.
const MOST_TAKEN: usize = 1 << 14;

/// Changes that are reported: those of names and contents, and of attributes.
const CHANGES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::EXCL_UNLINK);

/// A change in a followed tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Name that the change is about.
    pub place: Place,
    /// Whether the name is that of a directory.
    pub is_directory: bool,
    /// The change.
    pub what: What,
}

/// Kind of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The name was made: a file that is open, a directory, or a further name of a file.
    Created,
    /// Contents were written.
    Written,
    /// The file was closed by a writer.
    Closed,
    /// Attributes were changed.
    Touched,
    /// What had the name was removed, or renamed to a place that is not watched.
    Gone,
    /// Something that was not watched was renamed to here.
    Arrived,
    /// What was at this other place was renamed to here.
    Moved(Place),
    /// Events were lost: there were too many.
    Lost,
}

/// Reason why a directory is not watched by inotify.
#[derive(Debug, thiserror::Error)]
pub enum NotWatched {
    /// The user has as many watches as are allowed.
    #[error("this user may watch no more directories (sysctl fs.inotify.max_user_watches)")]
    TooMany,
    /// Another error of the kernel.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// inotify, with the places in followed trees of the directories that it watches.
#[derive(Debug)]
pub struct Watcher {
    inotify: OwnedFd,
    buffer: Box<[MaybeUninit<u8>]>,
    /// Places of each watched directory: several, where trees overlap.
    places: HashMap<i32, Vec<Place>>,
    watches: BTreeMap<Place, i32>,
    /// First half of a renaming, whose second half may follow.
    leaving: Option<Leaving>,
}

/// First half of a renaming: the former names, until the kernel reports the second half.
#[derive(Debug)]
struct Leaving {
    cookie: u32,
    is_directory: bool,
    places: Vec<Place>,
}

impl AsFd for Watcher {
    /// Readable while there are events.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

impl Watcher {
    /// Opens inotify, which watches nothing yet.
    ///
    /// # Errors
    /// The user has as many inotify instances as are allowed, or the process as many descriptors.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            inotify: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?,
            buffer: vec![MaybeUninit::uninit(); BUFFER].into(),
            places: HashMap::new(),
            watches: BTreeMap::new(),
            leaving: None,
        })
    }

    /// Watches this directory, which is at `place`. What is in it is to be listed after this.
    ///
    /// # Errors
    /// See [`NotWatched`].
    pub fn watch(&mut self, directory: impl AsFd, place: &Place) -> Result<(), NotWatched> {
        let path = format!("/proc/self/fd/{}", directory.as_fd().as_raw_fd());
        let watch = match inotify::add_watch(&self.inotify, path, CHANGES) {
            Ok(watch) => watch,
            Err(Errno::NOSPC) => return Err(NotWatched::TooMany),
            Err(errno) => return Err(NotWatched::System(errno.into())),
        };
        if self.watches.get(place).is_some_and(|before| *before != watch) {
            self.forget_one(place);
        }
        self.watches.insert(place.clone(), watch);
        let places = self.places.entry(watch).or_default();
        if !places.contains(place) {
            places.push(place.clone());
        }
        Ok(())
    }

    /// Watches this directory and those beneath it no more, as they are no longer at these places.
    pub fn forget(&mut self, directory: &Place) {
        let from = self.watches.range((Bound::Included(directory), Bound::Unbounded)).map(|(place, _)| place);
        let same_start =
            from.take_while(|place| place.tree == directory.tree && place.path.starts_with(&directory.path));
        let within: Vec<Place> = same_start.filter(|place| place.is_within(directory)).cloned().collect();
        within.iter().for_each(|place| self.forget_one(place));
    }

    /// Watches a directory no more at this place; the kernel's watch ends with the last place.
    fn forget_one(&mut self, place: &Place) {
        let Some(watch) = self.watches.remove(place) else { return };
        let Some(places) = self.places.get_mut(&watch) else { return };
        places.retain(|other| other != place);
        if places.is_empty() {
            self.places.remove(&watch);
            // It may be gone together with its directory.
            let _ = inotify::remove_watch(&self.inotify, watch);
        }
    }

    /// Number of directories that are watched.
    #[must_use]
    pub fn watched(&self) -> usize {
        self.watches.len()
    }

    /// Takes the events that have come, in their order, without waiting.
    ///
    /// # Errors
    /// The events cannot be read.
    pub fn take(&mut self) -> io::Result<Vec<Event>> {
        let mut events = Vec::new();
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut reader = Reader::new(self.inotify.as_fd(), &mut buffer);
        let mut raw = Vec::new();
        let outcome = loop {
            if raw.len() >= MOST_TAKEN && reader.is_buffer_empty() {
                break Ok(());
            }
            match reader.next() {
                Ok(event) => raw.push(Raw {
                    watch: event.wd(),
                    flags: event.events(),
                    cookie: event.cookie(),
                    name: event.file_name().map(|name| name.to_bytes().to_vec()).unwrap_or_default(),
                }),
                Err(Errno::AGAIN) => break Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => break Err(errno.into()),
            }
        };
        self.buffer = buffer;
        raw.into_iter().for_each(|event| self.translate(event, &mut events));
        // Whatever is renamed within the trees has both its halves in the queue at once.
        self.end_leaving(&mut events);
        outcome.map(|()| events)
    }

    /// Converts an event of the kernel to those of followed names; both halves of a renaming become
    /// one.
    fn translate(&mut self, event: Raw, events: &mut Vec<Event>) {
        let Raw { watch, flags, cookie, name } = event;
        let is_directory = flags.contains(ReadFlags::ISDIR);
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            let root = Place { tree: 0, path: Vec::new() };
            events.push(Event { place: root, is_directory: true, what: What::Lost });
            return;
        }
        let directories = self.places.get(&watch).cloned().unwrap_or_default();
        if flags.contains(ReadFlags::MOVED_TO)
            && let Some(Leaving { places, .. }) = self.leaving.take_if(|leaving| leaving.cookie == cookie)
        {
            return join(&places, &directories, &name, is_directory, events);
        }
        self.end_leaving(events);
        if flags.contains(ReadFlags::MOVED_FROM) {
            let places = directories.iter().map(|directory| directory.entry(&name)).collect();
            self.leaving = Some(Leaving { cookie, is_directory, places });
            return;
        }
        // It was removed, or its file system was unmounted.
        if flags.contains(ReadFlags::IGNORED) {
            for place in self.places.remove(&watch).unwrap_or_default() {
                self.watches.remove(&place);
            }
            return;
        }
        let Some(what) = what(flags) else { return };
        // Attributes of a watched directory are told of its name in the one above, too.
        let named = |directory: &Place| if name.is_empty() { directory.clone() } else { directory.entry(&name) };
        events.extend(directories.iter().map(|directory| Event {
            place: named(directory),
            is_directory: is_directory || name.is_empty(),
            what: what.clone(),
        }));
    }

    /// Ends a renaming whose second half was not seen.
    fn end_leaving(&mut self, events: &mut Vec<Event>) {
        if let Some(Leaving { is_directory, places, .. }) = self.leaving.take() {
            events.extend(places.into_iter().map(|place| Event { place, is_directory, what: What::Gone }));
        }
    }
}

/// An event of inotify, copied from the kernel's buffer.
struct Raw {
    watch: i32,
    flags: ReadFlags,
    cookie: u32,
    name: Vec<u8>,
}

/// Change that an event is about; `None` for none that counts.
fn what(flags: ReadFlags) -> Option<What> {
    let table = [
        (ReadFlags::CREATE, What::Created),
        (ReadFlags::CLOSE_WRITE, What::Closed),
        (ReadFlags::MODIFY, What::Written),
        (ReadFlags::ATTRIB, What::Touched),
        (ReadFlags::MOVED_TO, What::Arrived),
        (ReadFlags::DELETE, What::Gone),
    ];
    table.into_iter().find(|(flag, _)| flags.contains(*flag)).map(|(_, what)| what)
}

/// Events of something that was renamed from one of these places to a name in one of these directories.
fn join(from: &[Place], to: &[Place], name: &[u8], is_directory: bool, events: &mut Vec<Event>) {
    for place in from.iter().skip(to.len()) {
        events.push(Event { place: place.clone(), is_directory, what: What::Gone });
    }
    for (number, directory) in to.iter().enumerate() {
        let what = from.get(number).map_or(What::Arrived, |from| What::Moved(from.clone()));
        events.push(Event { place: directory.entry(name), is_directory, what });
    }
}
