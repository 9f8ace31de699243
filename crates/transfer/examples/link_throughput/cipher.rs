//! Records in memory, without sockets: `ring`, as the record layer uses it, and `aws-lc-rs`, the
//! cipher behind rustls, in the same steps.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use icdc_record::format::{HEADER, Kind, MAX_CONTENT, MAX_RECORD, TAG};
use icdc_record::{Cipher, RecordKey};
use rustix::time::ClockId;

use super::{Failure, GIBIBYTE, seconds, spread};

/// Records of one round: 16 MiB, more than the caches hold.
const RECORDS: usize = 1024;

/// Prints what AES-128-GCM takes in records of 16 KiB, each copied and then worked on in place.
pub(super) fn compare(gibibytes: f64, runs: usize) -> Result<(), Failure> {
    let rounds = (gibibytes * GIBIBYTE / (RECORDS * MAX_CONTENT) as f64).ceil() as usize;
    let mut costs: [Vec<f64>; 4] = Default::default();
    for _ in 0..runs {
        let measured = [ring(rounds)?, aws_lc(rounds)?].concat();
        costs.iter_mut().zip(measured).for_each(|(costs, cost)| costs.push(cost));
    }
    println!("AES-128-GCM in memory, records of 16 KiB: median s/GiB (least to most)");
    for (name, costs) in ["ring, seal", "ring, open", "aws-lc-rs, seal", "aws-lc-rs, open"].iter().zip(costs) {
        let (median, least, most) = spread(costs);
        println!("{name:20}{median:10.3} ({least:.3} to {most:.3})");
    }
    Ok(())
}

/// Seconds per GiB for sealing and for opening.
fn ring(rounds: usize) -> Result<[f64; 2], Failure> {
    let key = || RecordKey::new(Cipher::Aes128Gcm, &[7; 16], [9; 12], 0).ok_or("the key fits");
    let plaintext = vec![5; RECORDS * MAX_CONTENT];
    let mut sealed = vec![0; RECORDS * MAX_RECORD];
    let mut opened = vec![0; RECORDS * MAX_CONTENT + 1];
    let (mut sealing, mut opening) = (0.0, 0.0);
    for _ in 0..rounds {
        let mut sealer = key()?;
        sealing += timed(|| {
            for (content, record) in plaintext.chunks(MAX_CONTENT).zip(sealed.chunks_mut(MAX_RECORD)) {
                sealer.seal(Kind::Data, content, 0, record)?;
            }
            Ok(())
        })?;
        let mut opener = key()?;
        opening += timed(|| {
            for (number, record) in sealed.chunks(MAX_RECORD).enumerate() {
                let (header, body) = record.split_first_chunk().ok_or("a record has a header")?;
                opener.open(header, body, &mut opened[number * MAX_CONTENT..])?;
            }
            Ok(())
        })?;
        assert!(opened[..plaintext.len()] == plaintext);
    }
    Ok([sealing, opening].map(|time| time / per_gibibyte(rounds)))
}

/// Seconds per GiB for sealing and for opening.
fn aws_lc(rounds: usize) -> Result<[f64; 2], Failure> {
    const INNER: usize = MAX_CONTENT + 1;
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &[7; 16]).map_err(|_| "the key fits")?);
    let nonce = |number: usize| {
        let mut nonce = [9; 12];
        nonce[..8].copy_from_slice(&(number as u64).to_be_bytes());
        Nonce::assume_unique_for_key(nonce)
    };
    let header = [23, 3, 3, 0x40, 0x11];
    let plaintext = vec![5; RECORDS * MAX_CONTENT];
    let mut sealed = vec![0; RECORDS * MAX_RECORD];
    let mut opened = vec![0; RECORDS * MAX_CONTENT + 1 + TAG];
    let (mut sealing, mut opening) = (0.0, 0.0);
    for _ in 0..rounds {
        sealing += timed(|| {
            let records = plaintext.chunks(MAX_CONTENT).zip(sealed.chunks_mut(MAX_RECORD));
            for (number, (content, record)) in records.enumerate() {
                let (inner, tag) = record[HEADER..].split_at_mut(INNER);
                inner[..MAX_CONTENT].copy_from_slice(content);
                inner[MAX_CONTENT] = 23;
                let made = key.seal_in_place_separate_tag(nonce(number), Aad::from(header), inner);
                tag.copy_from_slice(made.map_err(|_| "it is sealed")?.as_ref());
            }
            Ok(())
        })?;
        opening += timed(|| {
            for (number, record) in sealed.chunks(MAX_RECORD).enumerate() {
                let out = &mut opened[number * MAX_CONTENT..][..INNER + TAG];
                out.copy_from_slice(&record[HEADER..]);
                key.open_in_place(nonce(number), Aad::from(header), out).map_err(|_| "it is genuine")?;
            }
            Ok(())
        })?;
        assert!(opened[..plaintext.len()] == plaintext);
    }
    Ok([sealing, opening].map(|time| time / per_gibibyte(rounds)))
}

fn per_gibibyte(rounds: usize) -> f64 {
    (rounds * RECORDS * MAX_CONTENT) as f64 / GIBIBYTE
}

/// Processor time of the calling thread, in seconds.
fn timed(work: impl FnOnce() -> Result<(), Failure>) -> Result<f64, Failure> {
    let start = seconds(ClockId::ThreadCPUTime);
    work()?;
    Ok(seconds(ClockId::ThreadCPUTime) - start)
}
