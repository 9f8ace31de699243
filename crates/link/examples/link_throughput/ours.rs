//! icdc's own record layer, as copies use it.

use std::thread;

use icdc_disk::pool::{BLOCK_SIZE, BlockPool};
use icdc_link::{LinkError, Parcel, secure_client, secure_server};
use icdc_units::Span;

use super::{Ends, Failure, Half, filled_pool, message};

pub(super) fn halves(ends: Ends, blocks: u32) -> Result<(Half, Half), Failure> {
    let Ends { near, far, client, server } = ends;
    let deadline = Span::from_secs(5);
    let accepting = thread::spawn(move || secure_server(far, server, deadline));
    let mut sender = secure_client(near, client, deadline)?;
    let mut receiver = accepting.join().map_err(|_| "the accepting thread panicked")??;
    let pool = filled_pool()?;
    let send = move || {
        for index in 0..blocks {
            let payload = Some((pool.take()?, BLOCK_SIZE).into());
            sender.outlet.send(Parcel { message: message(index), payload })?;
        }
        Ok(())
    };
    let receive = move || {
        let pool = BlockPool::new(8)?;
        let mut received = 0;
        loop {
            match receiver.inlet.receive(&pool) {
                Ok(parcel) => received += u32::from(parcel.payload_length() == BLOCK_SIZE),
                Err(LinkError::Closed) if received == blocks => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    };
    Ok((Box::new(send), Box::new(receive)))
}
