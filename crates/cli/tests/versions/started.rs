//! Far sides that ssh starts and that speak other versions.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

use icdc_protocol::frame::{PREFIX_LENGTH, Prefix, decode_head};
use icdc_protocol::message::{Bootstrap, FarTask};
use icdc_protocol::{Features, Message, Ports, Versions};

use crate::support::{Ended, ICDC, Site, Start, assert_same};

/// A copy to a far side on which `body` runs for icdc.
fn copy_to(body: &str) -> Ended {
    let site = Site::new();
    std::fs::write(site.path("file"), "contents").unwrap();
    let (ssh, far) = (site.ssh(), site.program("far-icdc", body));
    let mut command = site.icdc(&["copy", "--json", "--ssh", &ssh, "--remote-icdc", &far, "file"]);
    let ended = command.arg(site.by_ssh("copied")).run();
    match ended.code {
        Some(0) => assert_same(&site.path("file"), &site.path("copied")),
        _ => assert!(!site.path("copied").exists(), "{ended}"),
    }
    ended
}

/// A far side that says `lines` in the place of its own first ones.
fn saying(lines: &str) -> String {
    format!("'{ICDC}' far-end | {{ read -r empty; read -r versions; read -r marker; printf '{lines}'; exec cat; }}")
}

#[test]
fn a_newer_far_side_that_has_this_version_too_is_used() {
    for lines in ["\\nICDC-VERSIONS 2-9\\nICDC-FAR-END 2\\n", "\\nICDC-VERSIONS 1-3\\nICDC-FAR-END 1\\n"] {
        let ended = copy_to(&saying(lines)).expect_code(0);
        assert!(ended.all("notice").next().is_none(), "{ended}");
    }
}

#[test]
fn a_far_side_that_tells_one_number_is_understood() {
    copy_to(&saying("\\nICDC-FAR-END 2\\n")).expect_code(0);
}

#[test]
fn without_a_common_version_both_are_told() {
    for (lines, theirs, remedy) in [
        ("ICDC-VERSIONS 3-4\\nICDC-FAR-END 3\\n", "icdc/3 to icdc/4", "upgrade icdc on this host, or use --send-self"),
        ("ICDC-FAR-END 1\\n", "icdc/1", "upgrade icdc there, or use --send-self"),
    ] {
        let ended = copy_to(&format!("printf '{lines}'; exec cat")).expect_code(3);
        for words in ["another protocol", theirs, "this is icdc/2", remedy] {
            assert!(ended.to_string().contains(words), "{words}: {ended}");
        }
    }
}

/// The first message of a starting end with this task.
fn told(task: FarTask) -> Bootstrap {
    Bootstrap { versions: Versions::OURS, features: Features::OURS, version: "0.1.0".into(), task, family: 4 }
}

#[test]
fn a_far_side_answers_what_it_is_told_on_the_command_line_before_its_input_comes() {
    let site = Site::new();
    let task = FarTask::Serve { peer: [2; 32], ports: Ports::Any };
    let told = told(task);
    let start = |word: &str| {
        let mut command = site.icdc(&["far-end", word]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut far = start(&told.word());
    let mut output = BufReader::new(far.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("ICDC-FAR-END") {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "there is no marker");
    }
    let mut prefix = [0; PREFIX_LENGTH];
    output.read_exact(&mut prefix).unwrap();
    let mut head = vec![0; Prefix::parse(&prefix).unwrap().head];
    output.read_exact(&mut head).unwrap();
    assert!(matches!(decode_head(&head, 0), Ok(Message::Listening(listening)) if listening.port != 0));
    drop(far.stdin.take());
    assert!(far.wait().unwrap().success());
    // One that forwards, and is then told another thing.
    let Forwarded { listener, told } = forwarded();
    let mut far = start(&told.word());
    let _connection = listener.accept().unwrap();
    let other = Bootstrap { family: 6, ..told };
    far.stdin.take().unwrap().write_all(&other.frame()).unwrap();
    let ended = far.wait_with_output().unwrap();
    assert!(!ended.status.success() && String::from_utf8_lossy(&ended.stderr).contains("another one"), "{ended:?}");
}

/// A port to which a far side is to forward, and the message that tells it so.
struct Forwarded {
    listener: TcpListener,
    told: Bootstrap,
}

fn forwarded() -> Forwarded {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let task = FarTask::Forward { port: listener.local_addr().unwrap().port() };
    Forwarded { listener, told: told(task) }
}

#[test]
fn what_comes_behind_the_first_message_is_forwarded() {
    let site = Site::new();
    let Forwarded { listener, told } = forwarded();
    let mut far = site.icdc(&["far-end", &told.word()]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // All of it at once, as a starting end sends it that has had the answer.
    far.stdin.as_ref().unwrap().write_all(&[&told.frame()[..], b"forward this"].concat()).unwrap();
    let (mut connection, _) = listener.accept().unwrap();
    let mut forwarded = [0; 12];
    connection.read_exact(&mut forwarded).unwrap();
    assert_eq!(&forwarded, b"forward this");
    drop((connection, far.stdin.take()));
    far.wait().unwrap();
}
