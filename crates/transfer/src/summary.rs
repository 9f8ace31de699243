//! The result of a run, made of what its last session has done and of what all have cost.

use icdc_protocol::message::{FileDigest, ReceiveOptions};
use icdc_units::{ByteCount, Rate, Span};

use crate::account::Account;
use crate::event::Summary;
use crate::receiver::Received;
use crate::sender::Sent;
use crate::{clock, digest_text};

/// Summary of a run whose sending end is here.
#[must_use]
pub fn of_sent(sent: &Sent, account: &Account, receive: &ReceiveOptions) -> Summary {
    let counts = &sent.counts;
    let summary = Summary {
        files: counts.files_done,
        bytes: counts.bytes_done.as_u64(),
        links: counts.links_done,
        errors: counts.failed,
        skipped: counts.skipped,
        linked: counts.linked,
        renamed: counts.renamed,
        kept_newer: counts.kept.newer,
        kept_existing: counts.kept.existing,
        not_made: counts.kept.missing,
        deleted: counts.deleted,
        removed: counts.removed,
        resumed_bytes: counts.resumed_bytes.as_u64(),
        unchanged_bytes: counts.unchanged_bytes.as_u64(),
        taken_over_files: counts.taken_over_files,
        taken_over_bytes: counts.taken_over_bytes.as_u64(),
        tree_digest: Some(digest_text(&sent.tree)),
        ..Summary::default()
    };
    complete(summary, sent.only, account, receive)
}

/// Summary of a run whose receiving end is here.
#[must_use]
pub fn of_received(received: &Received, account: &Account, receive: &ReceiveOptions) -> Summary {
    let tally = &received.tally;
    let summary = Summary {
        files: tally.files,
        bytes: tally.bytes.as_u64(),
        links: tally.links,
        errors: tally.failed,
        skipped: tally.skipped,
        linked: tally.linked,
        renamed: tally.renamed,
        kept_newer: tally.kept.newer,
        kept_existing: tally.kept.existing,
        not_made: tally.kept.missing,
        deleted: tally.deleted,
        removed: tally.removed,
        resumed_bytes: tally.resumed.as_u64(),
        unchanged_bytes: tally.unchanged.as_u64(),
        taken_over_files: tally.taken_over_files,
        taken_over_bytes: tally.taken_over_bytes.as_u64(),
        tree_digest: received.goodbye.as_ref().map(|goodbye| digest_text(&goodbye.tree)),
        ..Summary::default()
    };
    complete(summary, tally.only(), account, receive)
}

/// Completes a summary by the run's totals over all sessions, the digest of the `only` file, and
/// whether everything was verified.
fn complete(summary: Summary, only: Option<FileDigest>, account: &Account, receive: &ReceiveOptions) -> Summary {
    let elapsed = clock::now() - account.start();
    let goodput = if elapsed == Span::ZERO { Rate::ZERO } else { ByteCount::new(account.bytes()) / elapsed };
    let (digest, sparse_digest) = match only {
        Some(FileDigest::Blake3(digest)) => (Some(digest_text(&digest)), None),
        Some(FileDigest::SparseMap(digest)) => (None, Some(digest_text(&digest))),
        None => (None, None),
    };
    let (compressed_from, compressed_to) = account.compressed();
    Summary {
        bytes_sent: account.bytes(),
        compressed_from,
        compressed_to,
        uncompressed: account.uncompressed(),
        seconds: elapsed.as_secs_f64(),
        goodput_bps: goodput.as_bits_per_second(),
        retransmitted_segments: account.retransmitted_segments(),
        congestion: account.congestion(),
        digest,
        sparse_digest,
        verified: summary.errors == 0 && summary.taken_over_files == 0,
        read_back: receive.verify,
        limited_by: account.limited_by(),
        max_rate_bps: account.last_max_rate().map_or(0, Rate::as_bits_per_second),
        ..summary
    }
}
