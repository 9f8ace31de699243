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

    /// Sessions and temporary keys of this daemon and of its neighbours, as the neighbour `to` is
    /// told of them: its own are left out. `None` for a daemon that is no neighbour yet.
    fn running(&self, to: Option<Number>, now: Time) -> Running {
        let mut running = Running::default();
        self.connections.tell(to, &mut running);
        self.temporary.tell(to, &mut running, now);
        running
    }

    /// Registers the daemon at the other end of `channel`, which lets in the same keys, and starts
    /// the thread that receives its sessions and temporary keys; they count here too until the
    /// channel ends. `known`: those that it has sent already; `told`: those of this daemon that it
    /// knows.
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

    /// Records the sessions and temporary keys that a neighbouring daemon has sent, in place of its
    /// earlier ones: they count against the limits of their keys here.
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
