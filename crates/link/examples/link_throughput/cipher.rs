//! Records in memory, without sockets: the record layer, and in the same steps `ring` and
//! `aws-lc-rs`, of which it takes the faster on the machine.

use aws_lc_rs::aead as aws_lc;
use icdc_record::format::{HEADER, Kind, MAX_CONTENT, MAX_RECORD, TAG};
use icdc_record::{Cipher, RecordKey};
use ring::aead as ring;
use rustix::time::ClockId;

use super::{Failure, GIBIBYTE, seconds, spread};

/// Records of one round: 16 MiB, more than the caches hold.
const RECORDS: usize = 1024;
/// Length of a plaintext: content and its kind.
const INNER: usize = MAX_CONTENT + 1;
/// The header of a full record.
const FULL: [u8; HEADER] = [23, 3, 3, 0x40, 0x11];

/// Seals content as the record with this number.
type Seal<'a> = &'a mut dyn FnMut(usize, &[u8], &mut [u8]) -> Result<(), Failure>;
/// Opens the record with this number; the room has [`TAG`] bytes more than its plaintext.
type Open<'a> = &'a mut dyn FnMut(usize, &[u8], &mut [u8]) -> Result<(), Failure>;

/// Seals and opens this number of rounds; returns the processor time per GiB for either, in
/// seconds.
type Contestant = fn(usize) -> Result<[f64; 2], Failure>;

/// Prints the processor time that AES-128-GCM takes in records of 16 KiB.
pub(super) fn compare(gibibytes: f64, runs: usize) -> Result<(), Failure> {
    let rounds = (gibibytes * GIBIBYTE / (RECORDS * MAX_CONTENT) as f64).ceil() as usize;
    let contestants: [(&str, Contestant); 3] = [("icdc's", ours), ("ring", by_ring), ("aws-lc-rs", by_aws_lc)];
    let mut costs: [[Vec<f64>; 2]; 3] = Default::default();
    for run in 0..runs {
        for place in 0..contestants.len() {
            let number = (run + place) % contestants.len();
            let [seal, open] = (contestants[number].1)(rounds)?;
            costs[number][0].push(seal);
            costs[number][1].push(open);
        }
    }
    println!("AES-128-GCM in memory, records of 16 KiB: median CPU s/GiB (least to most)");
    for ((name, _), costs) in contestants.iter().zip(costs) {
        let [seal, open] = costs.map(|costs| {
            let (median, least, most) = spread(costs);
            format!("{median:.3} ({least:.3} to {most:.3})")
        });
        println!("{name:20}seal {seal:28}open {open}");
    }
    Ok(())
}

fn ours(rounds: usize) -> Result<[f64; 2], Failure> {
    let key = || RecordKey::new(Cipher::Aes128Gcm, &[7; 16], [9; 12], 0);
    let (mut sealer, mut opener) = (key(), key());
    let mut seal = |number: usize, content: &[u8], record: &mut [u8]| {
        if number == 0 {
            sealer = key();
        }
        sealer.as_mut().ok_or("the key fits")?.seal(Kind::Data, content, 0, record)?;
        Ok(())
    };
    let mut open = |number: usize, record: &[u8], out: &mut [u8]| {
        if number == 0 {
            opener = key();
        }
        let (header, body) = record.split_first_chunk().ok_or("a record has a header")?;
        opener.as_mut().ok_or("the key fits")?.open(header, body, out)?;
        Ok(())
    };
    measure(rounds, &mut seal, &mut open)
}

fn by_ring(rounds: usize) -> Result<[f64; 2], Failure> {
    let key = ring::UnboundKey::new(&ring::AES_128_GCM, &[7; 16]).map_err(|_| "the key fits")?;
    let key = ring::LessSafeKey::new(key);
    let nonce = |number| ring::Nonce::assume_unique_for_key(nonce(number));
    let mut seal = |number: usize, content: &[u8], record: &mut [u8]| {
        let (inner, tag) = plaintext(content, record);
        let made = key.seal_in_place_separate_tag(nonce(number), ring::Aad::from(FULL), inner);
        tag.copy_from_slice(made.map_err(|_| "it is sealed")?.as_ref());
        Ok(())
    };
    let mut open = |number: usize, record: &[u8], out: &mut [u8]| {
        out.copy_from_slice(&record[HEADER..]);
        key.open_in_place(nonce(number), ring::Aad::from(FULL), out).map_err(|_| "it is genuine")?;
        Ok(())
    };
    measure(rounds, &mut seal, &mut open)
}

fn by_aws_lc(rounds: usize) -> Result<[f64; 2], Failure> {
    let key = aws_lc::UnboundKey::new(&aws_lc::AES_128_GCM, &[7; 16]).map_err(|_| "the key fits")?;
    let key = aws_lc::LessSafeKey::new(key);
    let nonce = |number| aws_lc::Nonce::assume_unique_for_key(nonce(number));
    let mut seal = |number: usize, content: &[u8], record: &mut [u8]| {
        let (inner, tag) = plaintext(content, record);
        let made = key.seal_in_place_separate_tag(nonce(number), aws_lc::Aad::from(FULL), inner);
        tag.copy_from_slice(made.map_err(|_| "it is sealed")?.as_ref());
        Ok(())
    };
    let mut open = |number: usize, record: &[u8], out: &mut [u8]| {
        out.copy_from_slice(&record[HEADER..]);
        key.open_in_place(nonce(number), aws_lc::Aad::from(FULL), out).map_err(|_| "it is genuine")?;
        Ok(())
    };
    measure(rounds, &mut seal, &mut open)
}

fn nonce(number: usize) -> [u8; 12] {
    let mut nonce = [9; 12];
    nonce[..8].copy_from_slice(&(number as u64).to_be_bytes());
    nonce
}

/// Puts content and kind into a record; returns the record's plaintext and the space of its tag.
fn plaintext<'a>(content: &[u8], record: &'a mut [u8]) -> (&'a mut [u8], &'a mut [u8]) {
    let (header, body) = record.split_at_mut(HEADER);
    header.copy_from_slice(&FULL);
    let (inner, tag) = body.split_at_mut(INNER);
    inner[..MAX_CONTENT].copy_from_slice(content);
    inner[MAX_CONTENT] = 23;
    (inner, tag)
}

/// Measures the processor time per GiB for sealing and for opening, in seconds.
fn measure(rounds: usize, seal: Seal<'_>, open: Open<'_>) -> Result<[f64; 2], Failure> {
    let plaintext = vec![5; RECORDS * MAX_CONTENT];
    let mut sealed = vec![0; RECORDS * MAX_RECORD];
    let mut opened = vec![0; RECORDS * MAX_CONTENT + 1 + TAG];
    let (mut sealing, mut opening) = (0.0, 0.0);
    for _ in 0..rounds {
        let start = seconds(ClockId::ThreadCPUTime);
        for (number, content) in plaintext.chunks(MAX_CONTENT).enumerate() {
            seal(number, content, &mut sealed[number * MAX_RECORD..][..MAX_RECORD])?;
        }
        let middle = seconds(ClockId::ThreadCPUTime);
        for (number, record) in sealed.chunks(MAX_RECORD).enumerate() {
            open(number, record, &mut opened[number * MAX_CONTENT..][..INNER + TAG])?;
        }
        sealing += middle - start;
        opening += seconds(ClockId::ThreadCPUTime) - middle;
        assert!(opened[..plaintext.len()] == plaintext);
    }
    let gibibytes = (rounds * RECORDS * MAX_CONTENT) as f64 / GIBIBYTE;
    Ok([sealing / gibibytes, opening / gibibytes])
}
