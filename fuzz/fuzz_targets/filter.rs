//! Rules over paths, from an end and from a file: compiled or refused with where they are wrong, and
//! matched without a panic; what a file gives is compiled without another error.

#![no_main]

use icdc_filter::{Effect, Form, Rule, Rules, read_file};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<(bool, Vec<u8>)>, &[u8], &[u8], bool)| {
    let (patterns, file, path, is_directory) = input;
    let rules: Vec<Rule> = patterns
        .into_iter()
        .map(|(includes, pattern)| Rule { effect: if includes { Effect::Include } else { Effect::Exclude }, pattern })
        .collect();
    match Rules::compile(&rules) {
        Ok(compiled) => {
            let effect = compiled.decide(path, is_directory);
            assert!(effect == Effect::Include || rules.iter().any(|rule| rule.effect == Effect::Exclude));
        }
        Err(error) => assert!(error.offset <= error.pattern.len(), "{error}"),
    }
    for form in [Form::Rules, Form::Patterns(Effect::Include)] {
        let mut rules = Vec::new();
        if let Err(error) = read_file(file, form, &mut rules) {
            let line = file.split(|byte| *byte == b'\n').nth(error.line - 1).expect("the line is one of the file");
            assert!(error.column <= line.len() + 1, "{error}");
        }
        let compiled = Rules::compile(&rules).expect("what a file gives was compiled when it was read");
        let _ = compiled.decide(path, is_directory);
    }
});
