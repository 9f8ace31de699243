//! Every call of a tree that takes a path or a name, each by a path of its own.

use std::fs::File;
use std::io::{Read as _, Write as _};

use icdc_disk::tree::{
    AttributeKinds, Directory, FileTime, Followed, FoundXattrs, Metadata, Name, Result, Special, Stat, Tree, TreeError,
    Visitor, WalkFailure, WalkItem, Whereabouts,
};

use crate::world::{ABOVE, SIDE, World};

/// One call; it panics if it got outside.
pub(crate) type Call = fn(&mut Caller<'_>) -> Result<()>;

/// All calls by their names.
pub(crate) const CALLS: [(&str, Call); 32] = [
    ("resolve", resolve),
    ("stat", stat),
    ("incarnation", incarnation),
    ("place", place),
    ("open a file", open_file),
    ("open a file again", reopen_file),
    ("follow to a file", follow_to_file),
    ("follow to a directory", follow_to_directory),
    ("follow to a directory and nothing else", open_linked),
    ("open a directory", open_directory),
    ("open a directory unless it is mounted", open_directory_on_mount),
    ("list", entries),
    ("look up in a list", lists),
    ("walk", walk),
    ("read a link", read_link),
    ("make a file", create_file),
    ("make a directory", make_directory),
    ("make a symbolic link", make_symlink),
    ("make a named pipe", make_special),
    ("make a hard link", hard_link),
    ("rename", rename),
    ("rename unless it is there", rename_new),
    ("rename a directory unless it is there", rename_directory_new),
    ("remove a file", remove_file),
    ("remove a directory", remove_directory),
    ("set a file's attributes", set_metadata),
    ("amend a file's attributes", amend),
    ("set a directory's attributes", set_own_metadata),
    ("set a link's attributes", set_link_metadata),
    ("set a named pipe's attributes", set_special_metadata),
    ("read a file's attributes", xattrs),
    ("read a directory's attributes", own_xattrs),
];

/// Makes calls, each time by the next of the ways to reach a directory.
pub(crate) struct Caller<'a> {
    world: &'a World,
    tree: Tree,
    held: Directory,
    place: Whereabouts,
    before: Option<(Vec<u8>, Directory)>,
    turns: usize,
}

impl<'a> Caller<'a> {
    /// A caller; it must be made when each component is in its place, or before it is exchanged.
    pub(crate) fn new(world: &'a World) -> Self {
        let tree = Tree::open(&world.root()).unwrap();
        // The exchange has begun: by and by, every component is in its place.
        let held = (0..1_000_000).find_map(|_| descend(tree.root(), Directory::open_directory).ok()).unwrap();
        let place = held.whereabouts();
        Self { world, tree, held, place, before: None, turns: 0 }
    }

    /// The directory `a/b/c`, by one of the ways in which a tree finds directories.
    fn directory(&mut self) -> Result<Directory> {
        self.turns += 1;
        let root = self.tree.root();
        let found = match self.turns % 10 {
            0 => self.tree.resolve(b"a/b/c/file")?.directory,
            1 => self.tree.resolve(ABOVE.as_bytes())?.open_directory()?,
            2 => descend(root, Directory::open_directory)?,
            3 => root.reopen(&self.place)?,
            4 => self.tree.resolve_beside(b"/a/b/c/file", &mut self.before)?.directory,
            5 => {
                self.before = None;
                self.tree.resolve(b"a/b/../b/c/.")?.directory
            }
            6 => descend(root, |directory, name| Ok(as_directory(directory.follow(name)?)))?,
            7 => descend(root, |directory, name| directory.make_directory(name, 0o755))?,
            8 => descend(root, Directory::open_linked)?,
            _ => self.held.clone(),
        };
        self.judge(&found.own_stat()?);
        Ok(found)
    }

    /// Fails the test if the item is outside.
    #[track_caller]
    fn judge(&self, found: &Stat) {
        assert!(!self.world.is_outside(found.dev, found.ino), "it got outside: {found:?}");
    }

    /// Attributes to set, none of which is had outside. The time differs from call to call.
    fn wanted<'b>(&self, xattrs: &'b [(Vec<u8>, Vec<u8>)]) -> Metadata<'b> {
        let owner = rustix::process::geteuid().is_root().then_some((12345, 23456));
        let mtime = FileTime { seconds: self.turns as i64, nanos: 5 };
        let xattrs = self.world.has_xattrs().then_some(xattrs);
        Metadata { mode: Some(0o711), kept_mode: 0, mtime: Some(mtime), owner, xattrs, kinds: AttributeKinds::USER }
    }
}

fn descend(root: &Directory, enter: impl Fn(&Directory, &Name) -> Result<Directory>) -> Result<Directory> {
    ABOVE.split('/').try_fold(root.clone(), |directory, component| enter(&directory, &name(component)))
}

fn name(name: &str) -> Name {
    Name::new(name.as_bytes()).unwrap()
}

#[track_caller]
fn as_directory(followed: Followed) -> Directory {
    let Followed::Directory(directory) = followed else { panic!("a file where only directories and links are") };
    directory
}

/// Fails the test unless the file was made inside.
#[track_caller]
fn judge_contents(mut file: &File) {
    let mut found = String::new();
    file.read_to_string(&mut found).unwrap();
    assert!(found.starts_with("inside"), "contents from outside: {found}");
}

#[track_caller]
fn judge_attributes(found: &FoundXattrs) {
    assert!(found.carried.iter().all(|(_, value)| value != b"outside"), "attributes from outside: {found:?}");
}

fn marks() -> [(Vec<u8>, Vec<u8>); 1] {
    [(SIDE.as_bytes().to_vec(), b"inside again".to_vec())]
}

fn resolve(caller: &mut Caller<'_>) -> Result<()> {
    let located = caller.tree.resolve(b"a/b/c/sub/file")?;
    caller.judge(&located.directory.own_stat()?);
    located.stat.iter().for_each(|stat| caller.judge(stat));
    Ok(())
}

fn stat(caller: &mut Caller<'_>) -> Result<()> {
    let stat = caller.directory()?.stat(&name("file"))?;
    caller.judge(&stat);
    Ok(())
}

fn incarnation(caller: &mut Caller<'_>) -> Result<()> {
    let (stat, _) = caller.directory()?.incarnation(&name("file"))?;
    caller.judge(&stat);
    Ok(())
}

fn place(caller: &mut Caller<'_>) -> Result<()> {
    let place = caller.directory()?.open_reference(&name("sub"))?;
    caller.judge(&Stat::of(place).unwrap());
    Ok(())
}

fn open_file(caller: &mut Caller<'_>) -> Result<()> {
    let (file, stat) = caller.directory()?.open_file(&name("file"))?;
    caller.judge(&stat);
    judge_contents(&file);
    Ok(())
}

fn reopen_file(caller: &mut Caller<'_>) -> Result<()> {
    let (mut file, stat) = caller.directory()?.reopen_file(&name("file"))?;
    caller.judge(&stat);
    file.write_all(b"inside, and written to").unwrap();
    Ok(())
}

fn follow_to_file(caller: &mut Caller<'_>) -> Result<()> {
    if let Followed::File(file, stat) = caller.directory()?.follow(&name("file"))? {
        caller.judge(&stat);
        judge_contents(&file);
    }
    Ok(())
}

fn follow_to_directory(caller: &mut Caller<'_>) -> Result<()> {
    let found = as_directory(caller.directory()?.follow(&name("sub"))?);
    caller.judge(&found.own_stat()?);
    Ok(())
}

fn open_linked(caller: &mut Caller<'_>) -> Result<()> {
    let above = caller.directory()?;
    let found = above.open_linked(&name("sub"))?;
    caller.judge(&found.own_stat()?);
    caller.judge(&above.reopen(&found.whereabouts())?.own_stat()?);
    Ok(())
}

fn open_directory(caller: &mut Caller<'_>) -> Result<()> {
    let found = caller.directory()?.open_directory(&name("sub"))?;
    caller.judge(&found.own_stat()?);
    Ok(())
}

fn open_directory_on_mount(caller: &mut Caller<'_>) -> Result<()> {
    let found = descend(caller.tree.root(), Directory::open_directory_on_mount)?;
    caller.judge(&found.own_stat()?);
    Ok(())
}

fn entries(caller: &mut Caller<'_>) -> Result<()> {
    for directory in [caller.directory()?, caller.directory()?.open_directory(&name("sub"))?] {
        let listing = directory.entries()?;
        assert!(listing.iter().all(|entry| entry.name != b"outside-only"), "names from outside");
    }
    Ok(())
}

fn lists(caller: &mut Caller<'_>) -> Result<()> {
    assert!(!caller.directory()?.lists(&name("outside-only"))?, "a name from outside");
    Ok(())
}

/// Judges the items of a walk.
struct Judge<'a, 'b>(&'a Caller<'b>);

impl Visitor for Judge<'_, '_> {
    type Error = WalkFailure;

    fn visit(&mut self, above: &Directory, item: &WalkItem) -> std::result::Result<(), WalkFailure> {
        let Self(caller) = self;
        caller.judge(&item.stat);
        above.own_stat().iter().for_each(|stat| caller.judge(stat));
        assert_ne!(item.name.as_bytes(), b"outside-only", "a name from outside");
        Ok(())
    }
}

fn walk(caller: &mut Caller<'_>) -> Result<()> {
    let (directory, name) = (caller.directory()?, name("sub"));
    let stat = directory.stat(&name)?;
    let item = WalkItem { name, stat, path: b"sub".to_vec() };
    let is_directory = item.is_directory();
    let walked = icdc_disk::tree::walk(&directory, item, &mut Judge(caller));
    let refused = || TreeError::Escapes { path: "sub".to_owned(), call: "openat2" };
    if walked.is_ok() && is_directory { Ok(()) } else { Err(refused()) }
}

fn read_link(caller: &mut Caller<'_>) -> Result<()> {
    assert_eq!(caller.directory()?.read_link(&name("link"))?, b"inside-target");
    Ok(())
}

fn create_file(caller: &mut Caller<'_>) -> Result<()> {
    let (directory, made) = (caller.directory()?, name("dangling"));
    let mut file = directory.create_file(&made, 0o600)?;
    file.write_all(b"inside").unwrap();
    let _ = directory.remove_file(&made);
    Ok(())
}

fn make_directory(caller: &mut Caller<'_>) -> Result<()> {
    let made = caller.directory()?.make_directory(&name("empty"), 0o755)?;
    caller.judge(&made.own_stat()?);
    Ok(())
}

fn make_symlink(caller: &mut Caller<'_>) -> Result<()> {
    let (directory, made) = (caller.directory()?, name("made-link"));
    directory.make_symlink(b"nowhere", &made)?;
    directory.remove_file(&made)
}

fn make_special(caller: &mut Caller<'_>) -> Result<()> {
    let (directory, made) = (caller.directory()?, name("made-pipe"));
    directory.make_special(Special::Pipe, &made, 0o600)?;
    caller.judge(&directory.stat(&made)?);
    directory.remove_file(&made)
}

fn hard_link(caller: &mut Caller<'_>) -> Result<()> {
    let (from, to, second) = (caller.directory()?, caller.directory()?, name("second"));
    to.hard_link(&from, &name("linked"), &second)?;
    caller.judge(&to.stat(&second)?);
    to.remove_file(&second)
}

fn rename(caller: &mut Caller<'_>) -> Result<()> {
    let (from, to, made) = (caller.directory()?, caller.directory()?, name("made"));
    from.create_file(&made, 0o600)?;
    // The flipper may have made a directory's or a link's name of it.
    let renamed = from.rename(&made, &to, &name("victim"));
    renamed.inspect_err(|_| from.remove_file(&made).unwrap())
}

fn rename_new(caller: &mut Caller<'_>) -> Result<()> {
    let (from, to, made) = (caller.directory()?, caller.directory()?, name("made"));
    from.create_file(&made, 0o600)?;
    let renamed = from.rename_new(&made, &to, &name("dangling"));
    renamed.inspect_err(|_| from.remove_file(&made).unwrap())?;
    let _ = to.remove_file(&name("dangling"));
    Ok(())
}

fn rename_directory_new(caller: &mut Caller<'_>) -> Result<()> {
    let (from, to, made) = (caller.directory()?, caller.directory()?, name("made-directory"));
    from.make_directory(&made, 0o700)?;
    let renamed = from.rename_directory_new(&made, &to, &name("dangling"));
    renamed.inspect_err(|_| from.remove_directory(&made).unwrap())?;
    let _ = to.remove_directory(&name("dangling"));
    Ok(())
}

fn remove_file(caller: &mut Caller<'_>) -> Result<()> {
    caller.directory()?.remove_file(&name("victim"))
}

fn remove_directory(caller: &mut Caller<'_>) -> Result<()> {
    caller.directory()?.remove_directory(&name("empty"))
}

fn set_metadata(caller: &mut Caller<'_>) -> Result<()> {
    let (directory, name, marks) = (caller.directory()?, name("file"), marks());
    let (file, _) = directory.open_file(&name)?;
    directory.set_metadata(&name, &file, &caller.wanted(&marks))
}

fn amend(caller: &mut Caller<'_>) -> Result<()> {
    let (directory, name, marks) = (caller.directory()?, name("file"), marks());
    let (file, _) = directory.open_file(&name)?;
    let mode = Some(0o700 + (caller.turns % 8) as u16);
    directory.amend(&name, &file, &Metadata { mode, ..caller.wanted(&marks) }).map(drop)
}

fn set_own_metadata(caller: &mut Caller<'_>) -> Result<()> {
    let marks = marks();
    caller.directory()?.open_directory(&name("sub"))?.set_own_metadata(&caller.wanted(&marks))
}

fn set_link_metadata(caller: &mut Caller<'_>) -> Result<()> {
    let directory = caller.directory()?;
    directory.set_link_metadata(&name("file"), &caller.wanted(&[]))
}

fn set_special_metadata(caller: &mut Caller<'_>) -> Result<()> {
    let (directory, made) = (caller.directory()?, name("made-pipe"));
    directory.make_special(Special::Pipe, &made, 0o600)?;
    let found = directory.stat(&made)?;
    let set = directory.set_special_metadata(&made, &found, &caller.wanted(&[]));
    directory.remove_file(&made)?;
    set
}

fn xattrs(caller: &mut Caller<'_>) -> Result<()> {
    let (directory, name) = (caller.directory()?, name("file"));
    let (file, _) = directory.open_file(&name)?;
    judge_attributes(&directory.xattrs(&name, &file, AttributeKinds::USER)?);
    Ok(())
}

fn own_xattrs(caller: &mut Caller<'_>) -> Result<()> {
    judge_attributes(&caller.directory()?.open_directory(&name("sub"))?.own_xattrs(AttributeKinds::USER)?);
    Ok(())
}
