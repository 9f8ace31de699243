//! Sources and destination of a command line of rsync.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use icdc_client::Location;

/// Circumstances on which the meaning of rsync's command line depends, besides its words.
#[derive(Clone, Debug)]
pub(super) struct Surroundings {
    /// Whether this process is root.
    pub(super) is_root: bool,
    /// The environment's `RSYNC_RSH`.
    pub(super) shell: Option<OsString>,
    /// Tells of a local path whether it is a directory, and no link to one.
    pub(super) is_directory: fn(&Path) -> bool,
}

/// Sources and destination of a command line of rsync, for icdc's.
#[derive(Debug)]
pub(super) struct Places {
    /// In the order that makes icdc choose as rsync does where two sources have one name.
    pub(super) sources: Vec<OsString>,
    pub(super) destination: OsString,
    /// Whether what arrives can be given to any owner.
    pub(super) root_receives: bool,
    /// Whether another host takes part.
    pub(super) is_remote: bool,
}

impl Places {
    /// Reads sources and destination.
    ///
    /// # Errors
    /// There are too few, or one is no place for icdc.
    pub(super) fn new(mut places: Vec<OsString>, surroundings: &Surroundings) -> Result<Self, String> {
        let destination = places.pop().ok_or("name what to copy, and where to: icdc rsync [OPTION]... SRC... DST")?;
        if places.is_empty() {
            let place = destination.to_string_lossy();
            return Err(format!(
                "{place}: rsync lists what is named alone: write icdc ls {place}, or name where to as well"
            ));
        }
        on_one_host(&mut places);
        for place in places.iter().chain([&destination]) {
            Location::parse(place).map_err(|error| error.to_string())?;
        }
        let receiver = Location::parse(&destination).map_err(|error| error.to_string())?;
        let root_receives = match &receiver {
            Location::Local(_) => surroundings.is_root,
            Location::Ssh { host, .. } => {
                host.rsplit_once('@').map_or(surroundings.is_root, |(user, _)| user == "root")
            }
            Location::Daemon { .. } => false,
        };
        let is_remote = receiver.is_remote()
            || places.iter().any(|place| Location::parse(place).is_ok_and(|place| place.is_remote()));
        // Of one name in several sources, rsync takes the first, and icdc the last.
        if may_meet(&places) {
            places.reverse();
        }
        Ok(Self { sources: places, destination, root_receives, is_remote })
    }

    /// The first source that is, or may be, a directory, which rsync skips without `-r`.
    pub(super) fn directory(&self, surroundings: &Surroundings) -> Option<&OsStr> {
        let may_be_one = |place: &&OsString| match Location::parse(place) {
            Ok(Location::Local(path)) => is_contents(place) || (surroundings.is_directory)(&path),
            _ => true,
        };
        self.sources.iter().find(may_be_one).map(OsString::as_os_str)
    }
}

/// Names the host of the first source in all others of its host (`host:a :b`).
fn on_one_host(sources: &mut [OsString]) {
    let Some(Ok(Location::Ssh { .. })) = sources.first().map(|first| Location::parse(first)) else { return };
    let first = sources[0].as_bytes();
    let end = first.windows(2).position(|pair| pair == b"]:").map(|bracket| bracket + 1);
    let end = end.or_else(|| first.iter().position(|&byte| byte == b':')).unwrap_or(0);
    let host = OsStr::from_bytes(&first[..end]).to_owned();
    for source in &mut sources[1..] {
        if source.as_bytes().starts_with(b":") {
            let mut whole = host.clone();
            whole.push(&source);
            *source = whole;
        }
    }
}

/// Whether a source stands for what is in a directory, such as `dir/` or `.`.
fn is_contents(place: &OsStr) -> bool {
    let path = place.as_bytes();
    [b"/".as_slice(), b"/.", b"/..", b":", b":.", b":.."].iter().any(|end| path.ends_with(end))
        || path == b"."
        || path == b".."
}

/// Whether two sources may have items that get the same name at the destination.
fn may_meet(sources: &[OsString]) -> bool {
    let mut names: Vec<&[u8]> = sources
        .iter()
        .map(|source| source.as_bytes().rsplit(|&byte| matches!(byte, b'/' | b':')).next().unwrap_or_default())
        .collect();
    names.sort_unstable();
    sources.len() > 1
        && (sources.iter().any(|source| is_contents(source)) || names.windows(2).any(|pair| pair[0] == pair[1]))
}
