//! Far ends that ssh starts.

use std::net::TcpListener;
use std::path::Path;

use icdc_client::{ConnectError, CopyOptions, FailureKind, Far, Via};
use icdc_protocol::Ports;

use crate::{HERE, Scene, assert_same, by_ssh, copy, eventually, local, silent};

fn error_of(options: &CopyOptions) -> ConnectError {
    Far::open(&by_ssh(Path::new("/tmp")), options, &silent(), &icdc_stop::StopSignal::new())
        .and_then(|mut far| far.link())
        .map(|_| ())
        .unwrap_err()
}

#[test]
fn a_tree_goes_there_and_back() {
    let scene = Scene::new();
    let (source, there, back) = (scene.tree("source"), scene.path("there"), scene.path("back"));
    let mut options = scene.options();
    options.ssh = r#"sh -c 'shift; echo "Welcome to this host"; printf "no end of line"; eval "$1"' sh"#.to_owned();
    let (pushed, _) = copy(&local(&source), &by_ssh(&there), &options);
    assert_eq!(pushed.unwrap().errors, 0);
    assert_same(&source, &there);
    let (pulled, _) = copy(&by_ssh(&there), &local(&back), &options);
    assert_eq!(pulled.unwrap().errors, 0);
    assert_same(&source, &back);
}

#[test]
fn a_missing_icdc_is_told_from_a_missing_ssh() {
    let scene = Scene::new();
    let mut options = scene.options();
    options.remote_icdc = "/no/such/icdc".to_owned();
    let error = error_of(&options);
    assert!(matches!(&error, ConnectError::NoIcdc { said, .. } if said.contains("not found")), "{error}");
    assert!(error.to_string().contains("--send-self") && error.to_string().contains("--remote-icdc"), "{error}");
    options.remote_icdc = scene.path("no-permission").to_str().unwrap().to_owned();
    std::fs::write(&options.remote_icdc, "").unwrap();
    assert!(matches!(error_of(&options), ConnectError::NoIcdc { .. }));

    options.ssh = "LANG=C no-such-ssh -v".to_owned();
    let error = error_of(&options);
    assert!(matches!(error, ConnectError::SshMissing { .. }), "{error}");
}

#[test]
fn what_ssh_says_is_in_the_error() {
    let mut options = Scene::new().options();
    options.ssh = r#"sh -c 'echo "Permission denied (publickey)." >&2; exit 255' sh"#.to_owned();
    let error = error_of(&options);
    assert!(matches!(error, ConnectError::SshFailed { .. }), "{error}");
    assert!(error.to_string().contains("Permission denied (publickey)."), "{error}");
    let (result, _) = copy(&local(Path::new("/etc/hostname")), &by_ssh(Path::new("/tmp/x")), &options);
    assert_eq!(result.unwrap_err().kind(), FailureKind::NotLetIn);
}

#[test]
fn other_releases_and_other_programs_are_recognised() {
    let scene = Scene::new();
    let mut options = scene.options();
    options.remote_icdc = scene.program("newer", "echo ICDC-FAR-END 9; cat");
    let error = error_of(&options);
    assert!(matches!(&error, ConnectError::OtherVersion { theirs, .. } if theirs == "icdc/9"), "{error}");
    options.remote_icdc = scene.program("older", "echo \"error: unrecognized subcommand 'far-end'\" >&2; exit 2");
    assert!(matches!(error_of(&options), ConnectError::OtherVersion { .. }));
    options.remote_icdc = "true".to_owned();
    let error = error_of(&options);
    assert!(matches!(error, ConnectError::FarEndFailed { .. }), "{error}");
    options.remote_icdc = scene.program("endless", "exec yes");
    let error = error_of(&options);
    assert!(error.to_string().contains("start-up files"), "{error}");
    options.remote_icdc = scene.program("garbled", "echo ICDC-FAR-END 2; echo this is no frame of the protocol; cat");
    let error = error_of(&options);
    assert!(matches!(error, ConnectError::OtherVersion { .. } | ConnectError::FarEndFailed { .. }), "{error}");
}

#[test]
fn a_port_that_is_taken_or_blocked_is_named() {
    let scene = Scene::new();
    let mut options = scene.options();
    let taken = TcpListener::bind("[::]:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    options.ports = Ports::Range { low: port, high: port };
    let error = error_of(&options);
    assert!(matches!(error, ConnectError::FarEndRefused { .. }), "{error}");
    assert!(error.to_string().contains(&port.to_string()), "{error}");

    // A far end in a network of its own: ssh gets there, TCP does not.
    let unshare = "unshare --net";
    if !std::process::Command::new("sh").args(["-c", &format!("{unshare} true")]).status().unwrap().success() {
        eprintln!("skipped: a network namespace needs root");
        return;
    }
    options.ports = Ports::Any;
    options.ssh = format!("{unshare} {HERE}");
    // Neither does what it forwards: each ssh has a network of its own.
    let error = error_of(&options);
    assert!(matches!(error, ConnectError::NoRoute { .. }), "{error}");
    let says = |error: &ConnectError, words: &[&str]| words.iter().all(|word| error.to_string().contains(word));
    assert!(says(&error, &["directly: ", "through ssh: ", "--port LO-HI", "firewall"]), "{error}");
    options.via = Via::Direct;
    let error = error_of(&options);
    assert!(matches!(error, ConnectError::DataPort { .. }), "{error}");
    assert!(says(&error, &["--port LO-HI", "firewall"]), "{error}");
}

#[test]
fn the_far_end_ends_with_the_near_one() {
    let scene = Scene::new();
    let mut far =
        Far::open(&by_ssh(Path::new("/tmp")), &scene.options(), &silent(), &icdc_stop::StopSignal::new()).unwrap();
    let link = far.link().unwrap();
    let process = Path::new("/proc").join(&scene.pids()[0]);
    assert!(process.exists());
    drop(link);
    drop(far);
    assert!(eventually(|| !process.exists()));
}

#[test]
fn a_far_end_that_died_is_started_again() {
    let scene = Scene::new();
    let mut far =
        Far::open(&by_ssh(Path::new("/tmp")), &scene.options(), &silent(), &icdc_stop::StopSignal::new()).unwrap();
    drop(far.link().unwrap());
    drop(far.link().unwrap());
    assert_eq!(scene.pids().len(), 1, "a further connection needs no further far end");
    assert!(std::process::Command::new("kill").args(["-KILL", &scene.pids()[0]]).status().unwrap().success());
    let link = far.link().unwrap();
    assert!(link.control.peer_key().is_some());
    assert_eq!(scene.pids().len(), 2);
}

#[test]
fn a_far_end_whose_ssh_is_slow_to_notice_is_started_again() {
    let scene = Scene::new();
    let mut options = scene.options();
    options.ssh = r#"sh -c 'shift; (eval "$1"); sleep 1.5' sh"#.to_owned();
    let far_end = by_ssh(Path::new("/tmp"));
    let mut far = Far::open(&far_end, &options, &silent(), &icdc_stop::StopSignal::new()).unwrap();
    drop(far.link().unwrap());
    assert!(std::process::Command::new("kill").args(["-KILL", &scene.pids()[0]]).status().unwrap().success());
    drop(far.link().unwrap());
    assert_eq!(scene.pids().len(), 2);
}

#[test]
fn strangers_on_the_data_port_get_nothing() {
    use std::io::Read;
    let scene = Scene::new();
    let mut far =
        Far::open(&by_ssh(Path::new("/tmp")), &scene.options(), &silent(), &icdc_stop::StopSignal::new()).unwrap();
    let link = far.link().unwrap();
    let address: std::net::SocketAddr = link.control.peer().parse().unwrap();
    let config = icdc_trust::client_config(
        &icdc_trust::Identity::generate(),
        icdc_trust::ServerPin::Exact(link.control.peer_key().unwrap()),
    );
    let stream = std::net::TcpStream::connect(address).unwrap();
    let patience = icdc_units::Span::from_secs(10);
    if let Ok(mut stranger) = icdc_link::secure_client(stream, config, patience) {
        // In TLS 1.3 the client learns of it with the first answer.
        let pool = icdc_disk::pool::BlockPool::new(1).unwrap();
        assert!(stranger.inlet.receive(&pool).is_err());
    }
    let mut garbage = std::net::TcpStream::connect(address).unwrap();
    std::io::Write::write_all(&mut garbage, b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let _ = garbage.read_to_end(&mut Vec::new());
    drop(link);
    assert!(far.link().is_ok());
}
