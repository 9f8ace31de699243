//! Debts of a connection.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::Part;

use super::*;

fn block(id: EntryId, index: u32) -> Debt {
    Debt::Block { id, index }
}

#[test]
fn what_is_behind_the_frames_that_arrived_is_owed() {
    for ended_here in [false, true] {
        let mut connections = Connections::default();
        assert!(connections.join(1) && connections.join(2) && !connections.join(1));
        let frames = [block(7, 0), Debt::Pack(vec![8, 9]), block(7, 1), Debt::End(7)];
        for frame in &frames {
            assert_eq!(connections.hand(1, frame.clone(), |_| true), Ok(()));
        }
        if ended_here {
            assert_eq!((connections.end(1), connections.end(1)), (Some(4), None));
            assert_eq!(connections.hand(1, block(7, 2), |_| true), Err(block(7, 2)));
        }
        assert_eq!(connections.account(1, 1), Account::Owed(frames[1..].to_vec()));
        assert_eq!(connections.end(1), None, "the receiver knows");
        assert_eq!(connections.hand(1, block(7, 2), |_| true), Err(block(7, 2)));
        assert_eq!(connections.account(2, 0), Account::Owed(Vec::new()));
    }
}

#[test]
fn an_account_that_cannot_be_is_wrong() {
    let mut connections = Connections::default();
    connections.join(1);
    connections.hand(1, block(7, 0), |_| true).unwrap();
    assert_eq!(connections.account(1, 2), Account::Wrong, "it was handed one frame");
    connections.join(2);
    assert_eq!(connections.account(2, 0), Account::Owed(Vec::new()));
    assert_eq!(connections.account(2, 0), Account::Wrong, "it has told before");
    assert_eq!(connections.account(3, 1), Account::Wrong, "nothing was handed to a connection unknown");
    assert_eq!(connections.account(4, 0), Account::Unused);
    assert!(!connections.join(4), "the receiver has seen its end");
}

#[test]
fn debts_are_bounded_by_what_is_pending() {
    let mut connections = Connections::default();
    connections.join(1);
    // A large file that stays pending, among a million small ones that are settled soon.
    for pack in 0..100_000_u32 {
        let first = 1 + 10 * pack;
        let is_pending = |id: EntryId| id == 0 || id >= first.saturating_sub(200);
        let ids = (first..first + 10).collect();
        connections.hand(1, Debt::Pack(ids), is_pending).unwrap();
        connections.hand(1, block(0, pack), is_pending).unwrap();
        let Some(Connection::Open(debts)) = connections.0.get(&1) else { panic!() };
        let blocks = pack as usize + 1;
        assert!(debts.debts.len() <= FEW.max(2 * (blocks + 30)) && debts.debts.capacity() <= 4 * FEW.max(2 * blocks));
    }
    let Account::Owed(owed) = connections.account(1, 199_998) else { panic!() };
    assert_eq!(owed, [Debt::Pack((999_991..1_000_001).collect()), block(0, 99_999)]);
}

#[test]
fn parts_of_a_block_are_owed_as_one_block() {
    let mut connections = Connections::default();
    connections.join(1);
    let mut hand = |debt| connections.hand(1, debt, |_| true).unwrap();
    for (index, number) in [(0, 0), (0, 1), (1, 0), (0, 2), (1, 3)] {
        let part = Part { id: 7, index, value: [0; 32], length: BLOCK_SIZE as u32, number };
        hand(Debt::of(&Message::Part(part)).unwrap());
        hand(Debt::Pack(vec![u32::from(number) + 10]));
    }
    let packs = [10, 11, 10, 12, 13].map(|id| Debt::Pack(vec![id]));
    let [first, second, third, fourth, fifth] = packs;
    let owed = vec![first, block(7, 0), second, block(7, 1), third, fourth, fifth];
    assert_eq!(connections.account(1, 1), Account::Owed(owed), "what came first of all arrived");
}
