//! Decision what of the sources is copied: by rules over paths, and by what an item is.
//!
//! Whatever is left out here exists at the source. A receiver that removes what does not exist
//! there is to keep it.

use std::io::Read;

use icdc_disk::tree::{Directory, Kind, Name, Stat};
use icdc_filter::{Effect, PatternError, Rules};
use icdc_protocol::message::{Choice, TimeStamp};

/// Name of the file that marks a directory as a cache
/// (<https://bford.info/cachedir/>, Cache Directory Tagging Specification).
pub(super) const CACHE_TAG: &[u8] = b"CACHEDIR.TAG";
/// First bytes of a file [`CACHE_TAG`] that marks its directory as a cache.
const CACHE_SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// Choice of what is copied: a [`Choice`] with its rules compiled.
pub(super) struct Chosen {
    rules: Rules,
    choice: Choice,
}

/// Reason why an item that exists at the source is left out of the copy on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// A rule excludes the item, and what is beneath it.
    Rule,
    /// The regular file is smaller or larger than those that are copied.
    Size,
    /// The regular file was modified earlier or later than those that are copied.
    Age,
    /// The contents of the directory, which is on another file system than its source.
    FileSystem,
    /// The contents of the directory but [`CACHE_TAG`], which marks it as a cache.
    Cache,
}

impl Chosen {
    /// Compiles a choice.
    ///
    /// # Errors
    /// A rule whose pattern is none.
    pub(super) fn new(choice: &Choice) -> Result<Self, PatternError> {
        Ok(Self { rules: Rules::compile(&choice.rules)?, choice: choice.clone() })
    }

    /// Whether a rule excludes the item at `path`, which is relative to the transfer root.
    pub(super) fn excludes(&self, path: &[u8], is_directory: bool) -> bool {
        self.rules.decide(path, is_directory) == Effect::Exclude
    }

    /// Whether rules exclude the item at `path` whatever it is.
    pub(super) fn excludes_any(&self, path: &[u8]) -> bool {
        [false, true].into_iter().all(|is_directory| self.excludes(path, is_directory))
    }

    /// Reason why the item at `path`, relative to the transfer root, is left out; `None` if it is
    /// copied. If it is `known` that [`Self::excludes`] is false for an item of this kind, rules
    /// are not asked once more.
    pub(super) fn leaves_out(&self, path: &[u8], stat: &Stat, known: Option<Kind>) -> Option<Left> {
        let is_directory = stat.kind == Kind::Directory;
        let is_known = known.is_some_and(|kind| (kind == Kind::Directory) == is_directory);
        if !is_known && self.excludes(path, is_directory) {
            return Some(Left::Rule);
        }
        if stat.kind != Kind::File {
            return None;
        }
        let Choice { min_size, max_size, newer_than, older_than, .. } = &self.choice;
        let mtime = TimeStamp { seconds: stat.mtime.seconds, nanos: stat.mtime.nanos };
        let is_of_size = min_size.is_none_or(|least| stat.size >= least.as_u64())
            && max_size.is_none_or(|most| stat.size <= most.as_u64());
        let is_of_age = newer_than.is_none_or(|time| mtime > time) && older_than.is_none_or(|time| mtime < time);
        match (is_of_size, is_of_age) {
            (false, _) => Some(Left::Size),
            (true, false) => Some(Left::Age),
            (true, true) => None,
        }
    }

    /// Reason why the contents of a directory are left out, although the directory is copied;
    /// `None` if they are copied. `device` is the one of its source.
    pub(super) fn leaves_contents_out(&self, directory: &Directory, device: u64) -> Option<Left> {
        if self.choice.one_file_system && directory.own_stat().is_ok_and(|stat| stat.dev != device) {
            return Some(Left::FileSystem);
        }
        (self.choice.exclude_caches && is_cache(directory)).then_some(Left::Cache)
    }
}

impl Left {
    /// The only name that is copied of contents that are left out; `None` if there is none.
    pub(super) fn kept(self) -> Option<&'static [u8]> {
        (self == Self::Cache).then_some(CACHE_TAG)
    }
}

/// Whether a regular file in the directory marks it as a cache. One that cannot be read does not:
/// it is copied, and its error told.
fn is_cache(directory: &Directory) -> bool {
    let Ok(name) = Name::new(CACHE_TAG) else { return false };
    let Ok((file, _)) = directory.open_file(&name) else { return false };
    let mut start = Vec::with_capacity(CACHE_SIGNATURE.len());
    let read = file.take(CACHE_SIGNATURE.len() as u64).read_to_end(&mut start);
    read.is_ok() && start == CACHE_SIGNATURE
}

#[cfg(test)]
mod tests {
    use icdc_disk::tree::Tree;
    use icdc_filter::Rule;
    use icdc_units::ByteCount;

    use super::*;

    fn chosen(change: fn(&mut Choice)) -> Chosen {
        let mut choice = Choice::default();
        change(&mut choice);
        Chosen::new(&choice).unwrap()
    }

    #[test]
    fn what_is_left_out_has_a_reason() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("file"), "12345").unwrap();
        std::fs::create_dir(place.path().join("directory")).unwrap();
        let directory = Tree::unconfined(place.path()).unwrap().root().clone();
        let stat = |name: &str| directory.stat(&Name::new(name.as_bytes()).unwrap()).unwrap();
        let (file, inner) = (stat("file"), stat("directory"));
        for (choice, of_file, of_directory) in [
            (chosen(|_| ()), None, None),
            (chosen(|choice| choice.rules = vec![exclude("f*")]), Some(Left::Rule), None),
            (chosen(|choice| choice.rules = vec![exclude("*/")]), None, Some(Left::Rule)),
            (chosen(|choice| choice.min_size = Some(ByteCount::new(5))), None, None),
            (chosen(|choice| choice.min_size = Some(ByteCount::new(6))), Some(Left::Size), None),
            (chosen(|choice| choice.max_size = Some(ByteCount::new(5))), None, None),
            (chosen(|choice| choice.max_size = Some(ByteCount::new(4))), Some(Left::Size), None),
            (chosen(|choice| choice.newer_than = Some(TimeStamp { seconds: 1, nanos: 0 })), None, None),
            (chosen(|choice| choice.older_than = Some(TimeStamp { seconds: 1, nanos: 0 })), Some(Left::Age), None),
        ] {
            assert_eq!(choice.leaves_out(b"file", &file, None), of_file, "{:?}", choice.choice);
            assert_eq!(choice.leaves_out(b"directory", &inner, None), of_directory, "{:?}", choice.choice);
        }
        let exact = TimeStamp { seconds: file.mtime.seconds, nanos: file.mtime.nanos };
        let mut choice = Choice { newer_than: Some(exact), ..Choice::default() };
        assert_eq!(Chosen::new(&choice).unwrap().leaves_out(b"file", &file, None), Some(Left::Age));
        choice = Choice { older_than: Some(exact), ..Choice::default() };
        assert_eq!(Chosen::new(&choice).unwrap().leaves_out(b"file", &file, None), Some(Left::Age));
    }

    #[test]
    fn a_cache_is_what_its_tag_says() {
        let place = tempfile::tempdir().unwrap();
        let directory = Tree::unconfined(place.path()).unwrap().root().clone();
        let stat = directory.own_stat().unwrap();
        let (caches, all) = (chosen(|choice| choice.exclude_caches = true), chosen(|_| ()));
        let tag = place.path().join("CACHEDIR.TAG");
        let signature = String::from_utf8(CACHE_SIGNATURE.to_vec()).unwrap();
        let left = |choice: &Chosen| choice.leaves_contents_out(&directory, stat.dev);
        assert_eq!(left(&caches), None);
        for (text, expected) in [
            ("", None),
            (&signature[..42], None),
            (&signature.to_lowercase(), None),
            (&signature, Some(Left::Cache)),
            (&format!("{signature}\n# of a browser\n"), Some(Left::Cache)),
        ] {
            std::fs::write(&tag, text).unwrap();
            assert_eq!(left(&caches), expected, "{text:?}");
            assert_eq!(left(&all), None);
        }
        std::fs::rename(&tag, place.path().join("real")).unwrap();
        std::os::unix::fs::symlink("real", &tag).unwrap();
        assert_eq!(left(&caches), None, "a symbolic link is no tag");
    }

    #[test]
    fn contents_on_another_device_are_left_out() {
        let place = tempfile::tempdir().unwrap();
        let directory = Tree::unconfined(place.path()).unwrap().root().clone();
        let stat = directory.own_stat().unwrap();
        let one = chosen(|choice| choice.one_file_system = true);
        assert_eq!(one.leaves_contents_out(&directory, stat.dev), None);
        assert_eq!(one.leaves_contents_out(&directory, stat.dev ^ 1), Some(Left::FileSystem));
        assert_eq!(chosen(|_| ()).leaves_contents_out(&directory, stat.dev ^ 1), None);
    }

    fn exclude(pattern: &str) -> Rule {
        Rule { effect: Effect::Exclude, pattern: pattern.into() }
    }
}
