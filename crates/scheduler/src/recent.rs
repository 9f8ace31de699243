//! Cache of the classes of recent packets, so that filters are evaluated once per flow: with a
//! thousand filters, evaluating all for every frame would cost more than everything else.

use std::hash::{BuildHasher, RandomState};

use super::Headers;

/// Number of slots of the cache, each for one flow.
const PLACES: usize = 4096;

/// Cache of the class to which filters have led a packet's headers. Each slot holds one packet's;
/// the latest overwrites what is there.
pub(super) struct Recent {
    places: Vec<Option<(Headers, usize)>>,
    hasher: RandomState,
}

impl Recent {
    pub(super) fn new() -> Self {
        Self { places: vec![None; PLACES], hasher: RandomState::new() }
    }

    /// The class of a packet with these headers, which is computed by `ask` if it is not cached.
    pub(super) fn class_of(&mut self, headers: &Headers, ask: impl FnOnce() -> usize) -> usize {
        let place = &mut self.places[self.hasher.hash_one(headers) as usize % PLACES];
        match place {
            Some((remembered, class)) if remembered == headers => *class,
            _ => {
                let class = ask();
                *place = Some((*headers, class));
                class
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::headers::tests::v4;
    use super::*;

    #[test]
    fn each_flow_is_asked_for_once_unless_it_is_forgotten() {
        let mut recent = Recent::new();
        let headers = |port: usize| Headers::of(&v4([192, 0, 2, 9], 6, (1000, port as u16), 0)).unwrap();
        for port in 0..2 * PLACES {
            assert_eq!(recent.class_of(&headers(port), || port), port);
        }
        let mut asked = 0;
        for port in 0..2 * PLACES {
            let class = recent.class_of(&headers(port), || {
                asked += 1;
                port
            });
            assert_eq!(class, port);
        }
        assert!(asked >= PLACES, "more than there are places for");
        assert_eq!(recent.class_of(&headers(2 * PLACES - 1), || unreachable!("it came just now")), 2 * PLACES - 1);
    }
}
