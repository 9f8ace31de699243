//! What the simulation has found in the product: for each find a small world of its own, which goes
//! well, and does not once the bug is put back.
//!
//! No generator makes these worlds, so that none is emptied when one changes.

use icdc_protocol::message::{Equality, Existing};
use icdc_session::sender::Window;
use icdc_units::Span;

use crate::environment::{DiskFaults, Side};
use crate::mutations::Mutation;
use crate::plan::{Incident, Mode, Plan, When};
use crate::random::Random;
use crate::source::Source;
use crate::world::World;

fn violation(plan: &Plan, number: u64) -> Option<String> {
    World::new(plan.clone(), Random::new(number), false).run().violation
}

/// Runs worlds by these numbers and plans: all go well, and with the bug one of them does not, by these `words`.
#[track_caller]
fn finds_again(bug: Mutation, words: &str, worlds: impl IntoIterator<Item = (u64, Plan)>) {
    let mut found = None;
    for (number, plan) in worlds {
        assert_eq!(violation(&plan, number), None, "without the bug, {number}");
        if found.is_none() {
            found = violation(&Plan { mutation: Some(bug), ..plan }, number);
        }
    }
    let found = found.unwrap_or_default();
    assert!(found.contains(words), "{bug:?} is not found again: {found:?}");
}

/// A session that sleeps from its frame `count` on while newer commands come to their end.
fn sleeper(source: Source, count: u64) -> Plan {
    let incidents = vec![
        (When::Frames { session: 0, count }, Incident::Freeze { span: Span::from_secs(120) }),
        (When::After(Span::from_secs(1)), Incident::Kill(Side::Sender)),
    ];
    Plan { copies: 2, incidents, ..Plan::calm(source) }
}

#[test]
fn a_stopped_receiver_of_a_single_large_file_replaces_a_newer_one() {
    finds_again(
        Mutation::OldSessionWakes,
        "goes back to version",
        (4..9).map(|count| (2, sleeper(Source::single_file(), count))),
    );
}

#[test]
fn a_stopped_receiver_of_a_single_small_file_replaces_a_newer_one() {
    finds_again(
        Mutation::OldSessionWakes,
        "goes back to version",
        (4..9).map(|count| (0, sleeper(Source::small_file(), count))),
    );
}

/// A session that sleeps from its frame `count` on, and whose sender has gone without its host knowing of it, while
/// newer commands come to their end.
fn cut_sleeper(source: Source, count: u64) -> Plan {
    let incidents = vec![
        (When::Frames { session: 0, count }, Incident::Freeze { span: Span::from_secs(120) }),
        (When::After(Span::from_secs(1)), Incident::CutUnseen { span: Span::from_secs(180) }),
    ];
    Plan { copies: 3, has_registry: false, incidents, ..Plan::calm(source) }
}

#[test]
fn a_receiver_that_knows_of_no_cut_replaces_a_newer_large_file() {
    finds_again(
        Mutation::FoundIsNotCompared,
        "goes back to version",
        (4..12).map(|count| (count, cut_sleeper(Source::single_file(), count))),
    );
}

#[test]
fn a_receiver_that_knows_of_no_cut_replaces_a_newer_small_file() {
    finds_again(
        Mutation::FoundIsNotCompared,
        "goes back to version",
        (4..12).map(|count| (count, cut_sleeper(Source::small_file(), count))),
    );
}

/// Where contents decide, an empty file counts as equal, and gets nothing but its attributes.
#[test]
fn a_receiver_that_knows_of_no_cut_gives_a_newer_file_an_old_time() {
    let existing = Existing::SkipEqual(Equality::Contents);
    let worlds = (0..40).map(|number| (number, Plan { existing, ..cut_sleeper(Source::empty_file(), 2) }));
    finds_again(Mutation::SenderIsNotAsked, "has gone back to version", worlds);
}

#[test]
fn a_destination_that_the_run_has_made_is_lost_by_a_power_cut() {
    let worlds = (1..300).map(|count| {
        let cut = (When::Events(count), Incident::PowerCut);
        (0, Plan { incidents: vec![cut], ..Plan::calm(Source::two_files()) })
    });
    finds_again(Mutation::DestinationIsNotFlushed, "was copied", worlds);
}

#[test]
fn what_is_had_takes_the_journal_of_the_next_file_of_its_name() {
    let worlds = (18..24).map(|count| {
        let cut = (When::Frames { session: 0, count }, Incident::Cut { number: 0 });
        (0, Plan { resends: false, incidents: vec![cut], ..Plan::calm(Source::merged()) })
    });
    finds_again(Mutation::LeftJournalsAlwaysGo, "was noted and is sent again", worlds);
}

#[test]
fn a_file_whose_session_is_killed_behind_its_rename_travels_again() {
    let worlds = (1..300).map(|count| {
        let kill = (When::Events(count), Incident::Kill(Side::Receiver));
        (0, Plan { incidents: vec![kill], ..Plan::calm(Source::one_of_each()) })
    });
    finds_again(Mutation::RenamedIsForgotten, "was noted and is sent again", worlds);
}

#[test]
fn a_reply_that_cannot_be_sent_behind_a_goodbye_fails_a_complete_session() {
    let plan = Plan { mode: Mode::Pull, streams: 3, copies: 3, ..Plan::calm(Source::single_file()) };
    finds_again(Mutation::UnsentIsFailed, "has not learned why", (0..300).map(|number| (number, plan.clone())));
}

#[test]
fn a_directory_that_had_the_journal_in_it_does_not_have_its_time() {
    finds_again(Mutation::ContentsKeepTheTime, "dst has the time", [(0, Plan::calm(Source::one_of_each()))]);
}

/// The sender left, content, when it had heard of the directory, and no flush came after.
#[test]
fn an_empty_directory_is_lost_by_a_power_cut() {
    for count in 1..400 {
        let cut = (When::Events(count), Incident::PowerCut);
        let window = Window { items: 1, ..Window::default() };
        let plan = Plan { window, incidents: vec![cut], ..Plan::calm(Source::one_of_each()) };
        assert_eq!(violation(&plan, 0), None, "at event {count}");
    }
}

/// The directory of a single file gets no flush but that of its name.
#[test]
fn a_name_whose_flush_did_not_come_or_failed_is_lost_by_a_power_cut() {
    let worlds = (80..90).flat_map(|kill| (kill + 30..kill + 90).map(move |cut| (kill, cut))).map(|(kill, cut)| {
        let killed = (When::Events(kill), Incident::Kill(Side::Receiver));
        let cut = (When::Events(cut), Incident::PowerCut);
        (0, Plan { incidents: vec![killed, cut], ..Plan::calm(Source::single_file()) })
    });
    finds_again(Mutation::NamesOfFoundAreNotFlushed, "was copied", worlds);
    let worlds = (60..160).map(|count| {
        let faults = DiskFaults { sync: 400, ..DiskFaults::default() };
        let cut = (When::Events(count), Incident::PowerCut);
        (0, Plan { faults, incidents: vec![cut], ..Plan::calm(Source::single_file()) })
    });
    finds_again(Mutation::UnflushedNamesAreToldDone, "was copied", worlds);
}

/// A name whose flush has failed is there with its size and time, and the next run is an update.
#[test]
fn an_update_leaves_alone_a_name_that_is_not_durable() {
    let sources: [fn() -> Source; 2] = [Source::small_file, Source::single_file];
    let faults = DiskFaults { sync: 400, ..DiskFaults::default() };
    let cut = (When::After(Span::from_secs(3600)), Incident::PowerCut);
    for source in sources {
        let plan = Plan {
            existing: Existing::SkipEqual(Equality::SizeAndTime),
            faults,
            incidents: vec![cut],
            ..Plan::calm(source())
        };
        let worlds = (0..20).map(|number| (number, plan.clone()));
        finds_again(Mutation::NamesOfFoundAreNotFlushed, "was copied", worlds);
    }
}

#[test]
fn an_update_leaves_the_journal_of_a_file_whose_name_was_not_flushed() {
    let faults = DiskFaults { sync: 400, ..DiskFaults::default() };
    let worlds = (0..20).map(|number| {
        (
            number,
            Plan { existing: Existing::SkipEqual(Equality::SizeAndTime), faults, ..Plan::calm(Source::single_file()) },
        )
    });
    finds_again(Mutation::LeftJournalsStay, "was left behind", worlds);
}
