#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use super::*;

/// Names and ids in a file of accounts.
fn listed(path: &str) -> Vec<(Vec<u8>, u32)> {
    let text = std::fs::read_to_string(path).unwrap();
    let fields = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    fields.filter_map(|fields| Some((fields.first()?.as_bytes().to_vec(), fields.get(2)?.parse().ok()?))).collect()
}

#[test]
fn programs_and_the_library_know_the_same() {
    for name in [c"root", c"nobody", c"daemon"] {
        let known = library::user_of_name(name).unwrap();
        assert_eq!(programs::user_of_name(name).unwrap(), known, "{name:?}");
        let mut by_program = programs::groups_of(name).unwrap().unwrap();
        let mut by_library = library::groups_of(name, known.unwrap().1).unwrap();
        by_program.sort_unstable();
        by_library.sort_unstable();
        assert_eq!(by_program, by_library, "{name:?}");
    }
    assert_eq!(programs::group_of_name(c"daemon").unwrap(), library::group_of_name(c"daemon").unwrap());
    for id in [0, 1, 3_999_999_999] {
        assert_eq!(programs::name_of("passwd", id).unwrap(), library::user_of_id(id).unwrap(), "{id}");
        assert_eq!(programs::name_of("group", id).unwrap(), library::group_of_id(id).unwrap(), "{id}");
    }
}

#[test]
fn accounts_in_files_are_known_by_name_and_by_id() {
    let users = (user_id as fn(&[u8]) -> Option<u32>, user_name as fn(u32) -> Option<Vec<u8>>);
    for (path, (id_of, name_of)) in [("/etc/passwd", users), ("/etc/group", (group_id, group_name))] {
        let all = listed(path);
        assert!(!all.is_empty());
        for (name, id) in &all {
            assert_eq!(id_of(name), Some(*id), "{path}");
            // Several names may have one id.
            let first = all.iter().find(|(_, other)| other == id).map(|(name, _)| name.clone());
            assert_eq!(name_of(*id), first, "{path}");
        }
    }
}

#[test]
fn nobody_is_found_by_a_number_or_an_option() {
    for name in [c"0", c"--help", c"no-such-user-here", c""] {
        assert_eq!(programs::user_of_name(name).unwrap(), None, "{name:?}");
        assert_eq!((user_id(name.to_bytes()), group_id(name.to_bytes())), (None, None), "{name:?}");
        assert_eq!(programs::group_of_name(name).unwrap(), None, "{name:?}");
    }
    assert_eq!((user_id(b"a\0b"), user_name(3_999_999_999), group_name(3_999_999_999)), (None, None, None));
    assert_eq!(programs::user_entry(b"root:x:0:0:root:/root:/bin/sh\n", b"0"), None);
    assert_eq!(programs::user_entry(b"ada:x:1815:1852::/home/ada:/bin/sh\n", b"ada"), Some((1815, 1852)));
    assert_eq!(programs::user_entry(b"ada:x:1815\n", b"ada"), None);
}
