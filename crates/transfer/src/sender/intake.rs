//! Passes the receiver's messages to the machine.

use icdc_disk::BlockPool;
use icdc_link::Inlet;
use icdc_protocol::message::Message;
use icdc_session::SessionError;
use icdc_units::Rate;

use super::executor::Executor;
use super::steering::Steering;
use crate::clock;
use crate::event::Event;

/// Body of the thread that receives: passes the receiver's messages to the machine until nothing
/// more arrives.
pub(super) fn run(executor: &Executor<'_>, steering: &Steering<'_>, mut inlet: Box<dyn Inlet>) {
    // The receiver has no payloads to send: a frame with one finds no block.
    let pool = BlockPool::without_blocks();
    let mut durable = 0;
    loop {
        match inlet.receive(&pool) {
            Ok(parcel) => {
                if let Message::Feedback(feedback) = &parcel.message {
                    *executor.feedback.lock().expect("no panic while feedback is stored") = *feedback;
                }
                if let Message::Accepted(features) = parcel.message {
                    executor.set_peer_features(features);
                }
                match parcel.message {
                    Message::MaxRate { bytes_per_second } => {
                        steering.set_told_key_ceiling(Some(Rate::from_bytes_per_second(bytes_per_second)));
                    }
                    Message::StreamDurable { bytes } if executor.input.is_some() => {
                        if durable < bytes {
                            durable = bytes;
                            (executor.events)(Event::StreamDurable { bytes });
                        }
                    }
                    Message::KeyCeiling(rate) => {
                        Event::of_key_ceiling(rate).into_iter().for_each(|event| (executor.events)(event));
                        steering.set_told_key_ceiling(rate);
                    }
                    Message::Names(part) => executor.on_names(part),
                    Message::UserCeiling(rate) if !steering.set_user_ceiling(rate) => {
                        executor.fail(SessionError::Protocol("sets the rate of a user of this end".into()));
                    }
                    message => executor.with(|machine| machine.on_message(clock::now(), message)),
                }
            }
            Err(error) => {
                let now = clock::now();
                return executor.with(|machine| machine.on_receive_ended(now, SessionError::of_link(error)));
            }
        }
    }
}
