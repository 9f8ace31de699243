//! The end of a run in words, and how numbers are written for people.

use std::collections::BTreeMap;

use icdc_client::Location;
use icdc_transfer::{Stage, Summary, Uncompressed};
use icdc_units::ByteCount;

/// Duration of a run in seconds from which on its summary tells the rate, and what limited it.
const BRIEF: f64 = 1.0;

/// Lines of the summary of a copy to `destination`: one in all and, for a single file, one with its
/// digest. `ended` is false for a run that was broken off.
pub(crate) fn lines(summary: &Summary, destination: &str, ended: bool) -> Vec<String> {
    let (files, time) = (contents(summary), seconds(summary.seconds));
    let (bytes, sent) = (size(summary.bytes), size(summary.bytes_sent));
    let rate = megabits(summary.goodput_bps);
    let mut parts = match ended {
        // A rate of so short a time tells of starting and ending.
        true if summary.seconds < BRIEF => vec![format!("{files}, {bytes} in {time} to {destination}")],
        true => vec![format!("{files}, {bytes} in {time} at {rate} to {destination}")],
        // What was sent until then need not be of files that are complete.
        false => vec![format!("broken off after {time}: {files} complete, {bytes}"), format!("{sent} sent at {rate}")],
    };
    if ended && summary.bytes_sent != summary.bytes {
        parts.push(format!("{sent} sent"));
    }
    if summary.resumed_bytes > 0 {
        parts.push(format!("{} kept from before an interruption", size(summary.resumed_bytes)));
    }
    if summary.unchanged_bytes > 0 {
        parts.push(format!("{} not sent, found in files at the destination", size(summary.unchanged_bytes)));
    }
    parts.extend(compression(summary));
    if summary.taken_over_files > 0 {
        parts.push(format!(
            "{}, {}, taken over from an earlier run by size and time, NOT READ (to read them, too, run it again with --verify)",
            counted(summary.taken_over_files, "file"),
            size(summary.taken_over_bytes)
        ));
    }
    parts.extend(other_items(summary));
    if summary.seconds >= BRIEF
        && let Some(limits) = limits(&summary.limited_by, summary.max_rate_bps)
    {
        parts.push(format!("limited by {limits}"));
    }
    if summary.retransmitted_segments > 0 {
        parts.push(format!("{} retransmitted", counted(summary.retransmitted_segments, "segment")));
    }
    if summary.read_back {
        parts.push("read back and compared".into());
    }
    if ended && summary.errors > 0 {
        parts.push(format!("{} FAILED, see above", counted(summary.errors, "item")));
    }
    let mut lines = vec![parts.join("; ")];
    if let Some(digest) = &summary.digest {
        lines.push(format!("BLAKE3 {digest}"));
    } else if let Some(digest) = &summary.sparse_digest {
        lines.push(format!("digest of the data blocks {digest}"));
    }
    lines
}

/// Sentence on what compression has saved, or why there was none; `None` where nobody needs to know.
fn compression(summary: &Summary) -> Option<String> {
    let Summary { compressed_from: from, compressed_to: to, .. } = *summary;
    if from > 0 {
        let ratio = from as f64 / to.max(1) as f64;
        return Some(format!("{} compressed to {} ({ratio:.1}:1)", size(from), size(to)));
    }
    let reason = summary.uncompressed.filter(|_| summary.seconds >= BRIEF)?;
    Some(format!("compression off: {}", uncompressed(reason)))
}

/// Reason for which data travels as it is, in words.
pub(crate) fn uncompressed(reason: Uncompressed) -> &'static str {
    match reason {
        Uncompressed::OlderEnd => "the other end is older",
        Uncompressed::Disk => "the disk limits",
        Uncompressed::Processor => "no processor is idle enough",
        Uncompressed::Data => "the data does not shrink",
        Uncompressed::Memory => "the memory limit of the sending end leaves no room",
    }
}

/// Numbers of items that were not simply copied, each with what became of them.
fn other_items(summary: &Summary) -> impl Iterator<Item = String> {
    let counts = [
        (summary.skipped, "file", "skipped"),
        (summary.linked, "file", "linked at the destination"),
        (summary.renamed, "file", "renamed at the destination"),
        (summary.kept_newer, "file", "NOT REPLACED, newer at the destination"),
        (summary.kept_existing, "item", "NOT REPLACED, at the destination already"),
        (summary.not_made, "item", "NOT MADE, not at the destination"),
        (summary.deleted, "item", "deleted at the destination"),
        (summary.removed, "item", "removed at the source"),
    ];
    let told = counts.into_iter().filter(|(count, ..)| *count > 0);
    told.map(|(count, what, outcome)| format!("{} {outcome}", counted(count, what)))
}

/// A location as text for the summary, with its host, so that a forgotten colon is seen.
pub(crate) fn place(location: &Location) -> String {
    match location {
        Location::Local(path) => {
            let whole = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            format!("{} on this host", whole.display())
        }
        // The home directory there.
        Location::Ssh { path, .. } if path == b"." => location.to_string().trim_end_matches('.').to_owned(),
        Location::Ssh { .. } | Location::Daemon { .. } => location.to_string(),
    }
}

/// A path at the destination's end, as that end shows it, with its host.
pub(crate) fn beside(destination: &Location, path: &str) -> String {
    let path = path.to_owned().into_bytes();
    let there = match destination.clone() {
        Location::Local(_) => return String::from_utf8_lossy(&path).into_owned(),
        Location::Ssh { host, .. } => Location::Ssh { host, path },
        Location::Daemon { host, port, .. } if path.starts_with(b"/") => Location::Daemon { host, port, path },
        Location::Daemon { host, port, .. } => Location::Daemon { host, port, path: [b"/", path.as_slice()].concat() },
    };
    there.to_string()
}

/// Number of files that were copied, and of links if there are any, as text.
pub(crate) fn contents(summary: &Summary) -> String {
    let files = counted(summary.files, "file");
    if summary.links == 0 { files } else { format!("{files}, {}", counted(summary.links, "link")) }
}

/// Text of the result of a dry run, with the number of items and bytes that would be sent, and
/// the numbers of items that would be renamed and deleted at the destination and removed at the
/// source.
pub(crate) fn dry_run((items, bytes): (u64, u64), renamed: u64, deleted: u64, removed: u64) -> String {
    let mut text = format!("{}, {} would be sent", counted(items, "item"), size(bytes));
    if renamed > 0 {
        text.push_str(&format!("; {} may be renamed at the destination", counted(renamed, "file")));
    }
    for (number, what) in [(deleted, "deleted at the destination"), (removed, "removed at the source")] {
        if number > 0 {
            text.push_str(&format!("; {} would be {what}", counted(number, "item")));
        }
    }
    text
}

/// The stages that limited the run for at least a twentieth of its time, as text, the largest share
/// first; `None` if there are none.
pub(crate) fn limits(limited_by: &BTreeMap<String, f64>, max_rate_bps: u64) -> Option<String> {
    let mut shares: Vec<_> = limited_by.iter().filter(|(_, share)| **share >= 0.05).collect();
    shares.sort_by(|a, b| b.1.total_cmp(a.1));
    let words: Vec<String> = shares
        .iter()
        .take(3)
        .map(|(stage, share)| format!("{} {:.0}%", limit(stage, max_rate_bps), *share * 100.0))
        .collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// Name of a stage that limits a run, for the user; `max_rate_bps` is the limit that a daemon sets
/// to the rate of the key in use.
pub(crate) fn limit(stage: &str, max_rate_bps: u64) -> String {
    match Stage::from_name(stage) {
        Some(Stage::MaxRate) => format!("the far end's limit ({})", megabits(max_rate_bps)),
        _ => stage.replace('_', " "),
    }
}

/// A number and its noun, in the plural unless it is 1.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// A number of bytes that was counted: with an SI prefix, as rates have, so that one can be read
/// from the other.
pub(crate) fn size(bytes: u64) -> String {
    ByteCount::new(bytes).counted().to_string()
}

/// A rate in Mbit/s as text: one unit, by which runs are easily compared.
pub(crate) fn megabits(bits_per_second: u64) -> String {
    let megabits = bits_per_second as f64 / 1e6;
    if megabits < 10.0 { format!("{megabits:.2} Mbit/s") } else { format!("{megabits:.1} Mbit/s") }
}

/// A time left, given in seconds, as text in the form of a clock: `1:02:03`.
pub(crate) fn clock(seconds: f64) -> String {
    // The cast saturates.
    let whole = seconds.ceil() as u64;
    let (days, hours, minutes, seconds) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60, whole % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes}:{seconds:02}"),
        (0, _) => format!("{hours}:{minutes:02}:{seconds:02}"),
        (1..100, _) => format!("{days}d {hours}h"),
        _ => "ages".into(),
    }
}

/// The duration of a run as text, in seconds, from 100 s on also as a clock shows it.
pub(crate) fn seconds(seconds: f64) -> String {
    if seconds < 100.0 { format!("{seconds:.2} s") } else { format!("{} ({seconds:.0} s)", clock(seconds)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Summary {
        Summary {
            files: 1,
            bytes: 1_250_000_000,
            bytes_sent: 1_250_000_000,
            seconds: 10.5,
            goodput_bps: 952_380_952,
            limited_by: [("network", 0.81), ("source_disk", 0.12), ("hash", 0.01)]
                .map(|(name, share)| (name.into(), share))
                .into(),
            ..Summary::default()
        }
    }

    #[test]
    fn a_good_run_is_short_to_tell() {
        let told = lines(&summary(), "far:in", true);
        assert_eq!(
            told,
            ["1 file, 1.25GB in 10.50 s at 952.4 Mbit/s to far:in; limited by network 81%, source disk 12%"]
        );
    }

    #[test]
    fn places_have_their_host() {
        let told = |text: &str| place(&Location::parse(text.as_ref()).unwrap());
        assert_eq!([told("/srv/in"), told("user@far:in/")], ["/srv/in on this host", "user@far:in/"]);
        assert_eq!([told("far:"), told("icdc://far/in")], ["far:", "icdc://far/in"]);
        assert!(told("far").ends_with("/far on this host") && told("far").starts_with('/'));
        let at = |text: &str| beside(&Location::parse(text.as_ref()).unwrap(), "in/x");
        assert_eq!([at("/srv"), at("user@far:in/"), at("icdc://far/in")], ["in/x", "user@far:in/x", "icdc://far/in/x"]);
    }

    #[test]
    fn a_run_of_a_moment_tells_no_rate() {
        assert_eq!(
            lines(&Summary { seconds: 0.25, ..summary() }, "far:in", true),
            ["1 file, 1.25GB in 0.25 s to far:in"]
        );
    }

    #[test]
    fn everything_out_of_the_ordinary_is_said() {
        let summary = Summary {
            digest: Some("abc".into()),
            resumed_bytes: 1_000_000_000,
            unchanged_bytes: 3_000_000,
            taken_over_files: 3,
            taken_over_bytes: 5_000_000,
            bytes_sent: 250_000_000,
            skipped: 2,
            linked: 4,
            renamed: 5,
            errors: 1,
            read_back: true,
            retransmitted_segments: 12,
            ..summary()
        };
        let told = lines(&summary, "far:in", true);
        for words in [
            "250MB sent",
            "1GB kept from before an interruption",
            "3MB not sent, found in files at the destination",
            "3 files, 5MB, taken over from an earlier run by size and time, NOT READ",
            "2 files skipped",
            "4 files linked at the destination",
            "5 files renamed at the destination",
            "12 segments retransmitted",
            "read back and compared",
            "1 item FAILED",
        ] {
            assert!(told[0].contains(words), "{words:?} is missing in {told:?}");
        }
        assert_eq!(told[1], "BLAKE3 abc");
        let broken = &lines(&summary, "far:in", false)[0];
        assert!(
            broken.starts_with("broken off after 10.50 s: 1 file complete, 1.25GB; 250MB sent at 952.4 Mbit/s"),
            "{broken}"
        );
    }

    #[test]
    fn clocks_count_up_to_days() {
        assert_eq!(clock(0.0), "0:00");
        assert_eq!(clock(59.1), "1:00");
        assert_eq!(clock(3599.0), "59:59");
        assert_eq!(clock(7322.0), "2:02:02");
        assert_eq!(clock(200_000.0), "2d 7h");
        assert_eq!(clock(f64::MAX), "ages");
    }
}
