//! `icdc verify`: compares two trees, or one with a list of digests.

use anyhow::{bail, ensure};
use icdc_client::{Location, Look, LookError, Looking};
use icdc_protocol::message::{ListDetail, ListDigest, ListReach};
use icdc_session::listing::checker::Record;
use icdc_session::listing::compare::{Aspect, Difference, compare};

use super::against_list;
use super::checksums::Checksums;
use super::differences::Shown;
use super::places::{Observer, finish, give_up, places};
use super::repair::{Repair, Trees};
use crate::arguments::{IgnoredAspect, VerifyArguments};
use crate::choosing::rules_of;
use crate::console::Console;
use crate::copy::carry_out;
use crate::exit;

/// Counterpart with which the first tree is compared.
enum Against {
    /// The second tree, but for these aspects.
    Tree(Location, Vec<Aspect>),
    /// A list of digests.
    List(Checksums),
}

/// Meaning of the arguments of `icdc verify`.
struct Plan {
    observer: Observer,
    place: Location,
    look: Look,
    against: Against,
    /// The trees of a repair; `None` to change nothing.
    repaired: Option<Trees>,
}

/// Runs `icdc verify` and returns the exit code.
pub(crate) fn run(arguments: VerifyArguments, console: &Console) -> u8 {
    let shown = Shown { console, as_json: arguments.json };
    let Plan { observer, place, look, against, repaired } = match plan(arguments, console) {
        Ok(plan) => plan,
        Err(error) => return console.give_up(&error, exit::USAGE),
    };
    let mut repair = Repair::default();
    let compared = observer.begin_listing(&place, &look).and_then(|mut a| match &against {
        Against::Tree(other, ignored) => {
            let mut b = observer.begin_listing(other, &look)?;
            trees([&mut a, &mut b], ignored, shown, &mut repair)
        }
        Against::List(list) => Ok((against_list::compare(&mut a, &place, list.clone(), shown)?, 0)),
    });
    let (is_equal, beside) = match compared {
        Ok(compared) => compared,
        Err(error) => return give_up(&error, console),
    };
    let (Some(trees), Against::Tree(_, ignored), false) = (repaired, &against, repair.is_empty()) else {
        return finish(is_equal, console);
    };
    console.flush();
    match repair.plan(trees, !ignored.contains(&Aspect::Owner)) {
        Ok(plan) => match carry_out(plan, observer.stop(), console) {
            (0, _) => finish(beside == 0, console),
            (code, _) => code,
        },
        Err(error) => console.give_up(&error, exit::FAILED),
    }
}

/// Makes the plan from the arguments; every error is one of usage.
fn plan(arguments: VerifyArguments, console: &Console) -> anyhow::Result<Plan> {
    let mut places = places(&arguments.places)?;
    let rules = rules_of(&arguments.rules)?;
    let reached = arguments.connection.clone();
    let observer = Observer::new(&places, arguments.connection, console)?;
    let (against, detail) = match (arguments.list, places.len()) {
        (Some(_), 2) => bail!("--list compares one tree with a list: name one"),
        (Some(file), _) => {
            let list = Checksums::read(&file, arguments.digest.map(ListDigest::from))?;
            list.remarks().iter().for_each(|remark| console.complain(remark));
            let detail = ListDetail::Digests(list.digest());
            (Against::List(list), detail)
        }
        (None, _) => {
            ensure!(places.len() == 2, "name both trees, or give --list FILE");
            let other = places.remove(1);
            let ignored = arguments.ignore.into_iter().filter_map(IgnoredAspect::aspect).collect();
            let detail = match arguments.quick {
                true => ListDetail::Metadata,
                false => ListDetail::Digests(ListDigest::Comparison),
            };
            (Against::Tree(other, ignored), detail)
        }
    };
    let mut texts = arguments.places.into_iter();
    let repaired = match (arguments.repair, texts.next(), texts.next()) {
        (true, Some(a), Some(b)) => Some(Trees { a, b, connection: reached }),
        _ => None,
    };
    let look = Look { reach: ListReach::Tree, detail, rules };
    Ok(Plan { observer, place: places.remove(0), look, against, repaired })
}

/// Compares two trees and shows what differs; returns whether they are equal, and the number of
/// items that a copy does not make equal.
fn trees(
    [a, b]: [&mut Looking; 2],
    ignored: &[Aspect],
    shown: Shown<'_>,
    repair: &mut Repair,
) -> Result<(bool, u64), LookError> {
    let mut tell = |difference: Difference<'_>| {
        repair.note(&difference);
        shown.difference(&difference);
    };
    let tally = compare(&mut || next(a), &mut || next(b), ignored, &mut tell)?;
    shown.tally(&tally);
    Ok((tally.is_equal(), tally.extra + tally.unreadable))
}

/// The next record of a listing; an error if the listing has ended.
fn next(looking: &mut Looking) -> Result<Record, LookError> {
    looking.next_record()?.ok_or_else(|| LookError::Failed("the listing has ended before it is complete".into()))
}
