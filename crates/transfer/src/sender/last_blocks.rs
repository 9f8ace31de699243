//! Blocks as the connections send them: whole, or divided into parts, as
//! [`icdc_rate::controller`] places them.

use std::sync::Arc;

use icdc_link::{Parcel, Payload};
use icdc_protocol::limits::PART_SIZE;
use icdc_protocol::message::{Message, Part};
use icdc_rate::controller::Form;

/// Whether a frame can be divided into parts: only one with a whole block that is longer than a
/// part.
pub(super) fn form(parcel: &Parcel) -> Form {
    match parcel {
        Parcel { message: Message::Block(header), payload: Some(Payload::Own(_, length)) }
            if *length > PART_SIZE && header.ranges.is_empty() =>
        {
            Form::Divisible
        }
        _ => Form::Indivisible,
    }
}

/// Frames with a part each of a [divisible](Form::Divisible) block; of any other parcel, itself.
pub(super) fn divided(parcel: Parcel) -> Vec<Parcel> {
    match parcel {
        Parcel { message: Message::Block(header), payload: Some(Payload::Own(block, length)) } => {
            let block = Arc::new(block);
            let part = |number| {
                let (id, index, value) = (header.id, header.index, header.value);
                let part = Part { id, index, value, length: length as u32, number: number as u8 };
                let payload = Payload::Shared(Arc::clone(&block), part.range());
                Parcel { message: Message::Part(part), payload: Some(payload) }
            };
            (0..length.div_ceil(PART_SIZE)).map(part).collect()
        }
        parcel => vec![parcel],
    }
}

#[cfg(test)]
#[path = "last_blocks/tests.rs"]
mod tests;
