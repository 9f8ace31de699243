//! What befalls a world.

use std::collections::BTreeSet;

use super::{Session, TROUBLED, World};
use crate::disk::Inode;
use crate::environment::{SessionId, Side};
use crate::forging::forge;
use crate::plan::{Incident, Mode, When};
use crate::receiver::staging;

impl World {
    /// Incidents that befall after so many events.
    pub(super) fn look_for_counted(&mut self) {
        for number in 0..self.plan.incidents.len() {
            if matches!(self.plan.incidents[number].0, When::Events(count) if count == self.events) {
                self.befall(number);
            }
        }
    }

    pub(super) fn look_for_incidents(&mut self, session: SessionId) {
        if self.waiting.is_empty() {
            return;
        }
        let arrived = self.sessions[session].connections.arrived();
        let incidents = &self.plan.incidents;
        let is_due = |number: &usize| match incidents[*number].0 {
            When::Frames { session: wanted, count } => wanted == session && count <= arrived,
            When::Events(_) | When::After(_) => false,
        };
        let due: Vec<usize> = self.waiting.iter().copied().filter(is_due).collect();
        self.waiting.retain(|number| !due.contains(number));
        due.into_iter().for_each(|number| self.befall(number));
    }

    pub(super) fn befall(&mut self, number: usize) {
        if self.tries > TROUBLED {
            return;
        }
        let incident = self.plan.incidents[number].1;
        self.env.note(format_args!("it befalls: {incident:?}"));
        let newest = self.sessions.len().checked_sub(1);
        match incident {
            Incident::Kill(side) => {
                let Some(newest) = newest else { return };
                self.kill(newest, side);
                if side == self.client_side() && self.command.take().is_some() {
                    self.again();
                }
            }
            Incident::PowerCut => {
                for session in 0..self.sessions.len() {
                    if self.sessions[session].receiver.is_some() {
                        self.kill(session, Side::Receiver);
                    }
                }
                self.env.disk.cut_power(&mut self.env.random);
                self.env.audit.power_was_cut();
                if let Err(what) = self.env.audit.check_tree(&self.env.disk) {
                    self.env.violate(format!("after a power cut {what}"));
                }
                if self.client_side() == Side::Receiver && self.command.take().is_some() {
                    self.again();
                }
            }
            Incident::Cut { number } => {
                if let Some(session) = newest.map(|newest| &mut self.sessions[newest]) {
                    let number = number % session.connections.count();
                    // One after the first does not end the session.
                    session.disturbed |= number == 0;
                    session.connections.cut(number, &mut self.env);
                }
            }
            Incident::CutUnseen { span } => {
                if let Some(session) = newest.map(|newest| &mut self.sessions[newest]) {
                    session.disturbed = true;
                    session.connections.cut_unseen(span, &mut self.env);
                }
            }
            Incident::Interrupt => self.interrupt(),
            Incident::Freeze { span } => {
                let until = self.env.agenda.now() + span;
                if let Some(newest) = newest {
                    self.sessions[newest].disturbed = true;
                    self.sessions[newest].frozen_until = until;
                }
            }
            Incident::Forge(towards) => {
                let Some(newest) = newest else { return };
                let Session { connections, sender, forged, disturbed, .. } = &mut self.sessions[newest];
                (*forged, *disturbed, self.env.forged) = (true, true, true);
                let frame = forge(towards, &sender.scan.announced, &mut self.env.random);
                let connection = match towards {
                    Side::Receiver if !frame.message.is_data() && self.env.random.once_in(2) => 0,
                    Side::Receiver => self.env.random.below(connections.count() as u64) as usize,
                    Side::Sender => 0,
                };
                self.env.note(format_args!("forged on {connection}: {:?}", frame.message));
                connections.forge(connection, towards, frame, &mut self.env);
            }
            Incident::Rot => {
                // What a session has just made of another file is not read back, and might as well rot a moment later.
                let receivers = self.sessions.iter().filter_map(|session| session.receiver.as_ref());
                let made: BTreeSet<Inode> = receivers.flat_map(|receiver| receiver.names.made()).collect();
                let may = |name: &[u8], inode| staging::is_staging(name) && !made.contains(&inode);
                self.env.disk.rot(&mut self.env.random, may);
            }
            Incident::Change => {
                self.source.change(&mut self.env.random);
                self.env.audit.learn(&self.source);
            }
        }
    }

    /// The user asks to stop.
    fn interrupt(&mut self) {
        let Some(command) = &mut self.command else { return };
        command.stopped = true;
        let Some(session) = command.session.and_then(|session| self.sessions.get_mut(session)) else { return };
        match (self.plan.mode, &mut session.receiver) {
            (Mode::Push, _) if !session.sender_ended => {
                session.sender.interrupt(&mut self.env, &mut session.connections);
            }
            (Mode::Pull, Some(receiver)) => receiver.interrupt(&mut self.env, &mut session.connections),
            _ => {}
        }
    }

    /// An end that was lied to may wait for what never comes, until the user asks to stop. False if that would be
    /// of no use.
    pub(super) fn loses_patience(&mut self) -> bool {
        let session = self.command.as_ref().and_then(|command| self.sessions.get_mut(command.session?));
        let Some(session) = session.filter(|session| session.forged && !session.is_given_up) else { return false };
        session.is_given_up = true;
        self.interrupt();
        true
    }

    pub(super) fn kill(&mut self, session: SessionId, side: Side) {
        let found = &mut self.sessions[session];
        let was_there = match side {
            Side::Receiver => match found.receiver.take() {
                Some(receiver) => {
                    found.landed = receiver.names.landed();
                    receiver.kill(&mut self.env);
                    true
                }
                None => false,
            },
            Side::Sender => found.still_sends(),
        };
        found.sender_ended |= was_there && side == Side::Sender;
        if was_there {
            found.disturbed = true;
            found.connections.abandon(side, &mut self.env);
        }
    }
}
