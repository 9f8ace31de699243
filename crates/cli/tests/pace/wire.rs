//! `icdc pace wire`: classes on a device, what they get, and what is left when it ends.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::support;
use crate::support::calm::{holds, in_a_calm_moment};
use crate::support::lab::Lab;
use crate::support::network::{Host, Pair};
use crate::support::process::eventually;
use crate::support::{Ended, ICDC, Noise, Run, Signal, Site, Start, is_root, skip};

/// A file of classes, `CLASS = { port, words }`, each for what goes to a port; the rest is unpaced.
fn classes(site: &Site, classes: &[(&str, u16, &str)]) -> String {
    let mut text = String::new();
    for (name, port, words) in classes {
        text += &format!("[[class]]\nname = \"{name}\"\n{words}\nfilter = [{{ ports = {port} }}]\n");
    }
    write_classes(site, &text)
}

fn write_classes(site: &Site, text: &str) -> String {
    let path = site.path("classes.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn wire(site: &Site, classes: &str, words: &[&str]) -> Command {
    let all =
        [&["pace", "wire", "--dev", "eth0", "--classes", classes, "--interval", "100ms", "--json"], words].concat();
    site.icdc(&all)
}

/// A pacer on the near host of a pair, at work.
fn pace(site: &Site, host: &Host, classes: &str, words: &[&str]) -> Run {
    let words = [&["--line-rate", "1gbit"], words].concat();
    let run = host.run(&wire(site, classes, &words)).start();
    assert!(run.wait_for_words("mode:"), "{}", run.stderr());
    run
}

fn stop(run: Run) -> Ended {
    run.signal(Signal::TERM);
    run.finish().expect_code(0)
}

/// The last that was told of a class.
fn told(ended: &Ended, name: &str) -> Value {
    let classes = ended.all("classes").last().unwrap()["classes"].as_array().unwrap();
    classes.iter().find(|class| class["name"] == name).unwrap_or_else(|| panic!("{name}: {ended}")).clone()
}

/// Sends through a connection as fast as it goes until dropped, and counts what comes out at its
/// other end.
struct Flow {
    arrived: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
}

impl Flow {
    fn new(mut from: TcpStream, mut to: TcpStream) -> Self {
        let (arrived, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (counter, done) = (Arc::clone(&arrived), Arc::clone(&over));
        from.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                // A full buffer of a paced connection is no error.
                let _ = from.write(&[0; 16_384]);
            }
        });
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 20];
            while let Ok(length @ 1..) = to.read(&mut buffer) {
                counter.fetch_add(length as u64, Ordering::Relaxed);
            }
        });
        Self { arrived, over }
    }

    fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    fn goes_on(&self) -> bool {
        let before = self.arrived();
        eventually(|| self.arrived() > before + 100_000)
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// A listener on the far host and its port.
fn listener(host: &Host) -> (TcpListener, u16) {
    let listener = host.inside(|| TcpListener::bind((host.address(), 0)).unwrap());
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn flow(near: &Host, listener: &TcpListener) -> Flow {
    let at = listener.local_addr().unwrap();
    Flow::new(near.inside(|| TcpStream::connect(at).unwrap()), listener.accept().unwrap().0)
}

/// What each flow gets over the same while, as a multiple of the last one's.
fn shares(flows: &[Flow], span: Duration) -> Vec<f64> {
    let read = || flows.iter().map(Flow::arrived).collect::<Vec<u64>>();
    assert!(eventually(|| flows.iter().all(|flow| flow.arrived() > 500_000)));
    let before = read();
    thread::sleep(span);
    let gained: Vec<f64> = read().iter().zip(before).map(|(after, before)| (after - before) as f64).collect();
    gained.iter().map(|bytes| bytes / gained.last().unwrap()).collect()
}

fn has_detour(host: &Host) -> bool {
    let routes = support::succeed(host.command("ip").args(["route", "show"]));
    routes.contains("pace")
}

#[test]
fn classes_get_their_rates_by_the_timer() {
    let Some(pair) = Pair::new() else { return };
    let site = Site::new();
    let ends = [listener(&pair.far), listener(&pair.far), listener(&pair.far)];
    let file = classes(
        &site,
        &[
            ("fast", ends[0].1, "rate = \"80mbit\""),
            ("slow", ends[1].1, "rate = \"20mbit\""),
            ("capped", ends[2].1, "ceiling = \"40mbit\""),
        ],
    );
    let run = pace(&site, &pair.near, &file, &[]);
    assert!(run.stderr().contains("timer mode"), "{}", run.stderr());
    let flows = ends.each_ref().map(|(listener, _)| flow(&pair.near, listener));
    in_a_calm_moment(|| {
        let shares = shares(&flows, Duration::from_secs(3));
        let is_near = |(share, wanted): (&f64, f64)| (share / wanted - 1.0).abs() < 0.1;
        holds(shares.iter().zip([2.0, 0.5]).all(is_near), &shares)
    });
    drop(flows);
    let ended = stop(run);
    for name in ["fast", "slow", "capped"] {
        assert!(told(&ended, name)["packets"].as_u64().unwrap() > 100, "{ended}");
    }
    assert_eq!(ended.events.last().unwrap()["gap_packets"], 0);
    assert!(!has_detour(&pair.near));
}

#[test]
fn gap_frames_keep_frames_apart_where_a_line_is_charged_for_them() {
    let words = ["--rate", "200mbit", "--rtt", "4ms", "--queue", "16kB", "--line-rate", "500mbit"];
    let Some(lab) = Lab::up(&words) else { return };
    let site = Site::new();
    let b: IpAddr = support::lab::B.parse().unwrap();
    // Free ports of two families may be equal, and ports are what tells the classes apart.
    let ends = [(b, 7004), ("fd26:33::2".parse().unwrap(), 7006)]
        .map(|(address, port)| (lab.inside("b", || TcpListener::bind((address, port)).unwrap()), port));
    let file = classes(&site, &[("four", ends[0].1, "rate = \"80mbit\""), ("six", ends[1].1, "rate = \"40mbit\"")]);
    let inside = ["lab", "exec", "--name", &lab.name, "a", "--", ICDC];
    let pace = ["pace", "wire", "--dev", "eth0", "--classes", &file, "--interval", "100ms", "--json"];
    let run = site.icdc(&[&inside[..], &pace].concat()).start();
    assert!(run.wait_for_words("gap mode"), "{}", run.stderr());
    assert!(run.stderr().contains("500 Mbit/s line"), "{}", run.stderr());
    let flows = ends.each_ref().map(|(listener, _)| {
        let at = listener.local_addr().unwrap();
        let stream = lab.inside("a", move || TcpStream::connect(at).unwrap());
        Flow::new(stream, listener.accept().unwrap().0)
    });
    in_a_calm_moment(|| {
        let shares = shares(&flows, Duration::from_secs(3));
        holds((shares[0] / 2.0 - 1.0).abs() < 0.1, &shares)
    });
    // What still waits in the hosts' sockets leaves unpaced once the pacer has ended.
    let status = lab.status();
    drop(flows);
    let ended = stop(run);
    assert!(ended.events.last().unwrap()["gap_packets"].as_u64().unwrap() > 1000, "{ended}");
    let path = &status["a_to_b"];
    assert!(path["gap_packets"].as_u64().unwrap() > 1000, "{status}");
    // Both classes together are slower than the bottleneck: evenly spaced, they never fill its
    // queue of ten frames.
    assert_eq!((&path["queue_drops_packets"], &path["line_drops_packets"]), (&0.into(), &0.into()), "{status}");
}

#[test]
fn whatever_ends_it_the_host_sends_as_before() {
    let Some(pair) = Pair::new() else { return };
    let site = Site::new();
    let (listener, port) = listener(&pair.far);
    let file = classes(&site, &[("slow", port, "rate = \"8mbit\"")]);
    let paced = pace(&site, &pair.near, &file, &[]);
    let flow = flow(&pair.near, &listener);
    assert!(flow.goes_on() && has_detour(&pair.near));
    paced.kill();
    assert!(eventually(|| !has_detour(&pair.near)), "the kernel takes the routes back");
    assert!(flow.goes_on(), "a connection survives");
    let again = pace(&site, &pair.near, &file, &[]);
    assert!(flow.goes_on() && has_detour(&pair.near), "and is paced again");
    // One device has one pacer.
    let words = ["--line-rate", "1gbit"];
    let second = pair.near.run(&wire(&site, &file, &words)).run().expect_code(1);
    assert!(second.stderr.contains("paced already"), "{second}");
    // The cable is pulled and plugged in again.
    pair.unplug();
    pair.plug();
    assert!(flow.goes_on());
    let ended = stop(again);
    assert!(told(&ended, "slow")["packets"].as_u64().unwrap() > 0, "{ended}");
    assert!(!has_detour(&pair.near) && flow.goes_on());
}

#[test]
fn routes_of_other_devices_that_went_before_still_do() {
    let Some(pair) = Pair::new() else { return };
    let site = Site::new();
    let ip = |words: &str| support::succeed(pair.near.command("ip").args(words.split(' ')));
    ip("link add uplink type veth peer name beyond");
    ip("link set uplink up");
    ip("link set beyond up");
    for (family, prefix) in [("-4", "198.51.100.0/24"), ("-6", "2001:db8:7::/48")] {
        ip(&format!("{family} route add {prefix} dev uplink metric 60"));
        ip(&format!("{family} route add {prefix} dev eth0 metric 100"));
    }
    let paced = pace(&site, &pair.near, &classes(&site, &[("one", 5000, "rate = \"8mbit\"")]), &["--mode", "timer"]);
    let by = |to: &str| ip(&format!("route get {to}"));
    assert!(by("198.51.100.1").contains("dev uplink"), "{}", by("198.51.100.1"));
    assert!(by("2001:db8:7::1").contains("dev uplink"), "{}", by("2001:db8:7::1"));
    ip("link del beyond");
    assert!(by("198.51.100.1").contains("dev pace"), "{}", by("198.51.100.1"));
    assert!(by("2001:db8:7::1").contains("dev pace"), "{}", by("2001:db8:7::1"));
    stop(paced);
    assert!(by("198.51.100.1").contains("dev eth0"), "{}", by("198.51.100.1"));
}

#[test]
fn what_belongs_to_routes_and_neighbours_goes_with_them() {
    let Some(pair) = Pair::new() else { return };
    let site = Site::new();
    let ip = |words: &str| support::succeed(pair.near.command("ip").args(words.split(' ')));
    ip("route add 203.0.113.0/24 via 10.77.0.2 dev eth0 src 10.77.0.1 metric 30 mtu 1400");
    // A next hop that is an object of its own belongs to its device.
    ip("nexthop add id 5 via 10.77.0.2 dev eth0");
    ip("route add 198.51.100.0/24 nhid 5");
    ip("-6 route add 2001:db8:9::/48 dev eth0 metric 256 pref high");
    ip("neighbour add 10.77.0.9 lladdr 02:00:00:00:00:09 dev eth0 nud permanent");
    let paced = pace(&site, &pair.near, &classes(&site, &[("one", 5000, "rate = \"8mbit\"")]), &["--mode", "timer"]);
    let shown = [ip("-4 route show"), ip("-6 route show"), ip("neighbour show nud permanent")].concat();
    let line = |start: &str| {
        let found = shown.lines().find(|line| line.starts_with(start) && line.contains("dev pace"));
        found.unwrap_or_else(|| panic!("{start} is not at the tap: {shown}")).to_owned()
    };
    for part in ["via 10.77.0.2", "src 10.77.0.1", "metric 29", "mtu 1400"] {
        assert!(line("203.0.113.0/24").contains(part), "{part}: {shown}");
    }
    assert!(line("198.51.100.0/24").contains("via 10.77.0.2"), "{shown}");
    assert!(line("2001:db8:9::/48").contains("metric 255") && line("2001:db8:9::/48").contains("pref high"), "{shown}");
    assert!(line("10.77.0.9").contains("lladdr 02:00:00:00:00:09"), "{shown}");
    assert!(
        !shown.lines().any(|line| line.starts_with("fe80") && line.contains("dev pace") && line.contains("metric 255"))
    );
    stop(paced);
}

#[test]
fn metrics_that_cannot_be_written_do_not_end_the_pacing() {
    let Some(pair) = Pair::new() else { return };
    let site = Site::new();
    let directory = site.path("metrics");
    let file = directory.join("icdc.prom");
    fs::create_dir(&directory).unwrap();
    let words = ["--mode", "timer", "--prometheus", file.to_str().unwrap()];
    let paced = pace(&site, &pair.near, &classes(&site, &[("one", 5000, "rate = \"8mbit\"")]), &words);
    assert!(eventually(|| file.exists()));
    fs::remove_dir_all(&directory).unwrap();
    assert!(paced.wait_for_words("icdc.prom"), "{}", paced.stderr());
    assert!(has_detour(&pair.near));
    fs::create_dir(&directory).unwrap();
    assert!(eventually(|| file.exists()));
    stop(paced);
}

#[test]
fn other_classes_cost_no_packet_and_keep_the_order() {
    let Some(pair) = Pair::new() else { return };
    let site = Site::new();
    let receiver = pair.far.inside(|| UdpSocket::bind((pair.far.address(), 0)).unwrap());
    // What waits for the test to read it is not to be lost there.
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&receiver, 64 << 20).unwrap();
    let to = receiver.local_addr().unwrap();
    let file = classes(&site, &[("numbers", to.port(), "rate = \"8mbit\"\nqueue = \"10MB\"")]);
    let run = pace(&site, &pair.near, &file, &[]);
    let sender = pair.near.inside(|| UdpSocket::bind((pair.near.address(), 0)).unwrap());
    // The kernel lets few packets wait until it knows its neighbour.
    sender.send_to(b"first", to).unwrap();
    receiver.recv(&mut [0; 16]).unwrap();
    // Two seconds' worth of the class.
    const COUNT: u32 = 2000;
    for number in 0..COUNT {
        sender.send_to(&support::lab::datagram(number, 958), to).unwrap();
    }
    for (count, rate) in ["16mbit", "4mbit", "32mbit"].iter().enumerate() {
        assert!(run.wait_for(|event| event["reloads"] == count), "{}", run.stderr());
        classes(&site, &[("numbers", to.port(), &format!("rate = \"{rate}\"\nqueue = \"20kB\""))]);
        run.signal(Signal::HUP);
    }
    // What cannot be read changes nothing.
    assert!(run.wait_for(|event| event["reloads"] == 3));
    write_classes(&site, "[[class]]\nname = 7\n");
    run.signal(Signal::HUP);
    assert!(run.wait_for_words("the classes stay as they are"));
    let numbers = support::lab::numbers(&receiver);
    assert_eq!(numbers, (0..COUNT).collect::<Vec<u32>>());
    let ended = stop(run);
    assert_eq!(told(&ended, "numbers")["packets"], COUNT + 1, "{ended}");
}

#[test]
fn what_hosts_leave_to_a_card_is_done() {
    let Some(pair) = Pair::new() else { return };
    if !support::has_program("ethtool") {
        return skip("ethtool is not there");
    }
    let site = Site::new();
    for (host, own) in [(&pair.near, "fd77::1/64"), (&pair.far, "fd77::2/64")] {
        // Checksums are then summed up, and looked at.
        support::succeed(host.command("ethtool").args(["-K", "eth0", "tx", "off"]));
        support::succeed(host.command("ip").args(["address", "add", own, "dev", "eth0", "nodad"]));
    }
    let listeners = ["10.77.0.2", "fd77::2"].map(|address| {
        let address: IpAddr = address.parse().unwrap();
        pair.far.inside(|| TcpListener::bind((address, 0)).unwrap())
    });
    let ports = listeners.each_ref().map(|listener| listener.local_addr().unwrap().port());
    let file = classes(&site, &[("four", ports[0], "rate = \"200mbit\""), ("six", ports[1], "rate = \"200mbit\"")]);
    let run = pace(&site, &pair.near, &file, &[]);
    let features =
        support::succeed(pair.near.command("sh").args(["-c", "ethtool -k $(ls /sys/class/net | grep pace)"]));
    assert!(features.contains("tcp-segmentation-offload: on"), "{features}");
    let bytes = Noise::logged("segments").bytes(4 << 20);
    for listener in &listeners {
        let to = listener.local_addr().unwrap();
        let sent = bytes.clone();
        let mut client = pair.near.inside(|| TcpStream::connect(to).unwrap());
        let sender = thread::spawn(move || client.write_all(&sent).unwrap());
        let mut received = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
        sender.join().unwrap();
        assert!(received == bytes, "{to}");
    }
    let ended = stop(run);
    for class in ["four", "six"] {
        // Frame by frame, and few twice.
        let packets = told(&ended, class)["packets"].as_u64().unwrap();
        assert!((2_800..4_500).contains(&packets), "{packets}: {ended}");
    }
}

#[test]
fn a_full_queue_is_the_affair_of_its_class() {
    let Some(pair) = Pair::new() else { return };
    let site = Site::new();
    let (listener, port) = listener(&pair.far);
    let file = classes(
        &site,
        &[("flood", 9, "rate = \"1mbit\"\nqueue = \"20kB\""), ("good", port, "rate = \"40mbit\"\nqueue = \"4MB\"")],
    );
    let metrics = site.path("metrics.prom");
    let run = pace(&site, &pair.near, &file, &["--prometheus", metrics.to_str().unwrap()]);
    let flow = flow(&pair.near, &listener);
    let sender = pair.near.inside(|| UdpSocket::bind((pair.near.address(), 0)).unwrap());
    let to: SocketAddr = (pair.far.address().parse::<IpAddr>().unwrap(), 9).into();
    for number in 0..400 {
        // Answers that nobody listens there are no matter.
        let _ = sender.send_to(&support::lab::datagram(number, 958), to);
        if number % 20 == 0 {
            thread::sleep(Duration::from_millis(5));
        }
    }
    assert!(flow.goes_on());
    let ended = stop(run);
    assert!(told(&ended, "flood")["dropped_packets"].as_u64().unwrap() > 100, "{ended}");
    let metrics = fs::read_to_string(metrics).unwrap();
    assert!(metrics.contains("# TYPE icdc_pace_dropped_packets_total counter"), "{metrics}");
    assert!(metrics.contains("icdc_pace_packets_total{device=\"eth0\",class=\"good\",parent=\"\"}"), "{metrics}");
    assert!(told(&ended, "good")["packets"].as_u64().unwrap() > 50, "{ended}");
}

#[test]
fn table_json_and_metrics_tell_the_same_of_every_class() {
    let Some(pair) = Pair::new() else { return };
    let site = Site::new();
    let (listener, port) = listener(&pair.far);
    let text = format!(
        "[[class]]\nname = \"site\"\nrate = \"50mbit\"\n\
         [[class]]\nname = \"bulk\"\nparent = \"site\"\nrate = \"40mbit\"\nfilter = [{{ ports = {port} }}]\n\
         [[class]]\nname = \"other\"\nparent = \"site\"\nrate = \"1mbit\"\nfilter = [{{ ports = 9 }}]\n"
    );
    let file = write_classes(&site, &text);
    let metrics = site.path("metrics.prom");
    let words = ["--prometheus", metrics.to_str().unwrap()];
    let run = pace(&site, &pair.near, &file, &words);
    let sender = pair.near.inside(|| UdpSocket::bind((pair.near.address(), 0)).unwrap());
    let to: SocketAddr = (pair.far.address().parse::<IpAddr>().unwrap(), 9).into();
    let flow = flow(&pair.near, &listener);
    let mut moved = 0;
    while moved < 5 {
        let _ = sender.send_to(&[0; 900], to);
        let before = run.events().len();
        assert!(eventually(|| run.events().len() > before), "{}", run.stderr());
        moved += u32::from(run.events().last().unwrap()["classes"][1]["achieved_bps"].as_u64() > Some(10_000_000));
    }
    drop(flow);
    let ended = stop(run);
    let looks: Vec<Value> = ended.all("classes").map(|look| look["classes"].clone()).collect();
    let number = |class: &Value, key: &str| class[key].as_u64().unwrap();
    for pair in looks.windows(2) {
        for (before, class) in pair[0].as_array().unwrap().iter().zip(pair[1].as_array().unwrap()) {
            let moved = number(class, "packets") - number(before, "packets");
            let burst = number(class, "burst_max_bytes");
            // What moved since has a burst, and nothing else has: no maximum of old stays.
            assert_eq!(burst > 0, moved > 0, "{class} after {before}");
            assert!(burst <= number(class, "wire_bytes") - number(before, "wire_bytes"), "{class} after {before}");
        }
        let [site, bulk, other] = [0, 1, 2].map(|index| &pair[1][index]);
        assert_eq!([&site["name"], &bulk["parent"], &other["parent"]], ["site"; 3], "{ended}");
        for key in ["packets", "wire_bytes", "dropped_packets", "waiting_bytes"] {
            assert_eq!(number(site, key), number(bulk, key) + number(other, key), "{key}: {ended}");
        }
    }
    // The last of the file is the last of the lines.
    let metrics = fs::read_to_string(metrics).unwrap();
    for class in looks.last().unwrap().as_array().unwrap() {
        let (name, parent) = (class["name"].as_str().unwrap(), class["parent"].as_str().unwrap_or_default());
        let labels = format!("{{device=\"eth0\",class=\"{name}\",parent=\"{parent}\"}}");
        for (metric, key) in [("burst_bytes", "burst_max_bytes"), ("wire_bytes_total", "wire_bytes")] {
            let line = format!("icdc_pace_{metric}{labels} {}\n", class[key]);
            assert!(metrics.contains(&line), "{line}: {metrics}");
        }
    }
}

#[test]
fn what_cannot_be_is_told() {
    let Some(pair) = Pair::new() else { return };
    let site = Site::new();
    let good = "[[class]]\nname = \"a\"\nrate = \"600mbit\"\n";
    let refuse = |text: &str, words: &[&str], code: i32, said: &str| {
        let file = write_classes(&site, text);
        let ended = pair.near.run(&wire(&site, &file, words)).run().expect_code(code);
        assert!(ended.stderr.contains(said), "{words:?}: {ended}");
        assert!(!has_detour(&pair.near), "{words:?}");
    };
    let line = ["--line-rate", "1gbit"];
    refuse(good, &[], 2, "give --line-rate");
    refuse(good, &[&line[..], &["--mode", "gap"]].concat(), 2, "use --mode timer");
    refuse(&(good.to_owned() + "[[class]]\nname = \"b\"\nrate = \"500mbit\"\n"), &line, 2, "sum to 1.1 Gbit/s");
    refuse(&good.replace("rate", "speed"), &line, 2, "unknown field");
    refuse("", &line, 2, "[[class]]");
    let words = ["pace", "wire", "--dev", "no-such-device", "--classes", "classes.toml", "--line-rate", "1gbit"];
    write_classes(&site, good);
    let missing = pair.near.run(&site.icdc(&words)).run().expect_code(1);
    assert!(missing.stderr.contains("no-such-device"), "{missing}");
    let words = ["pace", "wire", "--dev", "eth0", "--classes", "missing.toml", "--line-rate", "1gbit"];
    let missing = pair.near.run(&site.icdc(&words)).run().expect_code(2);
    assert!(missing.stderr.contains("missing.toml"), "{missing}");
    // Two classes that want the same are told, and the first has it.
    let overlapping = "[[class]]\nname = \"a\"\nfilter = [{ to = \"10.0.0.0/8\" }]\n\
        [[class]]\nname = \"b\"\nfilter = [{ to = \"10.77.0.0/16\" }]\n";
    let run = pace(&site, &pair.near, &write_classes(&site, overlapping), &[]);
    assert!(run.stderr().contains("classes a and b overlap"), "{}", run.stderr());
    stop(run);
}

#[test]
fn without_privilege_it_says_what_is_missing() {
    const NOBODY: u32 = 65534;
    if !is_root() {
        return skip("becoming another user needs root");
    }
    let site = Site::new();
    let program = site.icdc_for_anyone();
    let file = write_classes(&site, "[[class]]\nname = \"a\"\n");
    let Some(pair) = Pair::new() else { return };
    let mut command = pair.near.command("setpriv");
    let user = NOBODY.to_string();
    command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]).arg(&program);
    command.args(["pace", "wire", "--dev", "eth0", "--classes", &file, "--line-rate", "1gbit"]);
    let ended = site.settle(command).run().expect_code(3);
    assert!(ended.stderr.contains("need root"), "{ended}");
}
