//! No circles of files: where a file uses another one, by whatever path of modules, that one does
//! not use it in turn, neither directly nor through others. A re-export counts as use of the file
//! that it leads to; `mod.rs`, `lib.rs` and `main.rs` may declare and re-export what is below them.
//! Tests within files are not looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A file's place among the modules of its crate.
type Module = Vec<String>;

#[derive(Default)]
struct Source {
    /// Paths that it uses, each as its segments.
    uses: Vec<Vec<String>>,
    /// What it re-exports: the last segment, and the whole path.
    exports: BTreeMap<String, Vec<String>>,
}

#[derive(Default)]
struct Files(BTreeMap<Module, Source>);

#[test]
fn files_do_not_use_each_other_in_circles() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for entry in fs::read_dir(crates).expect("a directory of crates") {
        let path = entry.expect("a crate").path();
        let mut files = Files::default();
        files.read(&path.join("src"), &[]);
        assert!(files.0.len() > 1, "{} has been read", path.display());
        assert_eq!(files.circles(), Vec::<String>::new(), "{}", path.display());
    }
}

#[test]
fn a_circle_is_found_through_groups_and_re_exports() {
    let mut files = Files::default();
    let mut add = |module: &[&str], text: &str| {
        files.0.insert(module.iter().map(|&part| part.to_owned()).collect(), Source::of(text));
    };
    add(&[], "mod a;\nmod b;\npub use b::{One, inner::Two};\nfn main() { a::run(); }");
    add(&["a"], "use std::{fs, io};\nuse crate::{One, b::inner};\nfn run() {}");
    add(&["b"], "pub struct One;\nmod inner; // crate::a");
    add(&["b", "inner"], "pub struct Two; const A: &str = \"crate::a\";");
    assert_eq!(files.circles(), Vec::<String>::new());
    files.0.insert(vec!["b".to_owned()], Source::of("pub struct One;\nfn f() { super::a::run(); }"));
    assert_eq!(files.circles(), ["a -> b -> a"]);
    files.0.insert(vec!["b".to_owned()], Source::of("pub struct One;\n#[cfg(test)]\nmod tests { use crate::a; }"));
    assert_eq!(files.circles(), Vec::<String>::new());
}

impl Files {
    fn read(&mut self, directory: &Path, parent: &[String]) {
        for entry in fs::read_dir(directory).expect("a directory of sources") {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let own = || parent.iter().cloned().chain([name.clone()]).collect::<Module>();
            if path.is_dir() {
                self.read(&path, &own());
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let module = if ["lib", "main", "mod"].contains(&name.as_str()) { parent.to_vec() } else { own() };
                self.0.insert(module, Source::of(&fs::read_to_string(&path).expect("a source")));
            }
        }
    }

    /// Each circle once, as a chain of modules.
    fn circles(&self) -> Vec<String> {
        let edges: BTreeMap<&Module, BTreeSet<Module>> =
            self.0.iter().map(|(module, source)| (module, self.targets(module, source))).collect();
        let mut circles = Vec::new();
        for start in self.0.keys() {
            // The shortest way back to the least of its modules.
            let mut chains = vec![vec![start.clone()]];
            let mut seen = BTreeSet::new();
            while let Some(chain) = (!chains.is_empty()).then(|| chains.remove(0)) {
                let last = chain.last().expect("a chain has an end");
                if chain.len() > 1 && last == start {
                    circles.push(chain.iter().map(|module| module.join("::")).collect::<Vec<_>>().join(" -> "));
                    break;
                }
                let next = edges[last].iter().filter(|next| *next >= start && seen.insert((*next).clone()));
                chains.extend(next.map(|next| [&chain[..], std::slice::from_ref(next)].concat()));
            }
        }
        circles
    }

    /// The files that one uses.
    fn targets(&self, module: &Module, source: &Source) -> BTreeSet<Module> {
        let paths = source.uses.iter().filter_map(|path| self.absolute(module, path));
        paths.filter_map(|path| self.file_of(path, 0)).filter(|target| target != module).collect()
    }

    /// A path from the crate's root, if it leads into this crate.
    fn absolute(&self, module: &Module, path: &[String]) -> Option<Vec<String>> {
        let ups = path.iter().take_while(|part| *part == "super").count();
        if ups > 0 {
            let base = module.len().checked_sub(ups)?;
            return Some([&module[..base], &path[ups..]].concat());
        }
        match path[0].as_str() {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([module, &path[1..]].concat()),
            first => {
                let child: Module = module.iter().cloned().chain([first.to_owned()]).collect();
                self.0.contains_key(&child).then(|| [module, path].concat())
            }
        }
    }

    /// The file in which what a path names is written, through re-exports.
    fn file_of(&self, path: Vec<String>, depth: u8) -> Option<Module> {
        let length = (0..=path.len()).rev().find(|&length| self.0.contains_key(&path[..length]))?;
        let (module, rest) = path.split_at(length);
        let exported = rest.first().and_then(|name| self.0[module].exports.get(name));
        match exported {
            Some(_) if depth > 8 => None,
            Some(target) => {
                let target = self.absolute(&module.to_vec(), target)?;
                self.file_of([&target, &rest[1..]].concat(), depth + 1)
            }
            None => Some(module.to_vec()),
        }
    }
}

impl Source {
    fn of(text: &str) -> Self {
        let text = code(text);
        let mut source = Self::default();
        let mut rest = text.as_str();
        let mut body = String::new();
        while let Some(at) = next_use(rest) {
            let end = at + rest[at..].find(';').expect("a use ends");
            let before = &rest[..at];
            let line = before.rsplit('\n').next().unwrap_or_default();
            for path in expand(rest[at + 4..end].trim()) {
                if line.trim_start().starts_with("pub") {
                    source.exports.insert(path.last().expect("a path has an end").clone(), path.clone());
                }
                // What is only passed on is no use of it.
                if !line.trim_start().starts_with("pub") {
                    source.uses.push(path);
                }
            }
            body += before;
            rest = &rest[end + 1..];
        }
        body += rest;
        source.uses.extend(paths(&body));
        source
    }
}

/// Where the next `use` of a text stands, at the beginning of a line or after `pub`.
fn next_use(text: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find("use ")?;
        let line = text[..at].rsplit('\n').next().unwrap_or_default().trim();
        if line.is_empty() || (line.starts_with("pub") && !line.contains(char::is_whitespace)) {
            return Some(at);
        }
        from = at + 4;
    }
}

/// A file without comments, texts and its tests.
fn code(text: &str) -> String {
    let tests = text.match_indices("#[cfg(test)]\n").map(|(at, _)| at).find(|at| {
        let item = text[*at..].lines().nth(1).unwrap_or_default();
        item.contains("mod tests")
    });
    let text = &text[..tests.unwrap_or(text.len())];
    let mut code = String::new();
    for line in text.lines() {
        let mut quoted = false;
        let mut last = ' ';
        let mut characters = line.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '"' if last != '\\' && last != '\'' => quoted = !quoted,
                '/' if !quoted && characters.peek() == Some(&'/') => break,
                _ if !quoted => code.push(character),
                _ => {}
            }
            last = character;
        }
        code.push('\n');
    }
    code
}

/// The paths of a use, groups taken apart.
fn expand(tree: &str) -> Vec<Vec<String>> {
    let Some((head, group)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        return vec![
            path.split("::")
                .map(|part| part.trim().to_owned())
                .filter(|part| part != "self" || !path.contains("::"))
                .collect(),
        ];
    };
    let group = group.trim_end().strip_suffix('}').expect("a group is closed");
    let (mut depth, mut members) = (0, vec![String::new()]);
    for character in group.chars() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                members.push(String::new());
                continue;
            }
            _ => {}
        }
        members.last_mut().expect("there is one").push(character);
    }
    let members = members.iter().map(|member| member.trim()).filter(|member| !member.is_empty());
    members.flat_map(|member| expand(&format!("{}{member}", head.trim()))).collect()
}

/// All paths of two segments and more in code.
fn paths(code: &str) -> Vec<Vec<String>> {
    let is_part = |character: char| character.is_alphanumeric() || character == '_' || character == ':';
    let words = code.split(|character| !is_part(character)).filter(|word| word.contains("::"));
    let parts = |word: &str| word.split("::").map(str::to_owned).collect::<Vec<_>>();
    words.map(parts).filter(|parts| parts.iter().all(|part| !part.is_empty() && !part.contains(':'))).collect()
}
