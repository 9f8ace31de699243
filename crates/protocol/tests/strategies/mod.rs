//! Messages that keep to every rule, with any bytes where any are allowed.

use std::net::IpAddr;

use icdc_filter::{Effect, Rule};
use icdc_protocol::chunking::Chunking;
use icdc_protocol::compression::MAX_LEVEL;
use icdc_protocol::delta::CopiedPart;
use icdc_protocol::limits::{
    BLOCK_SIZE, MAX_BINS, MAX_CANDIDATES, MAX_DISKLESS_BYTES, MAX_FILE_SIZE, MAX_LISTED_AHEAD, MAX_MEASURE_NANOS,
    MAX_NAME, MAX_STREAMS, MAX_WINDOW, MIN_DISKLESS_BYTES, PACK_FILE_LIMIT, PART_SIZE,
};
use icdc_protocol::measure;
use icdc_protocol::message::*;
use icdc_protocol::mode_change::{ChangedItems, Copied, CopiedBits, Execution, UserClass};
use icdc_protocol::owners::{NamedOwner, OwnerPattern, OwnerRule, OwnerTarget, OwnersBy};
use icdc_protocol::receipt::facts::Facts;
use icdc_protocol::validate::is_component;
use icdc_protocol::{Features, Ports, Versions};
use icdc_units::{ByteCount, Rate};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// A message and the length of the payload that belongs to it.
pub(crate) fn message() -> impl Strategy<Value = (Message, usize)> {
    let alone = prop_oneof![requests(), from_sender(), from_receiver(), either_way()];
    prop_oneof![4 => alone.prop_map(|message| (message, 0)), 1 => block(), 1 => assembled(), 1 => part(), 1 => pack(), 1 => compressed()]
}

fn requests() -> impl Strategy<Value = Message> {
    let request = (any::<[u8; 16]>(), features(), job());
    prop_oneof![
        request.prop_map(|(transfer, features, job)| Message::Request(Request { transfer, features, job })),
        features().prop_map(Message::Accepted),
        (1..=u64::MAX).prop_map(|bytes_per_second| Message::MaxRate { bytes_per_second }),
        refusal().prop_map(Message::Refused),
    ]
}

fn features() -> impl Strategy<Value = Features> {
    any::<u64>().prop_map(Features::from_bits)
}

fn stream_end() -> impl Strategy<Value = StreamEnd> {
    let time = (any::<i64>(), 0_u32..1_000_000_000);
    (any::<u32>(), any::<Digest>(), 0..=MAX_FILE_SIZE, time).prop_map(|(id, digest, size, (seconds, nanos))| {
        StreamEnd { id, digest, streamed: Streamed { size, mtime_seconds: seconds, mtime_nanos: nanos } }
    })
}

fn from_sender() -> impl Strategy<Value = Message> {
    let given_up = (text(), any::<bool>()).prop_map(|(reason, same_version)| GivenUp { reason, same_version });
    let end = (any::<u32>(), any::<u32>(), prop_oneof![digest().prop_map(Ok), given_up.prop_map(Err)]);
    let problem = (path(), text(), any::<bool>());
    prop_oneof![
        begin().prop_map(Message::Begin),
        begin().prop_map(|begin| Message::Sources(begin.sources)),
        entries().prop_map(Message::Entries),
        end.prop_map(|(id, blocks, outcome)| Message::FileEnd(FileEnd { id, blocks, outcome })),
        stream_end().prop_map(Message::StreamEnd),
        any::<u32>().prop_map(|id| Message::DirEnd { id }),
        any::<u32>().prop_map(|pass| Message::NamesWanted { pass }),
        owner_names().prop_map(Message::OwnerNames),
        (any::<u32>(), left_out()).prop_map(|(directory, what)| Message::LeftOut { directory, what }),
        vec((item_path(), any::<bool>()), 1..50).prop_map(|items| {
            let item = |(path, is_directory)| ChangedItem { path, is_directory };
            Message::Removed(items.into_iter().map(item).collect())
        }),
        (any::<(u32, u32)>(), option::of(digest()))
            .prop_map(|((id, gone), digest)| Message::CandidateAnswer(CandidateAnswer { id, gone, digest })),
        totals().prop_map(Message::Totals),
        problem.prop_map(|(path, reason, error)| Message::Problem(Problem { path, reason, error })),
        Just(Message::End),
        Just(Message::Confirmed),
        goodbye().prop_map(Message::Goodbye),
        ("[a-z_-]{0,15}", text()).prop_map(|(name, instead)| Message::Congestion(Congestion { name, instead })),
    ]
}

fn left_out() -> impl Strategy<Value = LeftOut> {
    prop_oneof![vec(component(), 1..50).prop_map(LeftOut::Names), Just(LeftOut::Unread)]
}

fn listed_names() -> impl Strategy<Value = ListedNames> {
    let name = vec(component(), 1..4).prop_map(|components| components.join(&b'/'));
    (any::<u32>(), vec(name, 1..50), any::<bool>()).prop_map(|(pass, names, ended)| ListedNames { pass, names, ended })
}

fn candidates() -> impl Strategy<Value = Candidates> {
    let place = (0_u32..4096, vec(component(), 1..5));
    let place = place.prop_map(|(source, names)| CandidatePlace { source, path: names.join(&b'/') });
    (any::<u32>(), vec(place, 0..=MAX_CANDIDATES)).prop_map(|(id, places)| Candidates { id, places })
}

fn deletion() -> impl Strategy<Value = Deletion> {
    let item = (item_path(), any::<bool>()).prop_map(|(path, is_directory)| ChangedItem { path, is_directory });
    prop_oneof![
        vec(item, 1..50).prop_map(Deletion::Deleted),
        (item_path(), text()).prop_map(|(path, reason)| Deletion::Failed { path, reason }),
        text().prop_map(Deletion::Refused),
        Just(Deletion::Ended),
    ]
}

fn snapshot_time() -> impl Strategy<Value = SnapshotTime> {
    (0..253_402_300_800_u64).prop_map(|seconds| SnapshotTime::new(seconds).expect("it is before the year 10000"))
}

fn snapshot() -> impl Strategy<Value = Snapshot> {
    let keep = (1..=u16::MAX, any::<[u16; 3]>());
    let keep = keep.prop_map(|(days, [weeks, months, years])| Keep { days, weeks, months, years });
    (snapshot_time(), option::of(keep)).prop_map(|(time, keep)| Snapshot { time, keep })
}

fn receipt_part() -> impl Strategy<Value = ReceiptPart> {
    let facts = || ("[a-z]{1,8}", text());
    let begun =
        (facts(), option::of("[a-z]{1,8}")).prop_map(|((fact, value), name): (_, Option<String>)| ReceiptPart::Begun {
            facts: Facts::of_head().with(&fact, &value).into_head(),
            name: name.map(String::into_bytes),
        });
    let signed = (facts(), any::<Digest>(), any::<[Digest; 2]>()).prop_map(|((fact, value), key, signature)| {
        ReceiptPart::Signed { facts: Facts::of_foot().with(&fact, &value).into_foot(), key, signature }
    });
    prop_oneof![begun, signed, text().prop_map(ReceiptPart::Refused)]
}

fn passed_receipt() -> impl Strategy<Value = PassedReceipt> {
    let passed = receipt_part().prop_map(|part| match part {
        ReceiptPart::Begun { facts, .. } => PassedReceipt::Begun(facts),
        ReceiptPart::Signed { facts, key, signature } => PassedReceipt::Signed { facts, key, signature },
        ReceiptPart::Refused(reason) => PassedReceipt::Refused(reason),
    });
    let lines = vec(any::<u8>(), 0..99).prop_map(|bytes| PassedReceipt::Items([&bytes[..], b"\n"].concat()));
    let told = prop_oneof![any::<Digest>().prop_map(PassedReceipt::Key), text().prop_map(PassedReceipt::NoKey)];
    prop_oneof![Just(PassedReceipt::KeyWanted), passed, lines, told]
}

fn snapshot_news() -> impl Strategy<Value = SnapshotNews> {
    prop_oneof![
        snapshot_time().prop_map(SnapshotNews::Made),
        text().prop_map(SnapshotNews::NotMade),
        snapshot_time().prop_map(SnapshotNews::Removed),
        (snapshot_time(), text()).prop_map(|(time, reason)| SnapshotNews::Stays { time, reason }),
    ]
}

fn delete() -> impl Strategy<Value = Option<Delete>> {
    let max = prop_oneof![any::<u64>().prop_map(MaxDelete::Items), (0..=100_u8).prop_map(MaxDelete::Percent)];
    option::of((rules(), option::of(max), any::<bool>()).prop_map(|(rules, max, allow_empty_source)| Delete {
        rules,
        max,
        allow_empty_source,
    }))
}

fn from_receiver() -> impl Strategy<Value = Message> {
    let done = (any::<u32>(), outcome(proptest::option::of(digest())));
    let done = done.prop_map(|(id, outcome)| Done { id, outcome });
    let ready = (any::<bool>(), 1..u32::MAX);
    let held = (any::<u32>(), 0..u32::MAX - 100, vec(any::<Digest>(), 1..100));
    let wants = (0..u32::MAX - 100, vec(want(), 1..100));
    prop_oneof![
        ready.prop_map(|(resuming, ring_blocks)| Message::Ready(Ready { resuming, ring_blocks })),
        held.prop_map(|(id, first, values)| Message::Held(Held { id, first, values })),
        wants.prop_map(|(first, answers)| Message::Wants(Wants { first, answers })),
        (any::<u32>(), 0..u32::MAX).prop_map(|(id, index)| Message::Resend { id, index }),
        vec(done, 0..50).prop_map(Message::Done),
        option::of(running()).prop_map(Message::Running),
        place().prop_map(Message::Placed),
        rate().prop_map(Message::UserCeiling),
        rate().prop_map(Message::KeyCeiling),
        (0..1000_u64).prop_map(|blocks| Message::StreamFrom { bytes: blocks * BLOCK_SIZE as u64 }),
        (1..=MAX_FILE_SIZE).prop_map(|bytes| Message::StreamDurable { bytes }),
        any::<u32>().prop_map(|id| Message::InPlace { id }),
        deletion().prop_map(Message::Deletion),
        listed_names().prop_map(Message::Names),
        candidates().prop_map(Message::Candidates),
        snapshot_news().prop_map(Message::Snapshot),
        receipt_part().prop_map(Message::Receipt),
        passed_receipt().prop_map(Message::PassedReceipt),
        basis().prop_map(Message::Basis),
        chunks().prop_map(Message::Chunks),
        any::<(u64, u64, u32, u32, Option<u64>)>().prop_map(
            |(received, durable, ring_used, ring_blocks, write_rate)| {
                Message::Feedback(Feedback { received, durable, ring_used, ring_blocks, write_rate })
            }
        ),
    ]
}

fn basis() -> impl Strategy<Value = Basis> {
    let blocks = vec(vec(any::<[u8; 16]>(), 0..=64), 0..=16);
    (any::<u32>(), 0..u32::MAX - 100, blocks, any::<bool>()).prop_map(|(id, first, blocks, complete)| {
        let complete = complete || blocks.is_empty();
        Basis { id, first, blocks, complete }
    })
}

fn chunks() -> impl Strategy<Value = Chunks> {
    let chunks = vec((1..=64_u32 << 10, any::<[u8; 16]>()), 0..50);
    (any::<u32>(), 0..=20_u8, 0..1_u64 << 50, chunks, any::<u64>(), any::<bool>()).prop_map(
        |(id, basis, offset, chunks, covered, complete)| {
            let complete = complete || chunks.is_empty();
            // The coarsest of all has room for all of these lengths.
            let chunking = Chunking::for_bytes(ByteCount::new(offset));
            Chunks { id, chunking, basis, offset, chunks, covered, complete }
        },
    )
}

/// A block of which every second step is copied, and the rest is in the payload.
fn assembled() -> impl Strategy<Value = (Message, usize)> {
    let steps = vec((0_u32..3000, 1_u32..3000), 1..200);
    (any::<u32>(), 0..u32::MAX, any::<Digest>(), steps, 0..=20_u8, 0..1_u64 << 50, any::<bool>()).prop_map(
        |(id, index, value, steps, basis, offset, has_holes)| {
            let (mut end, mut sent, mut copies, mut ranges) = (0, 0, Vec::new(), Vec::new());
            for (gap, length) in steps {
                copies.push(CopiedPart { at: end + gap, length, basis, offset: offset + u64::from(end) });
                // With holes, what is before each copy is one.
                if has_holes {
                    ranges.push((end + gap, length + 1));
                }
                sent += if has_holes { 1 } else { gap as usize };
                end += gap + length + u32::from(has_holes);
            }
            (Message::Assembled(Assembled { header: BlockHeader { id, index, value, ranges }, copies }), sent)
        },
    )
}

fn either_way() -> impl Strategy<Value = Message> {
    let range = (1..=u16::MAX).prop_flat_map(|low| (Just(low), low..=u16::MAX));
    let ports = prop_oneof![Just(Ports::Any), range.prop_map(|(low, high)| Ports::Range { low, high })];
    let family = prop_oneof![Just(0), Just(4), Just(6)];
    let task = prop_oneof![
        (any::<[u8; 32]>(), ports).prop_map(|(peer, ports)| FarTask::Serve { peer, ports }),
        Just(FarTask::Drive),
        (1..=u16::MAX).prop_map(|port| FarTask::Forward { port }),
    ];
    let versions =
        (1..100_u32, 0..64_u32).prop_map(|(lowest, more)| Versions::new(lowest, lowest + more).expect("a range"));
    let bootstrap = (versions, features(), text(), task, family);
    prop_oneof![
        Just(Message::Ping),
        Just(Message::Interrupt),
        (1..MAX_STREAMS, any::<u64>()).prop_map(|(connection, frames)| Message::Left { connection, frames }),
        refusal().prop_map(Message::Abort),
        bootstrap.prop_map(|(versions, features, version, task, family)| {
            Message::Bootstrap(Bootstrap { versions, features, version, task, family })
        }),
        (features(), text(), any::<[u8; 32]>(), any::<u16>())
            .prop_map(|(features, version, key, port)| Message::Listening(Listening { features, version, key, port })),
        vec(any::<u8>(), 0..500).prop_map(Message::Relay),
        (any::<u32>(), any::<[u8; 32]>(), vec(any::<IpAddr>(), 0..16), any::<bool>(), 1..=u16::MAX).prop_map(
            |(number, secret, addresses, elsewhere, port)| {
                Message::ConnectBack(ConnectBack { number, secret, addresses, elsewhere, port })
            }
        ),
        (any::<u32>(), text()).prop_map(|(number, reason)| Message::NotConnected { number, reason }),
        (1..=MAX_STREAMS).prop_map(|wanted| Message::Connections { wanted }),
        Just(Message::DatagramsWanted),
        measure_control().prop_map(Message::Measure),
        listing().prop_map(Message::List),
        change().prop_map(Message::Change),
    ]
}

fn block() -> impl Strategy<Value = (Message, usize)> {
    let steps = vec((0_u32..3000, 1_u32..3000), 0..200);
    let bytes = (1..=icdc_protocol::BLOCK_SIZE, any::<bool>());
    (any::<u32>(), 0..u32::MAX, any::<Digest>(), steps, bytes).prop_map(
        |(id, index, value, steps, (whole, is_difference))| {
            let mut end = 0;
            let ranges: Vec<(u32, u32)> = steps
                .into_iter()
                .map(|(gap, length)| {
                    let offset = end + gap;
                    end = offset + length;
                    (offset, length)
                })
                .collect();
            let sum: usize = ranges.iter().map(|(_, length)| *length as usize).sum();
            if is_difference {
                return (Message::Difference(BlockHeader { id, index, value, ranges }), sum);
            }
            let payload = if ranges.is_empty() { whole } else { sum };
            (Message::Block(BlockHeader { id, index, value, ranges }), payload)
        },
    )
}

fn part() -> impl Strategy<Value = (Message, usize)> {
    (any::<u32>(), 0..u32::MAX, any::<Digest>(), 1..=icdc_protocol::BLOCK_SIZE as u32, any::<prop::sample::Index>())
        .prop_map(|(id, index, value, length, number)| {
            let number = number.index((length as usize).div_ceil(PART_SIZE)) as u8;
            let part = Part { id, index, value, length, number };
            (Message::Part(part), part.range().len())
        })
}

fn pack() -> impl Strategy<Value = (Message, usize)> {
    let item = (any::<u32>(), 0..=PACK_FILE_LIMIT as u32, any::<Digest>());
    let item = item.prop_map(|(id, length, digest)| PackItem { id, length, digest });
    vec(item, 1..16).prop_map(|items| {
        let payload = items.iter().map(|item| item.length as usize).sum();
        (Message::Pack(items), payload)
    })
}

fn compressed() -> impl Strategy<Value = (Message, usize)> {
    let shrinks = |(message, length): (Message, usize)| (length > 1).then_some((message, length));
    let of = prop_oneof![block(), assembled(), pack()].prop_filter_map("nothing is shorter", shrinks);
    (of, any::<prop::sample::Index>()).prop_map(|((message, length), shorter)| {
        let of = Compressible::of(message).expect("it is of these kinds");
        (Message::Compressed(Compressed { length: length as u32, of }), 1 + shorter.index(length - 1))
    })
}

fn compress() -> impl Strategy<Value = Compress> {
    prop_oneof![Just(Compress::Auto), Just(Compress::Never), (1..=MAX_LEVEL).prop_map(Compress::Level)]
}

fn uncompressed() -> impl Strategy<Value = Uncompressed> {
    prop_oneof![
        Just(Uncompressed::OlderEnd),
        Just(Uncompressed::Disk),
        Just(Uncompressed::Processor),
        Just(Uncompressed::Data),
        Just(Uncompressed::Memory),
    ]
}

fn job() -> impl Strategy<Value = Job> {
    let admit = (any::<[u8; 32]>(), transfer());
    let drive = (
        "[a-z0-9.:]{1,40}",
        1..=u16::MAX,
        any::<[u8; 32]>(),
        vec(path(), 1..5),
        send_options(),
        path(),
        receive_options(),
    );
    prop_oneof![
        3 => transfer().prop_map(Job::Transfer),
        1 => (1..MAX_STREAMS).prop_map(|stream| Job::Join { stream }),
        1 => admit.prop_map(|(key, job)| Job::Admit { key, job: Box::new(job) }),
        1 => drive.prop_map(|(host, port, key, mut sources, mut send, destination, mut receive)| {
            (send.diskless, receive.diskless) = (None, None);
            sources.truncate(if send.listed.is_some() { 1 } else { sources.len() });
            Job::Drive(Box::new(Drive { host, port, key, sources, route: DriveRoute::Auto, ports: Ports::Range { low: port, high: port }, send, destination, receive }))
        }),
        1 => Just(Job::DriveKey),
        1 => measure_order().prop_map(Job::Measure),
        1 => list_request().prop_map(Job::List),
        1 => change_request().prop_map(Job::Change),
    ]
}

fn list_request() -> impl Strategy<Value = ListRequest> {
    let reach = prop_oneof![Just(ListReach::Directory), Just(ListReach::Tree)];
    let digest = prop_oneof![Just(ListDigest::Comparison), Just(ListDigest::Sha256), Just(ListDigest::Md5)];
    let detail = prop_oneof![Just(ListDetail::Names), Just(ListDetail::Metadata), digest.prop_map(ListDetail::Digests)];
    (path(), reach, detail, rules()).prop_map(|(path, reach, detail, rules)| ListRequest { path, reach, detail, rules })
}

fn change_request() -> impl Strategy<Value = ChangeRequest> {
    prop_oneof![
        (vec(path(), 1..5), any::<bool>()).prop_map(|(paths, mkpath)| ChangeRequest::MakeDirectories { paths, mkpath }),
        (vec(path(), 1..5), any::<[bool; 3]>()).prop_map(|(paths, [recursive, dry_run, names])| {
            ChangeRequest::Remove { paths, recursive, dry_run, names }
        }),
        (path(), path(), any::<bool>()).prop_map(|(from, to, replace)| ChangeRequest::Rename { from, to, replace }),
    ]
}

fn change() -> impl Strategy<Value = ChangeMessage> {
    let count = || {
        (any::<u32>(), any::<u64>(), any::<u64>()).prop_map(|(directories, more, bytes)| {
            let items = more.max(u64::from(directories));
            ChangeCount { items, directories: directories.into(), bytes }
        })
    };
    let item = (item_path(), any::<bool>()).prop_map(|(path, is_directory)| ChangedItem { path, is_directory });
    prop_oneof![
        count().prop_map(ChangeMessage::Counted),
        Just(ChangeMessage::Proceed),
        vec(item, 1..50).prop_map(ChangeMessage::Changed),
        (item_path(), text()).prop_map(|(path, reason)| ChangeMessage::Failed { path, reason }),
        count().prop_map(ChangeMessage::End),
        (1..=MAX_LISTED_AHEAD as u32).prop_map(|weight| ChangeMessage::Used { weight }),
    ]
}

fn listing() -> impl Strategy<Value = ListMessage> {
    let digest =
        prop_oneof![vec(any::<u8>(), 32).prop_map(Ok), vec(any::<u8>(), 16).prop_map(Ok), text().prop_map(Err)];
    let kind = prop_oneof![
        option::of(digest).prop_map(|digest| ListedKind::File { digest }),
        Just(ListedKind::Open),
        path().prop_map(|target| ListedKind::Symlink { target }),
        text().prop_map(ListedKind::Unexamined),
    ];
    let time = (any::<i64>(), 0..1_000_000_000_u32).prop_map(|(seconds, nanos)| TimeStamp { seconds, nanos });
    let metadata = (any::<[u64; 3]>(), 0..=0o7777_u16, any::<[u32; 2]>(), time, any::<bool>()).prop_map(
        |([size, allocated, links], mode, [user, group], modified, repeated)| ListedMetadata {
            size,
            allocated,
            mode,
            links,
            user,
            group,
            modified,
            repeated,
        },
    );
    let item = (component(), kind, option::of(metadata)).prop_map(|(name, kind, metadata)| {
        let rest = name[1..].to_vec();
        Listed::Item(ListedItem { shared: 1, rest, kind, metadata })
    });
    let record = prop_oneof![item, text().prop_map(Listed::Unread), Just(Listed::Leave)];
    prop_oneof![
        vec(record, 1..50).prop_map(ListMessage::Listed),
        Just(ListMessage::End),
        (1..=MAX_LISTED_AHEAD as u32).prop_map(|weight| ListMessage::Used { weight }),
    ]
}

fn measure_order() -> impl Strategy<Value = measure::MeasureRequest> {
    let bounds = (1..=MAX_MEASURE_NANOS, 1..=MAX_STREAMS, option::of(1..=MAX_WINDOW));
    let ends = (any::<bool>(), option::of(1..=u64::MAX), rate());
    (ends, bounds, option::of("[a-z0-9_-]{1,15}"), 1..=u16::MAX).prop_map(
        |((reverse, bytes, rate), (nanos, streams, window), congestion, port)| measure::MeasureRequest {
            reverse,
            nanos,
            bytes: bytes.map(ByteCount::new),
            streams,
            rate,
            congestion,
            window: window.map(ByteCount::new),
            ports: Some(Ports::Range { low: port, high: port }),
        },
    )
}

fn measure_control() -> impl Strategy<Value = measure::ControlMessage> {
    use measure::{ControlMessage, Received, Sample, Sent};
    let sample =
        (0..MAX_STREAMS, any::<[u64; 4]>()).prop_map(|(stream, [at_nanos, rtt_nanos, cwnd_bytes, bytes_acked])| {
            Sample { stream, at_nanos, rtt_nanos, cwnd_bytes, bytes_acked, ..Sample::default() }
        });
    let received = (any::<(u64, u64, bool)>(), 0..MAX_BINS as u32, vec(text(), 0..4)).prop_map(
        |((bytes, nanos, packets), bins, errors)| Received {
            bytes,
            nanos,
            packets,
            bins,
            errors,
            ..Received::default()
        },
    );
    let sent = ("[a-z0-9_-]{0,15}", any::<[u64; 2]>(), vec(text(), 0..4)).prop_map(
        |(congestion, [mss, retransmitted_segments], errors)| Sent {
            congestion,
            mss,
            retransmitted_segments,
            errors,
            ..Sent::default()
        },
    );
    prop_oneof![
        (1..=u16::MAX, vec(any::<[u8; 32]>(), 1..64)).prop_map(|(port, tokens)| ControlMessage::Ready { port, tokens }),
        Just(ControlMessage::Go),
        vec(sample, 0..50).prop_map(ControlMessage::Samples),
        received.prop_map(ControlMessage::Received),
        vec(any::<u32>(), 1..500).prop_map(ControlMessage::Arrivals),
        sent.prop_map(ControlMessage::Sent),
    ]
}

fn transfer() -> impl Strategy<Value = Transfer> {
    let receive = (path(), receive_options());
    // The names of a list are below one source.
    let send = (vec(path(), 1..5), send_options()).prop_map(|(mut sources, options)| {
        sources.truncate(if options.listed.is_some() { 1 } else { sources.len() });
        (sources, options)
    });
    prop_oneof![
        receive.prop_map(|(destination, options)| Transfer::Receive { destination, options }),
        send.prop_map(|(sources, options)| Transfer::Send { sources, options }),
    ]
}

fn rate() -> impl Strategy<Value = Option<Rate>> {
    option::of((1..=u64::MAX).prop_map(Rate::from_bits_per_second))
}

fn mirrored() -> impl Strategy<Value = Mirrored> {
    prop_oneof![
        Just(Mirrored::No),
        Just(Mirrored::KeepingExcluded),
        Just(Mirrored::WithExcluded),
        Just(Mirrored::Snapshot)
    ]
}

fn send_options() -> BoxedStrategy<SendOptions> {
    let congestion = || option::of(Just("icdc_highspeed".to_owned()));
    let rest = || (rate(), congestion(), option::of(1..=MAX_STREAMS), (any::<[bool; 8]>(), mirrored(), compress()));
    let usual = (choice(), preserve(), rest(), option::of(any::<Digest>())).prop_map(
        |(
            choice,
            preserve,
            (
                rate,
                congestion,
                streams,
                (
                    [dry_run, buffered, moves, prune_empty_dirs, owner_names, known_digests, background, devices],
                    mirrored,
                    compress,
                ),
            ),
            listed,
        )| SendOptions {
            choice,
            preserve,
            rate,
            congestion,
            streams,
            dry_run,
            buffered,
            diskless: None,
            mirrored,
            moves: moves && mirrored == Mirrored::No,
            listed: listed.filter(|_| !moves && mirrored == Mirrored::No),
            prune_empty_dirs,
            known_digests,
            owner_names,
            compress,
            background,
            copy_devices: devices && !moves,
        },
    );
    let without_disks = (diskless(), rest()).prop_map(|(diskless, (rate, congestion, streams, _))| SendOptions {
        rate,
        congestion,
        streams,
        diskless: Some(diskless),
        preserve: Preserve::NOTHING,
        ..SendOptions::default()
    });
    // On the heap: by value, the strategies of all messages together take a test's whole stack.
    prop_oneof![3 => usual, 1 => without_disks].boxed()
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let effect = prop_oneof![Just(Effect::Include), Just(Effect::Exclude)];
    vec((effect, vec(any::<u8>(), 0..20)).prop_map(|(effect, pattern)| Rule { effect, pattern }), 0..4)
}

fn choice() -> impl Strategy<Value = Choice> {
    let time =
        || option::of((any::<i64>(), 0..1_000_000_000_u32).prop_map(|(seconds, nanos)| TimeStamp { seconds, nanos }));
    let size = || option::of(any::<u64>().prop_map(ByteCount::new));
    (rules(), [size(), size()], [time(), time()], any::<[bool; 2]>()).prop_map(
        |(rules, [min_size, max_size], [newer_than, older_than], [one_file_system, exclude_caches])| Choice {
            rules,
            min_size,
            max_size,
            newer_than,
            older_than,
            one_file_system,
            exclude_caches,
        },
    )
}

fn diskless() -> impl Strategy<Value = Diskless> {
    let length = (MIN_DISKLESS_BYTES..=MAX_DISKLESS_BYTES).prop_map(ByteCount::new);
    (length, any::<bool>()).prop_map(|(length, hashed)| Diskless { length, hashed })
}

fn backup() -> impl Strategy<Value = Backup> {
    let suffix = || "[a-z~.]{1,9}".prop_map(String::into_bytes);
    prop_oneof![
        (path(), option::of(suffix()))
            .prop_map(|(path, suffix)| Backup { directory: Some(path), suffix: suffix.unwrap_or_default() }),
        suffix().prop_map(|suffix| Backup { directory: None, suffix }),
    ]
}

fn receive_options() -> impl Strategy<Value = ReceiveOptions> {
    let usual = (
        any::<[bool; 10]>(),
        existing(),
        if_running(),
        preserve(),
        option::of(1_u64..1 << 30),
        option::of(place()),
        delete(),
        (
            vec(path(), 0..=2),
            vec(mode_change(), 0..=3),
            owner_mapping(),
            option::of(vec(path(), 0..=2)),
            vec(path(), 0..=2),
        ),
        any::<bool>(),
        option::of(backup()),
    )
        .prop_map(
            |(
                [verify, resume, mkpath, dry_run, buffered, keeps_name, receipt, whole_files, known_digests, delta],
                existing,
                if_running,
                preserve,
                ring,
                place,
                delete,
                (link_dest, chmod, owners, links_into, bases),
                missing,
                backup,
            )| {
                ReceiveOptions {
                    verify,
                    resume,
                    existing,
                    if_running,
                    mkpath,
                    preserve,
                    ring: ring.map(ByteCount::new),
                    dry_run,
                    buffered,
                    diskless: None,
                    place,
                    keeps_name,
                    delete,
                    link_dest,
                    missing: if missing { Missing::LeaveOut } else { Missing::Make },
                    snapshot: None,
                    backup: backup.map(Box::new),
                    receipt: receipt && !dry_run && !missing && links_into.is_none(),
                    chmod,
                    owners: owners.into(),
                    whole_files,
                    known_digests,
                    directory_links: links_into.map(|into| DirectoryLinks { into }),
                    write_device: false,
                    delta: delta && !whole_files,
                    bases: if delta && !whole_files { bases } else { Vec::new() },
                    in_place: false,
                }
            },
        );
    let without_disks = diskless().prop_map(|diskless| ReceiveOptions {
        diskless: Some(diskless),
        preserve: Preserve::NOTHING,
        ..ReceiveOptions::default()
    });
    let snapshot = (snapshot(), any::<bool>()).prop_map(|(snapshot, allow_empty_source)| ReceiveOptions {
        snapshot: Some(snapshot),
        delete: Some(Delete { allow_empty_source, ..Delete::default() }),
        ..ReceiveOptions::default()
    });
    let device =
        (any::<[bool; 4]>(), option::of(1_u64..1 << 30)).prop_map(|([verify, resume, dry_run, whole], ring)| {
            ReceiveOptions {
                verify,
                resume,
                dry_run,
                whole_files: whole,
                ring: ring.map(ByteCount::new),
                preserve: Preserve { sparse: false, ..Preserve::default() },
                write_device: true,
                ..ReceiveOptions::default()
            }
        });
    let in_place = any::<[bool; 5]>().prop_map(|[verify, resume, dry_run, whole_files, mkpath]| ReceiveOptions {
        verify,
        resume,
        dry_run,
        whole_files,
        mkpath,
        in_place: true,
        ..ReceiveOptions::default()
    });
    prop_oneof![3 => usual, 1 => without_disks, 1 => snapshot, 1 => device, 1 => in_place]
}

fn place() -> impl Strategy<Value = SourcePosition> {
    prop_oneof![Just(SourcePosition::Named), Just(SourcePosition::Inside)]
}

fn running() -> impl Strategy<Value = Running> {
    (path(), any::<(Option<u32>, Option<u64>)>(), if_running()).prop_map(|(path, (pid, age), then)| Running {
        path,
        pid,
        age,
        then,
    })
}

fn if_running() -> impl Strategy<Value = IfRunning> {
    prop_oneof![Just(IfRunning::Wait), Just(IfRunning::Skip), Just(IfRunning::Fail)]
}

fn existing() -> impl Strategy<Value = Existing> {
    let equality = prop_oneof![Just(Equality::SizeAndTime), Just(Equality::Size), Just(Equality::Contents)].boxed();
    prop_oneof![
        Just(Existing::Replace),
        equality.clone().prop_map(Existing::SkipEqual),
        equality.prop_map(Existing::Update),
        Just(Existing::Keep)
    ]
}

fn preserve() -> impl Strategy<Value = Preserve> {
    any::<[bool; 9]>().prop_map(|[mode, times, links, owner, xattr, sparse, acl, specials, security]| Preserve {
        mode,
        times,
        links,
        owner,
        xattr,
        sparse,
        acl,
        specials,
        security,
    })
}

fn account() -> impl Strategy<Value = Vec<u8>> {
    "[a-z_][a-z0-9_.-]{0,30}".prop_map(String::into_bytes)
}

fn owner_rule() -> impl Strategy<Value = OwnerRule> {
    let from = prop_oneof![
        (0..u32::MAX, 0..1000_u32)
            .prop_map(|(first, more)| OwnerPattern::Ids { first, last: first.saturating_add(more) }),
        account().prop_map(OwnerPattern::Name),
        "[a-z]{0,3}[*?][a-z]{0,3}".prop_map(|pattern| OwnerPattern::Names(pattern.into_bytes())),
        Just(OwnerPattern::Nameless),
    ];
    let to = prop_oneof![(0..u32::MAX).prop_map(OwnerTarget::Id), account().prop_map(OwnerTarget::Name)];
    (from, to).prop_map(|(from, to)| OwnerRule { from, to })
}

fn owner_mapping() -> impl Strategy<Value = OwnerMapping> {
    let by = prop_oneof![Just(OwnersBy::Names), Just(OwnersBy::Numbers)];
    let (users, groups) = (vec(owner_rule(), 0..3), vec(owner_rule(), 0..3));
    (by, users, groups).prop_map(|(by, users, groups)| OwnerMapping { by, users, groups })
}

fn owner_names() -> impl Strategy<Value = OwnerNames> {
    let named = || vec((0..u32::MAX, account()).prop_map(|(id, name)| NamedOwner { id, name }), 0..20);
    (named(), named()).prop_map(|(users, groups)| OwnerNames { users, groups })
}

fn mode_change() -> impl Strategy<Value = ModeChange> {
    let of = prop_oneof![Just(ChangedItems::All), Just(ChangedItems::Directories), Just(ChangedItems::Others)];
    let execution = prop_oneof![Just(Execution::Given), Just(Execution::IfExecutable)];
    let from = prop_oneof![Just(UserClass::Owner), Just(UserClass::Group), Just(UserClass::Others)];
    let copied = (from, 0..=0o777_u16, prop_oneof![Just(Copied::Given), Just(Copied::Taken)]);
    let copied = option::of(copied.prop_map(|(from, to, how)| CopiedBits { from, to, how }));
    let change = (of, [0..=0o7777_u16, 0..=0o7777_u16], execution, copied);
    change.prop_map(|(of, [kept, set], execution, copied)| ModeChange { of, kept, set, execution, copied })
}

fn begin() -> impl Strategy<Value = Begin> {
    let named = (component(), prop_oneof![Just(SourceKind::Item), Just(SourceKind::Directory)]);
    let contents = (prop_oneof![Just(Vec::new()), component()], Just(SourceKind::Contents));
    let identity = proptest::option::of(any::<[u8; 16]>());
    let stream = (Just(Vec::new()), Just(SourceKind::Stream));
    let source = (prop_oneof![named, contents, stream], identity);
    let source = source.prop_map(|((name, kind), identity)| Source { name, kind, identity });
    (any::<Digest>(), vec(source, 1..10)).prop_map(|(job, sources)| Begin { job, sources })
}

/// Entries with consecutive ids.
pub(crate) fn entries() -> impl Strategy<Value = Vec<Entry>> {
    (1..u32::MAX / 2, vec(entry(), 0..20)).prop_map(|(first, mut entries)| {
        for (id, entry) in (first..).zip(&mut entries) {
            entry.id = id;
            if let Parent::Directory(parent) = &mut entry.parent {
                *parent %= id;
            }
            if let EntryKind::HardLink { to, .. } = &mut entry.kind {
                *to %= id;
            }
        }
        entries
    })
}

/// An entry whose id is not set yet.
fn entry() -> impl Strategy<Value = Entry> {
    let of_source = (0_u32..4096).prop_map(|number| (Parent::Source(number), Vec::new()));
    let of_directory = (any::<u32>(), component());
    let of_directory = of_directory.prop_map(|(id, name)| (Parent::Directory(id), name));
    let owner = proptest::option::of((0..u32::MAX, 0..u32::MAX));
    let xattr = (component(), vec(any::<u8>(), 0..100));
    (
        prop_oneof![of_source, of_directory],
        entry_kind(),
        0_u16..=0o7777,
        (any::<i64>(), 0_u32..1_000_000_000),
        owner,
        vec(xattr, 0..4),
    )
        .prop_map(|((parent, name), kind, mode, (mtime_seconds, mtime_nanos), owner, xattrs)| Entry {
            id: 0,
            parent,
            name,
            kind,
            mode,
            mtime_seconds,
            mtime_nanos,
            owner,
            xattrs,
        })
}

fn entry_kind() -> impl Strategy<Value = EntryKind> {
    let file = (0..=MAX_FILE_SIZE, any::<[u8; 16]>(), any::<[bool; 2]>());
    let link = (any::<u32>(), 0..=MAX_FILE_SIZE, any::<[u8; 16]>(), any::<bool>());
    prop_oneof![
        file.prop_map(|(size, version, [sparse, linked])| EntryKind::File { size, version, sparse, linked }),
        Just(EntryKind::Directory),
        vec(1_u8..=255, 1..300).prop_map(|target| EntryKind::Symlink { target }),
        link.prop_map(|(to, size, version, sparse)| EntryKind::HardLink { to, size, version, sparse }),
        special().prop_map(EntryKind::Special),
        Just(EntryKind::Stream),
    ]
}

fn special() -> impl Strategy<Value = Special> {
    let device = || (0..1_u32 << 12, 0..1_u32 << 20).prop_map(|(major, minor)| DeviceNumber { major, minor });
    prop_oneof![
        Just(Special::Pipe),
        Just(Special::Socket),
        device().prop_map(Special::BlockDevice),
        device().prop_map(Special::CharacterDevice),
    ]
}

fn goodbye() -> impl Strategy<Value = Goodbye> {
    let stages = vec((text(), any::<u64>()), 0..10);
    (any::<Digest>(), any::<[u64; 3]>(), stages, option::of(uncompressed())).prop_map(
        |(tree, [bytes_sent, retransmitted_segments, failed], limited_by, uncompressed)| Goodbye {
            tree,
            bytes_sent,
            retransmitted_segments,
            failed,
            limited_by,
            uncompressed,
        },
    )
}

fn totals() -> impl Strategy<Value = Totals> {
    any::<(u64, u64, u64, bool)>().prop_map(|(entries, files, bytes, complete)| Totals {
        entries,
        files,
        bytes,
        complete,
    })
}

fn want() -> impl Strategy<Value = Want> {
    prop_oneof![
        Just(Want::All),
        Just(Want::Rest),
        digest().prop_map(Want::Have),
        digest().prop_map(Want::TakenOver),
        Just(Want::Skip),
        Just(Want::Difference),
        Just(Want::Delta),
        Just(Want::Failed),
        Just(Want::Contents),
        prop_oneof![Just(Kept::Newer), Just(Kept::Existing), Just(Kept::Missing)].prop_map(Want::Keep),
        Just(Want::Linked),
        proptest::option::of(digest()).prop_map(Want::Renamed)
    ]
}

fn refusal() -> impl Strategy<Value = Refusal> {
    let kind = prop_oneof![
        Just(RefusalKind::NotAllowed),
        Just(RefusalKind::Path),
        Just(RefusalKind::Protocol),
        Just(RefusalKind::Busy),
        Just(RefusalKind::Interrupted),
        Just(RefusalKind::Internal),
    ];
    (kind, text()).prop_map(|(kind, reason)| Refusal { kind, reason })
}

fn outcome<T: std::fmt::Debug + Clone>(good: impl Strategy<Value = T>) -> impl Strategy<Value = Result<T, String>> {
    prop_oneof![good.prop_map(Ok), text().prop_map(Err)]
}

/// A digest of a file of either kind.
fn digest() -> impl Strategy<Value = FileDigest> {
    prop_oneof![any::<Digest>().prop_map(FileDigest::Blake3), any::<Digest>().prop_map(FileDigest::SparseMap)]
}

/// Any component of a path.
fn component() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 1..=MAX_NAME).prop_map(|mut name| {
        name.iter_mut().filter(|byte| matches!(byte, b'/' | 0)).for_each(|byte| *byte = b'\n');
        if is_component(&name) { name } else { b"...".to_vec() }
    })
}

/// Path of an item, which is not empty.
fn item_path() -> impl Strategy<Value = Vec<u8>> {
    vec(1_u8..=255, 1..300)
}

fn path() -> impl Strategy<Value = Vec<u8>> {
    vec(1_u8..=255, 0..300)
}

fn text() -> impl Strategy<Value = String> {
    any::<String>()
}
