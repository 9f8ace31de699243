use icdc_cc::native::Connection;
use icdc_cc::{ParameterError, all, find};

use crate::path::Path;

#[test]
fn every_parameter_starts_within_its_range_and_tells_what_it_is() {
    for algorithm in all() {
        for parameter in algorithm.parameters() {
            let what = format!("{} {}", algorithm.name, parameter.name);
            assert!((parameter.lowest..=parameter.highest).contains(&parameter.initial), "{what}");
            assert!(parameter.lowest < parameter.highest && !parameter.help.is_empty(), "{what}");
        }
    }
}

#[test]
fn parameters_stand_in_the_order_of_the_file() {
    let names: Vec<_> = find("highspeed").expect("highspeed").parameters().iter().map(|p| p.name).collect();
    assert_eq!(names, ["per_ack", "low_window", "high_window", "high_loss_interval", "high_decrease"]);
}

#[test]
fn unknown_names_and_values_out_of_range_are_refused() {
    let bic = find("icdc_bic").expect("the kernel's name finds it too");
    let error = Connection::new(bic, &[("speed", 1)]).err().expect("unknown");
    assert_eq!(
        error.to_string(),
        "bic has no parameter speed; it has: ack_ratio, low_window, max_increment, smooth_part, beta, fast_convergence"
    );
    for value in [511, 1024, -1, i64::MAX] {
        let error = Connection::new(bic, &[("beta", value)]).err().expect("out of range");
        assert_eq!(
            error,
            ParameterError::OutOfRange { algorithm: "bic", name: "beta", value, lowest: 512, highest: 1023 }
        );
    }
    let error = Connection::new(find("reno").expect("reno"), &[("beta", 1)]).err().expect("none");
    assert_eq!(error.to_string(), "reno has no parameter beta; it has: none");
}

#[test]
fn values_belong_to_the_connection() {
    let mut slow = Path::new("scalable", &[("increase", 5)], 1000);
    let mut fast = Path::new("scalable", &[("increase", 50)], 1000);
    for _ in 0..100 {
        slow.acknowledge(10);
        fast.acknowledge(10);
    }
    assert_eq!((slow.window(), fast.window()), (1004, 1049));
    let other = std::thread::spawn(|| {
        let mut path = Path::new("scalable", &[], 1000);
        path.acknowledge(1000);
        path.window()
    });
    slow.acknowledge(1000);
    assert_eq!((slow.window(), other.join().expect("no panic")), (1009, 1009));
}

#[test]
fn kernel_names_fit() {
    for algorithm in all() {
        let name = algorithm.kernel_name();
        assert!(name.len() <= 15, "{name}");
        assert!(find(&name).is_some_and(|found| found.name == algorithm.name), "{name}");
    }
}

#[test]
fn objects_are_ebpf_or_say_why_not() {
    for algorithm in all() {
        for object in [algorithm.object(), algorithm.traced_object()] {
            match object {
                // ELF, class 64, machine 247: eBPF.
                Ok(object) => {
                    assert_eq!((&object[..5], object[18..20].contains(&247)), (&b"\x7fELF\x02"[..], true));
                    assert_eq!(object.as_ptr().addr() % 8, 0, "{}", algorithm.name);
                }
                Err(reason) if matches!(algorithm.name, "reno" | "cubic" | "bbr") => {
                    assert!(reason.starts_with("the kernel has it"), "{reason}");
                }
                Err(reason) => println!("skipped: {} in the kernel: {reason}", algorithm.name),
            }
        }
    }
}
