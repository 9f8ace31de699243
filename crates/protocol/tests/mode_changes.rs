//! Changes of modes on the way.

use icdc_protocol::message::ModeChange;
use icdc_protocol::mode_change::{ChangedItems, Copied, CopiedBits, Execution, UserClass, changed};

const PLAIN: ModeChange =
    ModeChange { of: ChangedItems::All, kept: 0o7777, set: 0, execution: Execution::Given, copied: None };

#[test]
fn bits_are_cleared_and_set_in_order() {
    let octal = ModeChange { kept: 0, set: 0o644, ..PLAIN };
    let more = ModeChange { set: 0o100, ..PLAIN };
    assert_eq!(changed(&[], 0o4751, false), 0o4751);
    assert_eq!(changed(&[octal], 0o4751, false), 0o644);
    assert_eq!(changed(&[octal, more], 0o4751, false), 0o744);
    assert_eq!(changed(&[more, octal], 0o4751, false), 0o644);
}

#[test]
fn a_change_is_about_directories_or_others_or_all() {
    for (of, file, directory) in [
        (ChangedItems::All, 0o600, 0o600),
        (ChangedItems::Directories, 0o755, 0o600),
        (ChangedItems::Others, 0o600, 0o755),
    ] {
        let change = ModeChange { of, kept: 0, set: 0o600, ..PLAIN };
        assert_eq!((changed(&[change], 0o755, false), changed(&[change], 0o755, true)), (file, directory), "{of:?}");
    }
}

#[test]
fn execution_is_given_to_what_was_executable_before_all_changes() {
    let closed = ModeChange { kept: 0, set: 0o600, ..PLAIN };
    let x = ModeChange { set: 0o111, execution: Execution::IfExecutable, ..PLAIN };
    for (mode, is_directory, expected) in
        [(0o644, false, 0o600), (0o010, false, 0o711), (0o644, true, 0o711), (0o755, true, 0o711)]
    {
        assert_eq!(changed(&[closed, x], mode, is_directory), expected, "{mode:o}");
    }
}

#[test]
fn permissions_of_some_are_given_to_others_or_taken() {
    let copied = |from, to, how| ModeChange { copied: Some(CopiedBits { from, to, how }), ..PLAIN };
    // g=u, o+g, g-o
    let equal = ModeChange { kept: 0o7707, ..copied(UserClass::Owner, 0o070, Copied::Given) };
    assert_eq!(changed(&[equal], 0o641, false), 0o661);
    assert_eq!(changed(&[copied(UserClass::Group, 0o007, Copied::Given)], 0o641, false), 0o645);
    assert_eq!(changed(&[copied(UserClass::Others, 0o070, Copied::Taken)], 0o654, false), 0o614);
}
