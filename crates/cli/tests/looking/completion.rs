//! Completion of paths on other hosts, by real shells at a terminal.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use crate::scene::{Reach, Scene};
use crate::support::process::eventually;
use crate::support::terminal::Terminal;
use crate::support::{ICDC, Start, has_program, skip, succeed};

/// A shell that has read its completions, in which `icdc` writes its arguments to the file `out`.
const SHELLS: [(&str, &[&str], &str); 3] = [
    (
        "bash",
        &["--norc", "--noprofile", "-i"],
        "source completions\nicdc() { printf '[%s]' \"$@\" >part && mv part out; }\necho re''ady\n",
    ),
    (
        "zsh",
        &["-f", "-i"],
        "autoload -U compinit; compinit -u -D; source ./completions\nicdc() { printf '[%s]' \"$@\" >part && mv part out; }\necho re''ady\n",
    ),
    (
        "fish",
        &["--no-config", "-i"],
        "source completions\nfunction icdc; printf '[%s]' $argv >part; and mv part out; end\necho re''ady\n",
    ),
];

const NAMES: [&str; 9] = [
    "my file",
    "dollar$(touch pwned)",
    "tick`touch pwned`",
    "quote'\"s",
    "semi;touch pwned",
    "glob*[x]",
    "esc\x1b[2Jape",
    "new\nline",
    ".icdc-0123456789abcdef.part",
];

fn scene() -> Scene {
    let scene = Scene::new();
    let top = scene.site.directory("tree");
    NAMES.iter().for_each(|name| fs::write(top.join(name), "").unwrap());
    fs::write(top.join(OsStr::from_bytes(b"raw\xff")), "").unwrap();
    fs::write(scene.site.directory("tree/some dir").join("inner"), "").unwrap();
    scene
}

/// Lets a command find the program, and settings by which it reaches hosts.
fn settle<'a>(scene: &Scene, command: &'a mut Command) -> &'a mut Command {
    let programs = Path::new(ICDC).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let settings = scene.path("settings.toml");
    fs::write(&settings, format!("ssh = '{}'\nremote-icdc = '{ICDC}'\n", scene.site.ssh())).unwrap();
    command.env("PATH", path).env("ICDC_CONFIG", settings).env("LC_ALL", "C.UTF-8")
}

/// Arguments that a command line has after a Tab, as the shell gives them to `icdc`.
fn completed(scene: &Scene, shell: (&str, &[&str], &str), line: &str) -> String {
    let (program, words, begin) = shell;
    let script = succeed(Command::new(ICDC).args(["completions", program]));
    fs::write(scene.path("completions"), script).unwrap();
    let _ = fs::remove_file(scene.path("out"));
    // A shell controls its terminal.
    let mut command = scene.site.settle(Command::new("setsid"));
    command.args(["--ctty", "--wait", program]).args(words);
    let mut terminal = Terminal::start(settle(scene, &mut command));
    terminal.write(begin);
    terminal.wait_for("ready");
    terminal.write(&format!("{line}\t\n"));
    assert!(eventually(|| scene.path("out").exists()), "{program}: {line}: {}", terminal.screen());
    assert!(!scene.path("pwned").exists(), "{program}: {line}: what is listed is evaluated");
    assert!(!terminal.screen().contains("\x1b[2Jape"), "{program}: a name reached the terminal");
    fs::read_to_string(scene.path("out")).unwrap()
}

#[test]
fn shells_complete_names_on_other_hosts() {
    let scene = scene();
    for shell in SHELLS {
        if !has_program(shell.0) {
            skip(&format!("there is no {}", shell.0));
            continue;
        }
        for reach in [Reach::Ssh, Reach::Daemon] {
            let place = |name: &str| scene.place(reach, &format!("tree/{name}")).into_string().unwrap();
            let named = |name: &str| format!("[ls][{}]", place(name));
            for name in NAMES.iter().take(6) {
                let begun = &name[..2];
                let found = completed(&scene, shell, &format!("icdc ls {}", place(begun)));
                assert_eq!(found, named(name), "{} {reach:?}", shell.0);
            }
            // A directory, and from there on, after a blank that is quoted.
            let found = completed(&scene, shell, &format!("icdc ls {}", place("som")));
            assert_eq!(found, named("some dir/"), "{} {reach:?}", shell.0);
            let found = completed(&scene, shell, &format!("icdc ls {}", place("some\\ dir/in")));
            assert_eq!(found, named("some dir/inner"), "{} {reach:?}", shell.0);
            // What could steer the terminal, or is icdc's own, is not offered.
            for begun in ["esc", "new", ".icdc", "none"] {
                let found = completed(&scene, shell, &format!("icdc ls {}", place(begun)));
                assert_eq!(found, named(begun), "{} {reach:?}", shell.0);
            }
        }
    }
}

#[test]
fn what_is_in_quotes_stays_there() {
    let scene = scene();
    for shell in SHELLS.iter().filter(|shell| has_program(shell.0)) {
        let place = |name: &str| scene.place(Reach::Ssh, &format!("tree/{name}")).into_string().unwrap();
        for quote in ["'", "\""] {
            let found = completed(&scene, *shell, &format!("icdc ls {quote}{}", place("my")));
            assert_eq!(found, format!("[ls][{}]", place("my file")), "{} {quote}", shell.0);
        }
    }
}

#[test]
fn nothing_is_asked_and_no_host_is_trusted() {
    let scene = scene();
    let words = |place: &OsStr| {
        let mut command = scene.site.icdc(&["ls", "--complete", "--"]);
        let output = settle(&scene, command.arg(place)).output().unwrap();
        assert!(output.stderr.is_empty() && output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let all = words(&scene.place(Reach::Daemon, "tree/"));
    assert_eq!(all.lines().count(), 7, "{all}");
    let known = scene.path("home/.config/icdc/known_hosts");
    fs::write(&known, "").unwrap();
    assert_eq!(words(&scene.place(Reach::Daemon, "tree/")), "");
    assert_eq!(fs::read_to_string(&known).unwrap(), "", "the daemon is not known by that");
    for place in ["tree/", "my", "no host:", "rsync://h/x", "127.0.0.1:nowhere/", ""] {
        assert_eq!(words(OsStr::new(place)), "", "{place}");
    }
    // One that hangs is given up.
    let asleep = scene.site.program("asleep", "exec sleep 600");
    let mut command = scene.site.icdc(&["ls", "--complete", "--ssh", &asleep, "--", "127.0.0.1:x"]);
    let ended = command.run().expect_code(0);
    assert!(ended.text.is_empty() && ended.stderr.is_empty(), "{ended}");
}
