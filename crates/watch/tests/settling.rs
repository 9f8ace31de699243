//! Worlds in which writers make, write, rename and remove files while events are told, lost and made up for by walks.
//! However that goes, at the end every file that is there has settled as it is; and as long as nothing is lost, none
//! settles that a writer has open. Every world follows from its number: `ICDC_SEED=4711 cargo test -p icdc-watch --test
//! settling`.

use std::collections::{BTreeMap, HashMap};

use icdc_units::{Span, Time};
use icdc_watch::{Delays, Due, Place, Settling, Verdict};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

const WORLDS: u64 = 3000;
const STEPS: usize = 120;
const DELAYS: Delays = Delays { settle: Span::from_secs(2), after_close: Span::from_millis(200) };

/// A file of the world.
#[derive(Clone, Copy, Debug)]
struct File {
    version: u64,
    is_open: bool,
    /// Whether its present writer was seen to open it.
    is_known_open: bool,
}

struct World {
    random: ChaCha8Rng,
    now: Time,
    files: BTreeMap<Place, File>,
    next_version: u64,
    /// Events that are told later; `None` once the queue has overflown.
    queue: Option<Vec<Told>>,
    settling: Settling,
    /// Versions that have settled, by name.
    settled: HashMap<Place, u64>,
    has_lost: bool,
}

/// An event on its way.
#[derive(Clone, Debug)]
enum Told {
    Written(Place),
    Closed(Place),
    Moved(Place, Place),
    Gone(Place),
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            now: Time::ORIGIN,
            files: BTreeMap::new(),
            next_version: 0,
            queue: Some(Vec::new()),
            settling: Settling::new(DELAYS),
            settled: HashMap::new(),
            has_lost: false,
        }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.next_u64() % end
    }

    fn place(&mut self) -> Place {
        let (directory, name) = (self.below(2), self.below(5));
        Place { tree: 0, path: format!("d{directory}/f{name}").into_bytes() }
    }

    fn tell(&mut self, told: Told) {
        if let Some(queue) = &mut self.queue {
            queue.push(told);
        }
    }

    /// Something happens to a file.
    fn happen(&mut self) {
        let place = self.place();
        let (what, version) = (self.below(10), self.next_version);
        self.next_version += 1;
        let file = self.files.get(&place).copied();
        match (what, file) {
            (0..=4, _) => {
                let is_known_open = self.queue.is_some();
                self.files.insert(place.clone(), File { version, is_open: true, is_known_open });
                self.tell(Told::Written(place));
            }
            (5..=7, Some(file)) if file.is_open => {
                self.files.insert(place.clone(), File { is_open: false, ..file });
                self.tell(Told::Closed(place));
            }
            (8, Some(file)) => {
                let to = self.place();
                if to != place {
                    self.files.remove(&place);
                    self.files.insert(to.clone(), file);
                    self.tell(Told::Moved(place, to));
                }
            }
            (9, Some(_)) => {
                self.files.remove(&place);
                self.tell(Told::Gone(place));
            }
            _ => {}
        }
    }

    /// Events arrive; an overflow is told behind those that were kept.
    fn arrive(&mut self) {
        let Some(queue) = self.queue.replace(Vec::new()) else {
            self.settling.lost(self.now);
            return self.walk();
        };
        for told in queue {
            match told {
                Told::Written(place) => self.settling.written(self.now, &place),
                Told::Closed(place) => self.settling.closed(self.now, &place),
                Told::Moved(from, to) => self.settling.moved(self.now, &from, &to),
                Told::Gone(place) => self.settling.gone(&place),
            }
        }
    }

    fn walk(&mut self) {
        for (place, file) in &self.files {
            if self.settled.get(place) != Some(&file.version) {
                self.settling.seen(self.now, place, file.version);
            }
        }
    }

    fn examine(&mut self) {
        // Whoever examines has taken the events first.
        self.arrive();
        while let Some((place, due)) = self.settling.due(self.now) {
            let file = self.files.get(&place).copied();
            if due == Due::Open {
                // Of one that is open no more, the close is told sooner.
                assert!(file.is_some_and(|file| file.is_open), "{place:?} counts as open");
                continue;
            }
            if let Verdict::Settled { since } = self.settling.examined(self.now, &place, file.map(|file| file.version))
            {
                let file = file.expect("nothing settles that is not there");
                assert!(since <= self.now);
                let was_told = file.is_open && file.is_known_open && !self.has_lost;
                assert!(!was_told, "{place:?} settled while it was open");
                self.settled.insert(place, file.version);
            }
        }
    }

    fn pass(&mut self, longest: u64) {
        let millis = self.below(longest);
        self.now += Span::from_millis(millis);
    }

    fn run(&mut self) {
        let loses = self.below(2) == 0;
        for _ in 0..STEPS {
            match self.below(12) {
                0..=6 => self.happen(),
                7 => self.arrive(),
                8 if loses && self.below(4) == 0 => (self.queue, self.has_lost) = (None, true),
                9 => self.walk(),
                _ => self.examine(),
            }
            self.pass(700);
        }
        // Writers close what they have open.
        let open: Vec<_> = self.files.iter().filter(|(_, file)| file.is_open).map(|(place, _)| place.clone()).collect();
        for place in open {
            self.files.entry(place.clone()).and_modify(|file| file.is_open = false);
            self.tell(Told::Closed(place));
        }
        for _ in 0..4 {
            self.examine();
            self.now += DELAYS.settle;
        }
        for (place, file) in &self.files {
            assert_eq!(self.settled.get(place), Some(&file.version), "{place:?} has not settled as it is");
        }
        assert_eq!((self.settling.unsettled(), self.settling.open()), (0, 0));
        self.now += DELAYS.settle;
        assert_eq!(self.settling.due(self.now), None);
        assert_eq!(self.settling.next_deadline(), None, "nothing is kept of what has settled");
    }
}

#[test]
fn every_file_settles_as_it_is_whatever_is_lost() {
    let seeds = match std::env::var("ICDC_SEED") {
        Ok(seed) => seed.parse().map(|seed| seed..seed + 1).expect("a number"),
        Err(_) => 0..WORLDS,
    };
    for seed in seeds {
        let failed = std::panic::catch_unwind(|| World::new(seed).run());
        assert!(failed.is_ok(), "world {seed}");
    }
}

#[test]
fn a_file_that_is_closed_again_and_again_settles_once_in_a_while() {
    let mut settling = Settling::new(DELAYS);
    let place = Place { tree: 0, path: b"log".to_vec() };
    let mut settled = 0;
    for step in 0..200_u64 {
        let now = Time::ORIGIN + Span::from_millis(step * 100);
        settling.written(now, &place);
        settling.closed(now, &place);
        let later = now + Span::from_millis(50);
        while let Some((due, _)) = settling.due(later) {
            settled += u32::from(matches!(settling.examined(later, &due, Some(step)), Verdict::Settled { .. }));
        }
    }
    assert_eq!(settled, 0, "there is no pause");
    let end = Time::ORIGIN + Span::from_secs(60);
    assert_eq!(settling.due(end), Some((place, Due::Quiet)));
}

#[test]
fn a_file_that_is_written_again_soon_after_it_had_settled_settles_later() {
    let place = Place { tree: 0, path: b"log".to_vec() };
    // Every half of `settle`, and as often as a file with pauses.
    for (pause, most) in [(DELAYS.settle / 2, 60 / 8 + 2), (DELAYS.settle * 2, 60)] {
        let mut settling = Settling::new(DELAYS);
        let (mut settled, mut writes) = (0, 0);
        let mut next = Time::ORIGIN;
        for step in 0..DELAYS.settle.as_nanos() * 60 / Span::from_millis(10).as_nanos() {
            let now = Time::ORIGIN + Span::from_millis(step * 10);
            if now >= next {
                next = now + pause;
                writes += 1;
                settling.written(now, &place);
                settling.closed(now, &place);
            }
            while let Some((due, _)) = settling.due(now) {
                settled += u64::from(matches!(settling.examined(now, &due, Some(step)), Verdict::Settled { .. }));
            }
        }
        assert!((2..=most).contains(&settled), "{pause:?}: {settled} times of {writes}");
        assert!(pause < DELAYS.settle || settled + 1 >= writes, "{pause:?}: {settled} times of {writes}");
    }
}

#[test]
fn what_is_forgotten_is_no_longer_waited_for() {
    let mut settling = Settling::new(DELAYS);
    let place = |path: &str| Place { tree: 0, path: path.into() };
    for path in ["a/x", "a/b/y", "ab/z"] {
        settling.written(Time::ORIGIN, &place(path));
        settling.closed(Time::ORIGIN, &place(path));
    }
    settling.forget(&place("a"));
    assert_eq!(settling.places().collect::<Vec<_>>(), [&place("ab/z")]);
    settling.hasten(Time::ORIGIN);
    assert_eq!(settling.due(Time::ORIGIN), Some((place("ab/z"), Due::Quiet)), "it need not wait any more");
}

#[test]
fn a_name_that_is_open_is_looked_at_now_and_then_however_much_is_written() {
    let mut settling = Settling::new(DELAYS);
    let place = Place { tree: 0, path: b"log".to_vec() };
    let mut looks = 0;
    for step in 0..600_u64 {
        let now = Time::ORIGIN + Span::from_millis(step * 100);
        settling.written(now, &place);
        while let Some(due) = settling.due(now) {
            assert_eq!(due, (place.clone(), Due::Open));
            looks += 1;
        }
    }
    assert!((15..=30).contains(&looks), "{looks} looks in a minute");
    let end = Time::ORIGIN + Span::from_secs(61);
    settling.closed(end, &place);
    assert_eq!(settling.due(end + DELAYS.settle), Some((place, Due::Quiet)));
}
