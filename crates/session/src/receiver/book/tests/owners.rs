//! Entries have the owners of this end before anything is decided about them.

use icdc_protocol::message::{Message, Preserve};
use icdc_protocol::owners::{OwnerMapping, OwnersBy};

use super::super::owners::KnownOwner;
use super::desk::{Desk, file, settings, source};

fn desk(owners: OwnerMapping) -> Desk {
    let mut settings = settings();
    settings.options.preserve = Preserve { owner: true, ..Preserve::default() };
    settings.options.owners = owners.into();
    Desk::begun_with(settings)
}

#[test]
fn names_that_were_told_before_an_entry_decide_its_owner() {
    let mut desk = desk(OwnerMapping { by: OwnersBy::Names, ..OwnerMapping::default() });
    desk.book.on_owner_names(&[KnownOwner { id: 1000, name: b"anna".to_vec(), here: Some(2000) }], &[]);
    let mut entry = file(1, 0, "a", 9);
    entry.owner = Some((1000, 1000));
    desk.announce(&[source(0, 0), entry]);
    assert_eq!(desk.book.item(1).map(|item| item.entry.owner), Some(Some((2000, 1000))));
}

#[test]
fn names_that_were_not_asked_for_end_the_session() {
    let mut desk = desk(OwnerMapping::default());
    desk.book.on_owner_names(&[], &[]);
    desk.say(Message::End);
    assert!(desk.log().iter().any(|line| line.starts_with("fail")), "the session goes on");
}
