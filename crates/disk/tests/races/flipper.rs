//! The thread that exchanges components of the paths for links that lead out.

use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};

use crate::world::World;

/// Exchanges of one component before the next one has its turn; even, so that it is in its place
/// then.
const IN_A_ROW: usize = 16;

/// A running exchange.
pub(crate) struct Flipper {
    flips: AtomicU64,
    stop: AtomicBool,
}

/// A component of a path that is exchanged. The directory that has it is held open: the way to it
/// may just lead elsewhere.
struct Component {
    above: OwnedFd,
    name: String,
    swap: Swap,
}

enum Swap {
    /// Exchanged, in one step, for a link that has this name beside it.
    Exchange(String),
    /// Removed, and made anew as a link with this target, and again as what it was: for names that
    /// the calls themselves make and remove.
    Remake(PathBuf, Remade),
}

#[derive(Clone, Copy)]
enum Remade {
    File,
    Directory,
    Nothing,
}

impl Flipper {
    /// Exchanges so far.
    pub(crate) fn flips(&self) -> u64 {
        self.flips.load(Ordering::Relaxed)
    }

    fn run(&self, components: &[Component]) {
        for component in components.iter().cycle() {
            for number in 0..IN_A_ROW {
                if component.flip(number % 2 == 0) {
                    self.flips.fetch_add(1, Ordering::Relaxed);
                }
            }
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
        }
    }
}

/// Ends the exchange, also when the test panics.
struct Stop<'a>(&'a Flipper);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// Does `work` while a thread exchanges every component of the paths of `world`, in turn.
pub(crate) fn while_flipping<T>(world: &World, work: impl FnOnce(&Flipper) -> T) -> T {
    let components = components(world);
    let flipper = Flipper { flips: AtomicU64::new(0), stop: AtomicBool::new(false) };
    thread::scope(|scope| {
        scope.spawn(|| flipper.run(&components));
        let _stop = Stop(&flipper);
        work(&flipper)
    })
}

fn components(world: &World) -> Vec<Component> {
    let exchanged = ["a", "a/b", "a/b/c", "a/b/c/file", "a/b/c/sub"].map(|path| Component::exchanged(world, path));
    let remade = [("victim", Remade::File), ("empty", Remade::Directory), ("dangling", Remade::Nothing)];
    let remade = remade.map(|(name, kind)| {
        let path = format!("{}/{name}", crate::world::ABOVE);
        let target = world.counterpart(&path);
        Component { above: above(world, &path), name: name.to_owned(), swap: Swap::Remake(target, kind) }
    });
    exchanged.into_iter().chain(remade).collect()
}

fn above(world: &World, path: &str) -> OwnedFd {
    let path = world.root().join(path);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, path.parent().unwrap(), flags, Mode::empty()).unwrap()
}

impl Component {
    fn exchanged(world: &World, path: &str) -> Self {
        let name = Path::new(path).file_name().unwrap().to_str().unwrap().to_owned();
        let trap = format!("trap-{name}");
        // Both kinds of targets: from here, and from the top.
        let target = match path {
            "a" => PathBuf::from("../outside/a"),
            _ => world.counterpart(path),
        };
        symlink(target, world.root().join(path).with_file_name(&trap)).unwrap();
        Self { above: above(world, path), name, swap: Swap::Exchange(trap) }
    }

    /// Puts the link in the place of the component, or the component back. False if a call was
    /// faster.
    fn flip(&self, to_link: bool) -> bool {
        let (above, name) = (&self.above, self.name.as_str());
        match &self.swap {
            Swap::Exchange(trap) => {
                rustix::fs::renameat_with(above, name, above, trap, RenameFlags::EXCHANGE).unwrap();
                true
            }
            Swap::Remake(target, kind) => {
                let directory = to_link && matches!(kind, Remade::Directory);
                let flags = if directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
                let _ = rustix::fs::unlinkat(above, name, flags);
                let mode = Mode::RUSR | Mode::WUSR | Mode::XUSR;
                let making = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                match (to_link, kind) {
                    (true, _) => rustix::fs::symlinkat(target, above, name).is_ok(),
                    (false, Remade::File) => rustix::fs::openat(above, name, making, mode).is_ok(),
                    (false, Remade::Directory) => rustix::fs::mkdirat(above, name, mode).is_ok(),
                    (false, Remade::Nothing) => true,
                }
            }
        }
    }
}
