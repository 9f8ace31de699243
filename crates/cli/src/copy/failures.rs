//! Failed items on standard error: each cause once, when it is first met, and at the end how many
//! items there were and the first of their names.

use std::collections::HashMap;

use icdc_disk::tree::is_staging;

/// Number of causes that are kept apart. Items of later ones are reported one by one.
const MOST_CAUSES: usize = 1000;
/// Number of items of a cause that are named at the end, besides the first.
const NAMED: usize = 2;

/// Failed items grouped by cause, so that each cause is printed once.
#[derive(Default)]
pub(crate) struct Failures {
    /// Index into `groups` by cause: the reason of the group's first item, with and without its
    /// name.
    causes: HashMap<String, usize>,
    /// Groups in the order in which their causes were met.
    groups: Vec<Group>,
}

/// The failed items of one cause.
struct Group {
    first: String,
    /// The next ones, [`NAMED`] at most.
    named: Vec<String>,
    /// Number of items after the first.
    further: u64,
}

impl Failures {
    /// Takes a failed item; returns the sentence to print now, `None` if its cause has been told.
    pub(crate) fn add(&mut self, path: &str, reason: &str) -> Option<String> {
        // A directory's own reason is that of what is in it.
        let causes = [reason.to_owned(), cause(path, reason)];
        let known = causes.iter().find_map(|cause| self.causes.get(cause));
        if let Some(group) = known.and_then(|number| self.groups.get_mut(*number)) {
            group.further += 1;
            if group.named.len() < NAMED {
                group.named.push(path.to_owned());
            }
            return None;
        }
        if self.groups.len() < MOST_CAUSES {
            self.causes.extend(causes.map(|cause| (cause, self.groups.len())));
            self.groups.push(Group { first: path.to_owned(), named: Vec::new(), further: 0 });
        }
        Some(told(path, reason))
    }

    /// Takes the lines to print at the end of the run: one for each cause of several items.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        self.causes.clear();
        let groups = std::mem::take(&mut self.groups).into_iter().filter(|group| group.further > 0);
        groups.map(|group| group.line()).collect()
    }
}

impl Group {
    /// The line about the items after the first.
    fn line(&self) -> String {
        let Self { first, named, further } = self;
        let more = *further - named.len() as u64;
        let mut names = named.join(", ");
        if more > 0 {
            let items = if more == 1 { "item" } else { "items" };
            names.push_str(&format!(" and {more} more {items}"));
        }
        let each = if more > 0 { " (--verbose names each)" } else { "" };
        format!("{names} failed for the same reason as {first}{each}")
    }
}

/// The sentence about a failed item and why it failed.
pub(crate) fn told(path: &str, reason: &str) -> String {
    // Most reasons name the place where it failed, which may be another one, behind its host if
    // that is another.
    let names = |text: &str| text.strip_prefix(path).is_some_and(|rest| rest.starts_with(':'));
    let is_named = names(reason) || reason.split_once(": ").is_some_and(|(_, rest)| names(rest));
    if is_named { reason.to_owned() } else { format!("{path}: {reason}") }
}

/// Cause that other items may share: a reason without a place in front, or behind the host, that
/// has the item's own name or one that the item has while it is unfinished.
fn cause(path: &str, reason: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_last = |last: &str| last == name || is_staging(last.as_bytes());
    let is_own = |place: &str| !name.is_empty() && place.rsplit('/').next().is_some_and(is_last);
    match reason.split_once(": ") {
        Some((place, cause)) if is_own(place) => cause.to_owned(),
        Some((host, rest)) => match rest.split_once(": ") {
            Some((place, cause)) if is_own(place) => format!("{host}: {cause}"),
            _ => reason.to_owned(),
        },
        None => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once_with_the_first_names_and_the_number_of_items() {
        let mut failures = Failures::default();
        let full = |name: &str| format!("d/{name}: the disk is full; make room");
        assert_eq!(failures.add("t/a", &full("a")).as_deref(), Some("t/a: d/a: the disk is full; make room"));
        for name in ["b", "c", "d", "e"] {
            assert_eq!(failures.add(&format!("t/{name}"), &full(name)), None);
        }
        let unfinished = "d/.icdc-0123456789abcdef.part: the disk is full; make room";
        assert_eq!(failures.add("t/f", unfinished), None);
        assert_eq!(failures.add("s/x", "s/x: permission denied").as_deref(), Some("s/x: permission denied"));
        let link = "d/sub: is a symbolic link, not a directory";
        assert!(failures.add("s/sub/1", link).is_some());
        assert!(failures.add("s/sub/2", link).is_none() && failures.add("s/sub", link).is_none());
        assert_eq!(
            failures.rest(),
            [
                "t/b, t/c and 3 more items failed for the same reason as t/a (--verbose names each)",
                "s/sub/2, s/sub failed for the same reason as s/sub/1",
            ]
        );
        assert!(failures.rest().is_empty());
    }

    #[test]
    fn a_cause_at_another_host_is_told_with_that_host_and_apart_from_one_here() {
        let mut failures = Failures::default();
        let denied = |host: &str, name: &str| format!("{host}{name}: permission denied");
        assert_eq!(failures.add("t/a", &denied("far: d/", "a")).as_deref(), Some("t/a: far: d/a: permission denied"));
        assert_eq!(failures.add("t/b", &denied("far: d/", "b")), None);
        assert_eq!(failures.add("t/c", &denied("", "t/c")).as_deref(), Some("t/c: permission denied"));
        assert_eq!(failures.add("u", &denied("far: ", "u")), None);
        assert_eq!(told("u", &denied("far: ", "u")), "far: u: permission denied");
    }

    #[test]
    fn causes_beyond_the_bound_are_told_one_by_one() {
        let mut failures = Failures::default();
        for number in 0..=MOST_CAUSES {
            assert!(failures.add("a", &format!("cause {number}")).is_some());
        }
        assert!(failures.add("b", &format!("cause {MOST_CAUSES}")).is_some());
        assert!(failures.add("b", "cause 0").is_none());
    }
}
