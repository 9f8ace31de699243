//! Places that are not there, and the ones that may be meant.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::anyhow;
use icdc_client::Location;

/// Refuses a local destination that reads like `USER@HOST` and does not exist: probably the colon
/// behind the host is missing.
pub(crate) fn refuse_forgotten_colon(destination: &Location) -> anyhow::Result<()> {
    let Location::Local(path) = destination else { return Ok(()) };
    match forgotten_colon(path) {
        Some(hint) => Err(anyhow!("{}: there is nothing of that name here; {hint}", path.display())),
        None => Ok(()),
    }
}

/// Hint at what to write in place of a local path that reads like `USER@HOST` and does not exist;
/// `None` for any other.
fn forgotten_colon(path: &Path) -> Option<String> {
    let text = path.to_str()?;
    let (host, rest) = text.split_once('/').map_or((text, ""), |(host, _)| (host, &text[host.len()..]));
    let (user, name) = host.rsplit_once('@')?;
    let reads_like_a_host = !user.is_empty() && !name.is_empty() && Path::new(host).symlink_metadata().is_err();
    reads_like_a_host.then(|| format!("for a place on a host write {host}:{rest}, for a local name ./{text}"))
}

/// Error for a local source that does not exist, with a hint at what may be meant.
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
