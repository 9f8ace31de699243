//! Places that are not there, and the ones that may be meant.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::anyhow;
use icdc_client::Location;

/// `alice@host` is a name like any other, but hardly one that somebody wants for a new file.
pub(crate) fn refuse_forgotten_colon(destination: &Location) -> anyhow::Result<()> {
    let Location::Local(path) = destination else { return Ok(()) };
    match forgotten_colon(path) {
        Some(hint) => Err(anyhow!("{}: there is nothing of that name here; {hint}", path.display())),
        None => Ok(()),
    }
}

/// The path to write in place of one that reads like a host and is not there.
fn forgotten_colon(path: &Path) -> Option<String> {
    let text = path.to_str()?;
    let (host, rest) = text.split_once('/').map_or((text, ""), |(host, _)| (host, &text[host.len()..]));
    let (user, name) = host.rsplit_once('@')?;
    let reads_like_a_host = !user.is_empty() && !name.is_empty() && Path::new(host).symlink_metadata().is_err();
    reads_like_a_host.then(|| format!("for a place on a host write {host}:{rest}, for a local name ./{text}"))
}

pub(super) fn missing_source(text: &OsStr) -> String {
    let shown = text.to_string_lossy();
    let hint = match forgotten_colon(Path::new(text)) {
        Some(hint) => format!("; {hint}"),
        None if shown.contains(['*', '?', '[']) => {
            "; patterns are for the shell to expand: leave the quotes out, or name the directory and choose by --include and --exclude"
                .into()
        }
        None => String::new(),
    };
    format!("{shown}: nothing was copied, this source cannot be found{hint}")
}
