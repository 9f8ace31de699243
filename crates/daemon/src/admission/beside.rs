//! A daemon beside another one that lets in the same keys: it tells what it has running, and learns
//! what the other one has.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use icdc_limits::thread::start;
use icdc_session_process::channel::{Channel, Received};
use icdc_tcp::clock;
use icdc_units::Time;

use super::Admission;
use super::neighbours::{Number, Running};

/// Interval at which the thread that listens to another daemon checks whether this one has ended.
const LISTENING: Duration = Duration::from_secs(1);

impl Admission {
    /// Present sessions and temporary keys, for a daemon that is about to let in the same keys.
    pub(crate) fn running_now(&self) -> Running {
        self.running(None, clock::now())
    }

    /// Tells the neighbouring daemons of changes to sessions and temporary keys.
    pub(super) fn tell_neighbours(&self, now: Time) {
        self.neighbours.tell(|number| self.running(Some(number), now));
    }

    /// Sessions and temporary keys that a neighbouring daemon is told of; `to` is that daemon.
    fn running(&self, to: Option<Number>, now: Time) -> Running {
        let mut running = Running::default();
        self.connections.tell(to, &mut running);
        self.temporary.tell(to, &mut running, now);
        running
    }

    /// Shares sessions and temporary keys with a daemon at the other end of `channel` that lets in
    /// the same keys, until the channel ends: its own count here too. `known`: what is known of
    /// those; `told`: what it knows of those here.
    ///
    /// # Errors
    /// The kernel refuses a system call.
    pub(crate) fn beside(self: &Arc<Self>, channel: Arc<Channel>, known: &Running, told: Running) -> io::Result<()> {
        let number = self.neighbours.enter(Arc::clone(&channel), told);
        self.learn(number, known);
        let admission = Arc::downgrade(self);
        let listen = move || {
            while let Ok(received) = channel.receive_within(LISTENING) {
                let Some(admission) = admission.upgrade() else { return };
                match received {
                    Received::Message(running) => admission.learn(number, &running),
                    Received::Nothing => {}
                    Received::End => break,
                }
            }
            if let Some(admission) = admission.upgrade() {
                admission.neighbour_has_ended(number);
            }
        };
        start("neighbour", listen).map(drop).inspect_err(|_| self.neighbour_has_ended(number)).map_err(io::Error::other)
    }

    /// Counts the sessions and temporary keys of a neighbouring daemon.
    fn learn(&self, from: Number, running: &Running) {
        self.connections.learn(from, running);
        self.temporary.learn(from, running, clock::now());
    }

    /// Forgets a neighbouring daemon that has ended; its temporary keys are taken over.
    fn neighbour_has_ended(&self, number: Number) {
        self.neighbours.leave(number);
        self.connections.forget(number);
        self.temporary.inherit(number, clock::now());
    }
}
