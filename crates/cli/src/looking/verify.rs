//! `icdc verify`: compares two trees, or one with a list of digests.

use anyhow::{bail, ensure};
use icdc_client::{Location, Look, LookError, Looking};
use icdc_protocol::message::{ListDetail, ListDigest, ListReach};
use icdc_session::listing::compare::{Aspect, Tally, compare};
use icdc_session::listing::course::Record;

use super::against_list;
use super::checksums::Checksums;
use super::differences::Shown;
use super::places::{Observer, finish, give_up, places};
use crate::arguments::{IgnoredAspect, VerifyArguments};
use crate::choosing::rules_of;
use crate::console::Console;
use crate::exit;

/// What is compared with the first tree.
enum Against {
    /// The second tree, but for these aspects.
    Tree(Location, Vec<Aspect>),
    /// A list of digests.
    List(Checksums),
}

struct Plan {
    observer: Observer,
    place: Location,
    look: Look,
    against: Against,
}

/// Runs the command and returns the exit code.
pub(crate) fn run(arguments: VerifyArguments, console: &Console) -> u8 {
    let shown = Shown { console, as_json: arguments.json };
    let Plan { observer, place, look, against } = match plan(arguments, console) {
        Ok(plan) => plan,
        Err(error) => return console.give_up(&error, exit::USAGE),
    };
    let compared = observer.look(&place, &look).and_then(|mut a| match against {
        Against::Tree(other, ignored) => {
            let mut b = observer.look(&other, &look)?;
            trees(&mut a, &mut b, &ignored, shown)
        }
        Against::List(list) => against_list::compare(&mut a, &place, list, shown),
    });
    match compared {
        Ok(is_equal) => finish(is_equal, console),
        Err(error) => give_up(&error, console),
    }
}

fn plan(arguments: VerifyArguments, console: &Console) -> anyhow::Result<Plan> {
    let mut places = places(&arguments.places)?;
    let rules = rules_of(&arguments.rules)?;
    let observer = Observer::new(&places, arguments.connection, console)?;
    let (against, detail) = match (arguments.list, places.len()) {
        (Some(_), 2) => bail!("--list compares one tree with a list: name one"),
        (Some(file), _) => {
            let list = Checksums::read(&file, arguments.digest.map(ListDigest::from))?;
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
    let look = Look { reach: ListReach::Tree, detail, rules };
    Ok(Plan { observer, place: places.remove(0), look, against })
}

/// Compares two trees; returns whether they are equal.
fn trees(a: &mut Looking, b: &mut Looking, ignored: &[Aspect], shown: Shown<'_>) -> Result<bool, LookError> {
    let tally: Tally =
        compare(&mut || next(a), &mut || next(b), ignored, &mut |difference| shown.difference(&difference))?;
    shown.tally(&tally);
    Ok(tally.is_equal())
}

/// The next record of a listing that is not complete.
fn next(looking: &mut Looking) -> Result<Record, LookError> {
    looking.next_record()?.ok_or_else(|| LookError::Failed("the listing has ended before it is complete".into()))
}
