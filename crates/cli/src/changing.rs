//! Changes of names on this host and on others: directories made, items removed and renamed.
//!
//! | file | what |
//! |---|---|
//! | `hosts` | paths of a command line, by the hosts that have them |
//! | `teller` | shows what a change tells, and asks before directories are removed |

mod hosts;
mod teller;

use std::io::{IsTerminal as _, stderr, stdin};

use anyhow::ensure;
use icdc_client::{Location, LookError, change};
use icdc_protocol::message::{ChangeCount, ChangeRequest};

use self::hosts::{Host, by_host};
use self::teller::{Consent, Form, Teller};
use crate::arguments::{MkdirArguments, MvArguments, RmArguments};
use crate::console::Console;
use crate::exit;
use crate::looking::places::{Observer, finish, give_up, places};

/// Runs `icdc mkdir` and returns the exit code.
pub(crate) fn mkdir(arguments: MkdirArguments, console: &Console) -> u8 {
    let MkdirArguments { parents: mkpath, verbose, json, connection, places: texts } = arguments;
    let planned = places(&texts).and_then(|places| {
        let observer = Observer::new(&places, connection, console)?;
        Ok((by_host(places)?, observer))
    });
    let (hosts, observer) = match planned {
        Ok(planned) => planned,
        Err(error) => return console.give_up(&error, exit::USAGE),
    };
    let changes =
        hosts.into_iter().map(|Host { place, paths }| (place, ChangeRequest::MakeDirectories { paths, mkpath }));
    let teller = |place: &Location| Teller::new(place, "made", Form::of(json, verbose), console);
    run(changes, &observer, teller, console)
}

/// Runs `icdc rm` and returns the exit code.
pub(crate) fn rm(arguments: RmArguments, console: &Console) -> u8 {
    let RmArguments { recursive, dry_run, yes, verbose, json, connection, places: texts } = arguments;
    let planned = places(&texts).and_then(|places| {
        ensure!(
            !recursive || yes || dry_run || stdin().is_terminal() && stderr().is_terminal() && !json,
            "-r removes directories with everything in them: see by --dry-run what that is, then give --yes (on a terminal, \
             icdc tells how much it is and asks)"
        );
        let observer = Observer::new(&places, connection, console)?;
        Ok((by_host(places)?, observer))
    });
    let (hosts, observer) = match planned {
        Ok(planned) => planned,
        Err(error) => return console.give_up(&error, exit::USAGE),
    };
    let names = verbose || json;
    let changes = hosts
        .into_iter()
        .map(|Host { place, paths }| (place, ChangeRequest::Remove { paths, recursive, dry_run, names }));
    let verb = if dry_run { "would be removed" } else { "removed" };
    let consent = if recursive && !yes { Consent::Asked(observer.stop().clone()) } else { Consent::Given };
    let form = Form::of(json, verbose || dry_run);
    let teller = |place: &Location| Teller::new(place, verb, form, console).asking(consent.clone());
    run(changes, &observer, teller, console)
}

/// Runs `icdc mv` and returns the exit code.
pub(crate) fn mv(arguments: MvArguments, console: &Console) -> u8 {
    let MvArguments { force: replace, verbose, json, connection, from, to } = arguments;
    let planned = places(&[from, to]).and_then(|places| {
        let observer = Observer::new(&places, connection, console)?;
        let mut hosts = by_host(places)?;
        ensure!(
            hosts.len() == 1,
            "FROM and TO are on different hosts, between which nothing is renamed; icdc copy --move FROM TO copies, and then \
             removes FROM"
        );
        Ok((hosts.remove(0), observer))
    });
    let (Host { place, paths }, observer) = match planned {
        Ok(planned) => planned,
        Err(error) => return console.give_up(&error, exit::USAGE),
    };
    let mut paths = paths.into_iter();
    let (from, to) = (paths.next().unwrap_or_default(), paths.next().unwrap_or_default());
    let teller = |place: &Location| Teller::new(place, "renamed to", Form::of(json, verbose), console);
    run(std::iter::once((place, ChangeRequest::Rename { from, to, replace })), &observer, teller, console)
}

/// Asks each host for its change, shows what becomes of it, and returns the exit code.
fn run<'a>(
    changes: impl Iterator<Item = (Location, ChangeRequest)>,
    observer: &Observer,
    teller: impl Fn(&Location) -> Teller<'a>,
    console: &Console,
) -> u8 {
    let mut is_good = true;
    for (place, request) in changes {
        let mut teller = teller(&place);
        match ask(&place, request, observer, &mut teller) {
            Ok(count) => teller.end(&count),
            Err(LookError::Interrupted) if teller.is_declined() => {
                console.complain("nothing was removed");
                return exit::USAGE;
            }
            Err(error) => return give_up(&error, console),
        }
        is_good &= !teller.has_failed();
        console.flush();
    }
    finish(is_good, console)
}

/// Carries out the change at the host of `place`, and tells `teller` about it.
fn ask(
    place: &Location,
    request: ChangeRequest,
    observer: &Observer,
    teller: &mut Teller<'_>,
) -> Result<ChangeCount, LookError> {
    let (reaching, stop) = observer.reaching();
    change(place, request, reaching, stop, teller)
}
