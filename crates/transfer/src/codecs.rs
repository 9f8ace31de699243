//! The codecs of a session: each is used by one thread at a time.

use crossbeam_channel::{Receiver as Queue, Sender as Channel, bounded};

/// Codecs that no thread uses at present, out of a fixed number.
pub(crate) struct Codecs<T> {
    give_back: Channel<T>,
    idle: Queue<T>,
}

impl<T: Default> Codecs<T> {
    /// So many codecs, at least one.
    pub(crate) fn new(number: usize) -> Self {
        let (give_back, idle) = bounded(number);
        (0..number).for_each(|_| give_back.send(T::default()).expect("it has room for all"));
        Self { give_back, idle }
    }

    /// Has a codec do `work`; waits until one is idle.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let mut codec = self.idle.recv().expect("the sending end is here");
        let result = work(&mut codec);
        self.give_back.send(codec).expect("the receiving end is here");
        result
    }
}
