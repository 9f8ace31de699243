//! Rules against the definition of their wildcards, and in bounded time whatever they are.

use icdc_filter::{Effect, Rule, Rules};
use proptest::collection::vec;
use proptest::prelude::*;

fn excludes(pattern: &[u8], path: &[u8], is_directory: bool) -> bool {
    let rules = [Rule { effect: Effect::Exclude, pattern: pattern.to_vec() }];
    Rules::compile(&rules).is_ok_and(|rules| rules.decide(path, is_directory) == Effect::Exclude)
}

/// The definition of wildcards without brackets, tried in all ways.
fn is_match(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', b'*', rest @ ..] => {
            let rest = rest.iter().position(|byte| *byte != b'*').map_or(&[][..], |stars| &rest[stars..]);
            (0..=text.len()).any(|taken| is_match(rest, &text[taken..]))
        }
        [b'*', rest @ ..] => {
            let most = text.iter().position(|byte| *byte == b'/').unwrap_or(text.len());
            (0..=most).any(|taken| is_match(rest, &text[taken..]))
        }
        [b'?', rest @ ..] => text.split_first().is_some_and(|(byte, text)| *byte != b'/' && is_match(rest, text)),
        [byte, rest @ ..] => text.split_first().is_some_and(|(first, text)| first == byte && is_match(rest, text)),
    }
}

fn path() -> impl Strategy<Value = Vec<u8>> {
    vec(vec(prop_oneof![Just(b'a'), Just(b'b')], 1..4), 1..5).prop_map(|components| components.join(&b'/'))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn wildcards_match_as_they_are_defined(mut pattern in vec(prop_oneof![
        3 => Just(b'*'), 2 => Just(b'a'), 1 => Just(b'b'), 1 => Just(b'?'), 2 => Just(b'/')
    ], 1..10), path in path()) {
        // A slash at the end would mean directories.
        if pattern.ends_with(b"/") {
            pattern.push(b'a');
        }
        // From the root on, so that all of the path counts.
        let anchored = [b"/", pattern.as_slice()].concat();
        prop_assert_eq!(excludes(&anchored, &path, false), is_match(&pattern, &path));
    }

    #[test]
    fn no_rule_and_no_path_is_too_much(pattern in vec(any::<u8>(), 0..64), path in vec(any::<u8>(), 1..64)) {
        excludes(&pattern, &path, true);
        excludes(&pattern, &path, false);
    }

    #[test]
    fn a_pattern_without_wildcards_is_the_path_itself(path in path()) {
        let anchored = [b"/", path.as_slice()].concat();
        prop_assert!(excludes(&anchored, &path, false));
        prop_assert!(excludes(&path, &path, false), "as many components as it has");
        let deeper = [b"c/", path.as_slice()].concat();
        prop_assert!(!excludes(&anchored, &deeper, false));
        prop_assert!(excludes(&path, &deeper, false));
        let directory = [path.as_slice(), b"/"].concat();
        prop_assert!(excludes(&directory, &path, true) && !excludes(&directory, &path, false));
    }
}

/// Patterns that a backtracking comparison would try in more ways than there is time for.
#[test]
fn stars_upon_stars_come_to_an_end() {
    let path = format!("{}/{}", "a".repeat(200), "a/".repeat(100) + &"a".repeat(3000));
    for pattern in [
        format!("{}b", "a*".repeat(1000)),
        format!("{}b", "*a".repeat(1000)),
        format!("{}b", "**a".repeat(1000)),
        format!("{}b", "**/a".repeat(1000)),
        format!("{}b", "**a*".repeat(800)),
        format!("x/{}b", "[a-z]*".repeat(600)),
        format!("{}[!a]", "?*".repeat(1000)),
    ] {
        assert!(!excludes(pattern.as_bytes(), path.as_bytes(), false), "{}", &pattern[..12]);
    }
}

#[test]
fn the_first_rule_that_matches_decides() {
    let rule = |effect, pattern: &str| Rule { effect, pattern: pattern.into() };
    let rules = [
        rule(Effect::Include, "keep/"),
        rule(Effect::Exclude, "/top/*.o"),
        rule(Effect::Include, "top/**"),
        rule(Effect::Exclude, "b/***"),
        rule(Effect::Exclude, "*~"),
    ];
    let rules = Rules::compile(&rules).unwrap();
    for (path, is_directory, expected) in [
        ("top/keep", true, Effect::Include),
        ("top/a.o", false, Effect::Exclude),
        ("top/sub/a.o", false, Effect::Include),
        ("top/sub/a~", false, Effect::Include),
        ("sub/top/a.o", false, Effect::Include),
        ("b", true, Effect::Exclude),
        ("b", false, Effect::Include),
        ("b/x", false, Effect::Exclude),
        ("sub/b/x/y", false, Effect::Exclude),
        ("a~", false, Effect::Exclude),
        ("other", false, Effect::Include),
    ] {
        assert_eq!(rules.decide(path.as_bytes(), is_directory), expected, "{path}");
    }
    assert_eq!(Rules::default().decide(b"x", false), Effect::Include);
}

#[test]
fn a_pattern_that_is_none_is_named() {
    let error = Rules::compile(&[Rule { effect: Effect::Include, pattern: b"a[b".to_vec() }]).unwrap_err();
    assert!(error.to_string().starts_with("a[b: the bracket is not closed"), "{error}");
    assert!(error.to_string().ends_with("at byte 2"), "{error}");
}
