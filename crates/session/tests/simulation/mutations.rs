//! Bugs that are put in between the machines and their executors: the simulation has to find each of them by itself.

use crate::plan::Plan;
use crate::random::Random;
use crate::world::World;

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// The sender's goodbye overtakes what it says of its last item.
    GoodbyeOvertakes,
    /// The run's journal is put away when a further connection ends.
    PutAwayAtFurtherEnd,
    /// A session that had to wait for an earlier one, or whose client has gone, goes on as if nothing had happened.
    OldSessionWakes,
    /// What has a final name may be anything by then.
    FoundIsNotCompared,
    /// Whoever has to ask whether the sender is there takes it for granted.
    SenderIsNotAsked,
    /// What a flush was asked for is told as durable, and is not.
    FlushDoesNothing,
    /// Likewise for names.
    NamesAreNotFlushed,
    /// Only the names of what was just renamed are flushed.
    NamesOfFoundAreNotFlushed,
    /// A flush of names that failed is taken for one that did not.
    UnflushedNamesAreToldDone,
    /// The journal of an unfinished file gets no records.
    NothingIsNoted,
    /// What the run has published is not noted.
    NoPublicationIsNoted,
    /// The end of a large file gets lost.
    FileEndIsLost,
    /// The receiver tells what it wants before it tells what it holds.
    WantsOvertakeHeld,
    /// A lock is had by whoever asks for it.
    LocksDoNothing,
    /// Nobody tells what did not arrive over a further connection that has ended.
    DebtsAreForgotten,
    /// The receiver breaks off without a word.
    NoReasonIsGiven,
    /// Blocks of an earlier run that are damaged are taken for good.
    DamagedBlocksAreTrusted,
    /// The scan announces more without being granted room.
    ScanDoesNotWait,
    /// Blocks are received whether or not the ring has room.
    RingHasNoEnd,
    /// The directory that the run has made to copy into is not flushed.
    DestinationIsNotFlushed,
    /// A journal of blocks is removed although the unfinished file of another item is beside it.
    LeftJournalsAlwaysGo,
    /// A journal of blocks that an earlier session has left beside a published item is not removed.
    LeftJournalsStay,
    /// The journal of a file that has its final name tells nobody that it is complete.
    RenamedIsForgotten,
    /// A reply that cannot be sent fails the session at once.
    UnsentIsFailed,
    /// A block that arrives in parts is taken for whole without its last one.
    LastPartIsNotWaitedFor,
    /// What has not arrived of a block that travels in parts is not read again.
    PartsAreNotOwed,
    /// Parts are waited for although their block has arrived whole.
    PartsOutliveTheirBlock,
    /// More blocks travel in parts than the ring has room for.
    AllTravelInParts,
    /// Names that the source has are taken for extra ones, which a mirror deletes.
    SourceNamesAreForgotten,
    /// The attributes of a file in an older copy are set, instead of those of a copy of it.
    OlderCopyIsAmended,
    /// What could not be deleted in an unfinished snapshot is taken for gone.
    DeletionFailuresAreForgotten,
    /// What replaces something of another kind at the end is not flushed.
    ReplacementsAreNotFlushed,
    /// A move removes a file at the source when it is sent.
    SourceGoesWhenSent,
    /// A file that may have been renamed is not compared with the source.
    CandidatesAreTrusted,
    /// The receiver does not add the lines to the receipt that it makes of what it has published.
    LinesAreLost,
    /// A block that cannot be put together from the file that is replaced is not asked for.
    OutdatedIsForgotten,
    /// The receiver is not told that what it has described are holes.
    HolesAreNotTold,
    /// The receiver does not tell the sender that it has described all of its files.
    ChunksDoNotEnd,
    /// What has not arrived of a block that is put together is not read again.
    AssembledIsNotOwed,
    /// A directory that had the journal in it does not get its time once more.
    ContentsKeepTheTime,
}

/// So many worlds may pass before the bug is found.
const PATIENCE: u64 = 20_000;

/// The number of the first world in which the bug shows, and what it violates there.
fn find(mutation: Mutation) -> Option<(u64, String)> {
    (0..PATIENCE).find_map(|seed| {
        let mut random = Random::new(seed);
        let plan = Plan { mutation: Some(mutation), ..Plan::any(&mut random) };
        let run = || World::new(plan, random, false).run().violation;
        let violation = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        Some((seed, violation.unwrap_or_else(|_| Some("a panic".into()))?))
    })
}

fn finds(mutation: Mutation, in_words: &[&str]) {
    let found = find(mutation);
    let (seed, violation) = found.unwrap_or_else(|| panic!("{mutation:?} is not found in {PATIENCE} worlds"));
    println!("{mutation:?} is found by seed {seed}: {violation}");
    assert!(in_words.iter().any(|words| violation.contains(words)), "{mutation:?}, seed {seed}: {violation}");
}

#[test]
fn a_goodbye_that_overtakes_the_last_failure_is_found() {
    finds(Mutation::GoodbyeOvertakes, &["do not understand each other"]);
}

#[test]
fn a_journal_that_is_put_away_too_early_is_found() {
    finds(Mutation::PutAwayAtFurtherEnd, &["does not know that all is done"]);
}

#[test]
fn a_receipt_of_something_else_is_found() {
    finds(Mutation::LinesAreLost, &["other lines in the receipt"]);
}

#[test]
fn an_old_session_that_wakes_is_found() {
    finds(Mutation::OldSessionWakes, &["goes back to version", "has gone back to version"]);
}

#[test]
fn durability_that_is_only_claimed_is_found() {
    finds(Mutation::FlushDoesNothing, &["was noted and is not durable", "is not durable"]);
    let undone = ["was copied and is gone", "is not what was announced", "gone back", "is not durable"];
    finds(Mutation::NamesAreNotFlushed, &undone);
}

#[test]
fn blocks_that_travel_twice_are_found() {
    finds(Mutation::NothingIsNoted, &["was noted and is sent again"]);
}

#[test]
fn what_leaves_an_end_waiting_is_found() {
    finds(Mutation::FileEndIsLost, &["nothing happens any more"]);
}

#[test]
fn blocks_that_are_lost_with_their_connection_are_found() {
    finds(Mutation::DebtsAreForgotten, &["nothing happens any more"]);
}

#[test]
fn differences_that_lead_to_nothing_are_found() {
    finds(Mutation::OutdatedIsForgotten, &["nothing happens any more"]);
    finds(Mutation::HolesAreNotTold, &["nothing happens any more"]);
}

#[test]
fn moved_content_that_leads_to_nothing_is_found() {
    finds(Mutation::ChunksDoNotEnd, &["nothing happens any more"]);
    finds(Mutation::AssembledIsNotOwed, &["nothing happens any more"]);
}

#[test]
fn blocks_in_parts_that_are_not_put_together_are_found() {
    finds(Mutation::LastPartIsNotWaitedFor, &["is damaged"]);
    finds(Mutation::PartsAreNotOwed, &["nothing happens any more"]);
    finds(Mutation::PartsOutliveTheirBlock, &["wait for parts"]);
    finds(Mutation::AllTravelInParts, &["do not understand each other"]);
}

#[test]
fn messages_in_another_order_are_found() {
    finds(Mutation::WantsOvertakeHeld, &["do not understand each other", "was noted and is sent again"]);
}

#[test]
fn a_lock_that_holds_nobody_off_is_found() {
    finds(
        Mutation::LocksDoNothing,
        &["goes back", "gone back", "is not what", "sent again", "has arrived", "is not open"],
    );
}

#[test]
fn a_reason_that_is_not_given_is_found() {
    finds(Mutation::NoReasonIsGiven, &["has not learned why"]);
}

#[test]
fn memory_without_bounds_is_found() {
    finds(Mutation::ScanDoesNotWait, &["keeps"]);
    finds(Mutation::RingHasNoEnd, &["more blocks have arrived than the ring has"]);
}

#[test]
fn held_blocks_that_nobody_compares_are_found() {
    finds(Mutation::DamagedBlocksAreTrusted, &["is not what version"]);
}

#[test]
fn replacements_that_are_not_durable_are_found() {
    let undone = [
        "was copied and is gone",
        "is not what was announced",
        "gone back",
        "was not deleted",
        "was renamed and is gone",
    ];
    finds(Mutation::ReplacementsAreNotFlushed, &undone);
}

#[test]
fn a_mirror_that_deletes_what_the_source_has_is_found() {
    finds(Mutation::DeletionFailuresAreForgotten, &["is not at the source, and was not deleted"]);
    finds(Mutation::SourceNamesAreForgotten, &["was copied and is", "is not what was announced", "is gone"]);
}

#[test]
fn an_older_copy_that_is_changed_is_found() {
    finds(Mutation::OlderCopyIsAmended, &["the older copy was changed"]);
}

#[test]
fn a_file_that_only_seems_to_be_renamed_is_found() {
    finds(Mutation::CandidatesAreTrusted, &["is not what", "has the time", "goes back", "gone back"]);
}

#[test]
fn a_move_that_removes_what_is_not_durable_is_found() {
    finds(Mutation::SourceGoesWhenSent, &["is not durable at the destination"]);
}
