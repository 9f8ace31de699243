use super::*;
use crate::arguments;

fn translated(line: &str, is_root: bool) -> Result<Translation, String> {
    let words: Vec<OsString> = shell_words::split(line).unwrap().into_iter().map(OsString::from).collect();
    // As if only names that begin with `d` were directories.
    let is_directory = |path: &std::path::Path| path.to_str().is_some_and(|path| path.starts_with('d'));
    translate(&words, &Surroundings { is_root, shell: None, is_directory })
}

/// The command line, and what is said to differ.
fn shown(line: &str, is_root: bool) -> (String, String) {
    let translation = translated(line, is_root).unwrap_or_else(|error| panic!("{line}: {error}"));
    let whole = [vec!["icdc".into()], translation.words.clone()].concat();
    let parsed = arguments::parse_from(whole);
    assert!(parsed.is_ok(), "{line}: {}", parsed.err().unwrap());
    let words: Vec<String> = translation.words.iter().map(|word| shell::quoted(word)).collect();
    (words.join(" "), translation.differences.join("; "))
}

#[test]
fn usual_command_lines() {
    for (line, expected) in [
        ("-a src/ dst", "sync ARCHIVE src/ dst"),
        ("-av src/ dst", "sync ARCHIVE --verbose src/ dst"),
        ("-aP d1 host:dst/", "sync ARCHIVE --progress always d1 host:dst/"),
        ("-rlpt src/ dst", "sync src/ dst"),
        ("-rt --no-t -t -l -p src/ dst", "sync src/ dst"),
        ("-aHS --numeric-ids --partial --stats -h src/ dst", "sync ARCHIVE src/ dst"),
        ("-aX -A src/ dst", "sync --preserve mode,times,links,xattr,acl,specials,sparse src/ dst"),
        ("-a --delete --exclude=x src/ host:dst/", "sync ARCHIVE --delete --exclude x src/ host:dst/"),
        ("-a --delete-after --max-delete=7 src/ dst", "sync ARCHIVE --delete --max-delete 7 src/ dst"),
        ("-a --link-dest=../old --link-dest /far src/ dst", "sync ARCHIVE --link-dest old --link-dest /far src/ dst"),
        ("-ab src/ dst", "sync ARCHIVE --suffix '~' src/ dst"),
        ("-a --backup --suffix=.old src/ dst", "sync ARCHIVE --suffix .old src/ dst"),
        ("-a --suffix=.old src/ dst", "sync ARCHIVE src/ dst"),
        ("-a --backup-dir=../old --delete src/ dst", "sync ARCHIVE --backup-dir old --delete src/ dst"),
        ("-ab --backup-dir /old --suffix=.1 src/ h:dst", "sync ARCHIVE --backup-dir /old --suffix .1 src/ h:dst"),
        ("-a --delete-excluded --yes src/ dst", "sync ARCHIVE --yes --delete --delete-excluded src/ dst"),
        ("-a --delete --max-delete -1 src/ dst", "sync ARCHIVE --delete src/ dst"),
        ("-a --max-delete=7 src/ dst", "sync ARCHIVE src/ dst"),
        ("-e 'ssh -p 2222' -a src/ host:dst", "sync ARCHIVE --ssh 'ssh -p 2222' src/ host:dst"),
        ("-ae 'ssh -p 2222' src/ host:dst", "sync ARCHIVE --ssh 'ssh -p 2222' src/ host:dst"),
        ("-aessh src/ host:dst", "sync ARCHIVE src/ host:dst"),
        ("-a --rsh='ssh -o \"A B\"' src/ host:dst", "sync ARCHIVE --ssh 'ssh -o '\\''A B'\\''' src/ host:dst"),
        ("-a -e 'ssh -p 2222' src/ dst", "sync ARCHIVE src/ dst"),
        ("-aq --progress -v src/ dst", "sync ARCHIVE --quiet src/ dst"),
        ("-anu src/ dst", "sync ARCHIVE --dry-run --update src/ dst"),
        ("-a --no-u -u --no-u src/ dst", "sync ARCHIVE src/ dst"),
        ("-ac src/ dst", "sync ARCHIVE --checksum src/ dst"),
        ("-aK src/ dst", "sync ARCHIVE --keep-dirlinks src/ dst"),
        ("-a --inplace src/ dst", "sync ARCHIVE --in-place src/ dst"),
        ("-aK --dirlinks-into=/x src/ dst", "sync ARCHIVE --keep-dirlinks --dirlinks-into /x src/ dst"),
        ("-a --size-only --ignore-existing src/ dst", "sync ARCHIVE --size-only --ignore-existing src/ dst"),
        ("-a --ignore-non-existing src/ dst", "sync ARCHIVE --existing src/ dst"),
        ("-ax --mkpath src/ dst/x", "sync ARCHIVE --one-file-system --mkpath src/ dst/x"),
        ("-a4 src/ host:", "sync ARCHIVE -4 src/ host:"),
        ("-a --bwlimit=1m src/ dst", "sync ARCHIVE --rate 1MiB/s src/ dst"),
        ("-a --bwlimit=500 src/ dst", "sync ARCHIVE --rate 500KiB/s src/ dst"),
        ("-a --bwlimit 0 src/ dst", "sync ARCHIVE src/ dst"),
        ("-a --max-size=1.5m --min-size 1 src/ dst", "sync ARCHIVE --max-size 1572864B --min-size 1B src/ dst"),
        ("-a --timeout=30 src/ h:dst", "sync ARCHIVE --retry-for 30s src/ h:dst"),
        ("-a --info=progress2,stats1 src/ dst", "sync ARCHIVE --progress always src/ dst"),
        ("-a --info=name0 --debug all src/ dst", "sync ARCHIVE src/ dst"),
        (
            "-a -f '- *.o' -f'+ *.c' -f 'merge rules' src/ dst",
            "sync ARCHIVE '--filter=- *.o' --filter '+ *.c' --filter-from rules src/ dst",
        ),
        (
            "-a --include='*/' --exclude '*' --exclude=-x src/ dst",
            "sync ARCHIVE --include '*/' --exclude '*' '--exclude=-x' src/ dst",
        ),
        (
            "-a --exclude-from no --include-from=yes src/ dst",
            "sync ARCHIVE --exclude-from no --include-from yes src/ dst",
        ),
        ("-a -- -x dst", "sync ARCHIVE -- -x dst"),
        ("src/ -a dst", "sync ARCHIVE src/ dst"),
        ("-tpl file dst", "sync file dst"),
        ("-a h:a :b dst", "sync ARCHIVE h:a h:b dst"),
        ("-a 'u@[::1]:a' ':b' dst", "sync ARCHIVE 'u@[::1]:a' 'u@[::1]:b' dst"),
        ("-a one/ two/ dst", "sync ARCHIVE two/ one/ dst"),
        ("-a x/a y/a z dst", "sync ARCHIVE z y/a x/a dst"),
        ("-a a b c dst", "sync ARCHIVE a b c dst"),
        ("-a --remote-icdc /opt/icdc src/ h:dst", "sync ARCHIVE --remote-icdc /opt/icdc src/ h:dst"),
    ] {
        let expected = expected.replace("ARCHIVE", "--preserve mode,times,links,specials,sparse");
        assert_eq!(shown(line, false).0, expected, "{line}");
    }
}

#[test]
fn what_differs_is_said() {
    for (line, is_root, command, said) in [
        ("-rlpt src/ dst", false, "sync src/ dst", ""),
        ("-a src/ dst", true, "sync --preserve mode,times,links,owner,specials,sparse src/ dst", ""),
        (
            "-a --numeric-ids src/ h:dst",
            true,
            "sync --preserve mode,times,links,owner,specials,sparse --numeric-ids src/ h:dst",
            "",
        ),
        ("-a --numeric-ids src/ dst", true, "sync --preserve mode,times,links,owner,specials,sparse src/ dst", ""),
        (
            "-rlptA --numeric-ids src/ h:dst",
            false,
            "sync --preserve mode,times,links,acl,sparse --numeric-ids src/ h:dst",
            "",
        ),
        (
            "-a --usermap=a:b --groupmap='*:c' src/ h:dst",
            true,
            "sync --preserve mode,times,links,owner,specials,sparse --usermap a:b --groupmap '*:c' src/ h:dst",
            "",
        ),
        (
            "-a --chown=anna:staff src/ dst",
            true,
            "sync --preserve mode,times,links,owner,specials,sparse --usermap '*:anna' --groupmap '*:staff' src/ dst",
            "",
        ),
        (
            "-a --chown=:7 src/ dst",
            true,
            "sync --preserve mode,times,links,owner,specials,sparse --groupmap '*:7' src/ dst",
            "",
        ),
        ("-a src/ h:dst", true, "sync --preserve mode,times,links,owner,specials,sparse src/ h:dst", ""),
        ("-a src/ root@h:dst", false, "sync --preserve mode,times,links,owner,specials,sparse src/ root@h:dst", ""),
        (
            "-a src/ anna@h:dst",
            true,
            "sync --preserve mode,times,links,specials,sparse src/ anna@h:dst",
            "who receives",
        ),
        (
            "-a src/ icdc://h/dst",
            true,
            "sync --preserve mode,times,links,specials,sparse src/ icdc://h/dst",
            "who receives",
        ),
        ("-a src/ dst", false, "sync --preserve mode,times,links,specials,sparse src/ dst", "who receives"),
        ("-r src/ dst", false, "sync --preserve mode,sparse src/ dst", "without -t"),
        ("-rt src/ dst", false, "sync --preserve mode,times,sparse src/ dst", "without -p"),
        ("-rlptz src/ dst", false, "sync '--compress=auto' src/ dst", "-z: data is compressed by zstd"),
        ("-rlptz --no-z src/ dst", false, "sync src/ dst", ""),
        ("-rlpt --delete-before src/ dst", false, "sync --delete src/ dst", "--delete-before: deletes last"),
        (
            "-rlpt --delete-excluded src/ dst",
            false,
            "sync --delete --delete-excluded src/ dst",
            "--delete-excluded: on a terminal",
        ),
        ("-rlpti src/ dst", false, "sync --verbose src/ dst", "-i: each item is named"),
        (
            "-rlpt --delete --max-delete=1 src/ dst",
            false,
            "sync --delete --max-delete 1 src/ dst",
            "not even the first",
        ),
        ("-rlptD src/ dst", false, "sync --preserve mode,times,links,specials,sparse src/ dst", ""),
        ("-rlpt --devices src/ dst", false, "sync --preserve mode,times,links,specials,sparse src/ dst", "as with -D"),
        ("-a --no-D --no-o --no-g src/ dst", false, "sync src/ dst", ""),
        ("-rlptX src/ dst", false, "sync --preserve mode,times,links,xattr,sparse src/ dst", ""),
        ("-rltA src/ dst", false, "sync --preserve mode,times,links,acl,sparse src/ dst", ""),
        ("-rlpt --chmod=D755,F644 src/ dst", false, "sync --chmod D755,F644 src/ dst", ""),
    ] {
        let (translated, differences) = shown(line, is_root);
        assert_eq!(translated, command, "{line}");
        assert!(differences.contains(said) && differences.is_empty() == said.is_empty(), "{line}: {differences}");
    }
}

#[test]
fn what_cannot_be_translated_is_refused_with_a_sentence() {
    for (line, is_root, said) in [
        ("d1 dst", false, "d1: rsync skips directories"),
        ("src/ dst", false, "src/: rsync skips directories"),
        ("-t h:x dst", false, "h:x: rsync skips directories"),
        ("-a --no-r src/ dst", false, "rsync skips directories"),
        ("--delete file dst", false, "--delete: rsync deletes with -r or -a only"),
        ("-rH src/ dst", false, "-H: icdc keeps hard links together"),
        ("-rtpo src/ dst", true, "-o and -g"),
        ("-a --no-g src/ dst", true, "-o and -g"),
        ("-a --usermap=a:b src/ dst", false, "--usermap: only root can set owners"),
        ("-a --chown=a --usermap=a:b src/ dst", true, "--usermap: --usermap is given already"),
        ("-rlpt --chown=a src/ dst", true, "-o and -g"),
        ("-a --append src/ dst", false, "--append: there is none"),
        ("-aR src/ dst", false, "-R: there is none"),
        ("-aI src/ dst", false, "-I: write icdc copy"),
        ("-aC src/ dst", false, "-C: there is none"),
        ("-aF src/ dst", false, "-F: there are no files of rules"),
        ("-aL src/ dst", false, "-L: links are copied as links"),
        ("-axx src/ dst", false, "-x: given twice"),
        ("-a --ignore-errors src/ dst", false, "--ignore-errors: there is none"),
        ("-a --rsync-path='sudo rsync' src/ h:", false, "--rsync-path: write --remote-icdc"),
        ("-a --backup-dir=old src/ dst", false, "--backup-dir=old: lies in the destination"),
        ("-a --no-such src/ dst", false, "--no-such: icdc rsync does not take it"),
        ("-a --archives src/ dst", false, "--archives: icdc rsync does not take it"),
        ("-aé src/ dst", false, "icdc rsync does not take it"),
        ("-a --archive=yes src/ dst", false, "--archive: it takes no value"),
        ("-a src/ dst --exclude", false, "--exclude: its value is missing"),
        ("-ae", false, "-e: its value is missing"),
        ("-a --bwlimit=fast src/ dst", false, "--bwlimit=fast: it is not a rate"),
        ("-a --max-size=1x src/ dst", false, "--max-size=1x: it is not a size"),
        ("-a --max-delete=many src/ dst", false, "--max-delete=many: it is not a number"),
        ("-a --modify-window=2 src/ dst", false, "--modify-window=2: times are compared"),
        ("-a -e \"ssh 'x\" src/ h:dst", false, "is not closed"),
        ("-a", false, "name what to copy"),
        ("-a h:src", false, "h:src: rsync lists"),
        ("-a src/ h::module/x", false, "h::module/x: two colons"),
        ("-a rsync://h/module/ dst", false, "rsync://h/module/: this is a daemon of rsync"),
        ("--daemon", false, "--daemon: that is for rsync's daemon"),
        ("--server --sender -logDtpr . x", false, "--server: that is for rsync's daemon"),
        ("-a --version a b", false, "--version: icdc --version"),
    ] {
        let error = translated(line, is_root).expect_err(line);
        assert!(error.contains(said) && !error.contains('\n'), "{line}: {error}");
    }
}

#[test]
fn the_environment_names_the_remote_shell_unless_the_command_line_does() {
    let surroundings =
        Surroundings { is_root: false, shell: Some("ssh -p 7".into()), is_directory: std::path::Path::is_dir };
    let words = |line: &str| -> Vec<OsString> { line.split(' ').map(Into::into).collect() };
    let ssh = |line: &str| translate(&words(line), &surroundings).unwrap().words;
    let expected = ["sync", "--ssh", "ssh -p 7", "s/", "h:"].map(OsString::from);
    assert_eq!(ssh("-rlpt s/ h:"), expected);
    assert_eq!(ssh("-rlpt -e ssh s/ h:"), words("sync s/ h:"));
    assert_eq!(ssh("-rlpt s/ d"), words("sync s/ d"));
}
