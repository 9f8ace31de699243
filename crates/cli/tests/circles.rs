//! No circles of files: where a file uses another one, by whatever path of modules, that one does
//! not use it in turn, neither directly nor through others. A re-export counts as use of the file
//! that it leads to; `mod.rs`, `lib.rs` and `main.rs` may declare and re-export what is below them.
//! Tests within files are not looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{ItemMod, ItemUse, Macro, UseTree, Visibility};

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
        let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let mut source = Self::default();
        source.visit_file(&file);
        source
    }

    /// The paths of a use, groups taken apart.
    fn expand(&mut self, before: &[String], tree: &UseTree, is_public: bool) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        let path = match tree {
            UseTree::Path(path) => return self.expand(&with(&path.ident), &path.tree, is_public),
            UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.expand(before, tree, is_public));
            }
            UseTree::Name(name) if name.ident == "self" => before.to_vec(),
            UseTree::Name(name) => with(&name.ident),
            UseTree::Rename(renamed) => with(&renamed.ident),
            UseTree::Glob(_) if is_public => return,
            UseTree::Glob(_) => before.to_vec(),
        };
        match (is_public, path.last().cloned()) {
            // What is only passed on is no use of it.
            (true, Some(name)) => drop(self.exports.insert(name, path)),
            _ => self.uses.push(path),
        }
    }

    /// The paths of two segments and more in what a macro is given, which need not be Rust.
    fn scan(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(mark) if mark.as_char() == ':' && !path.is_empty() => colons += 1,
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.take(std::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                other => {
                    self.take(std::mem::take(&mut path));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.scan(group.stream());
                    }
                }
            }
        }
        self.take(path);
    }

    fn take(&mut self, path: Vec<String>) {
        if path.len() > 1 {
            self.uses.push(path);
        }
    }
}

impl<'ast> Visit<'ast> for Source {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        let is_test = module.attrs.iter().any(|attribute| {
            attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Path>().is_ok_and(|of| of.is_ident("test"))
        });
        if !is_test {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.expand(&[], &item.tree, !matches!(item.vis, Visibility::Inherited));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.take(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast Macro) {
        self.scan(called.tokens.clone());
        visit::visit_macro(self, called);
    }

    /// To whom something is visible is no use of it.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}
