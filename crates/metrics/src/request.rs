//! A request for metrics, and the head of its answer (HTTP/1.1, sans-I/O).

use crate::Format;

/// Maximum length of a request's head, in bytes.
pub(crate) const MAX_HEAD: usize = 8 << 10;

/// A request of an HTTP client, sorted by the answer that it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// A request for the metrics, with or without (`HEAD`) their text in the answer.
    Metrics { format: Format, is_head: bool },
    /// A request for another path.
    OtherPath,
    /// A request by a method other than GET or HEAD.
    OtherMethod,
    /// Not a request of HTTP/1, or one longer than [`MAX_HEAD`].
    Invalid,
}

impl Request {
    /// Parses what was read of a request; `None` while its head is incomplete and may grow.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            return (bytes.len() >= MAX_HEAD).then_some(Self::Invalid);
        };
        Some(Self::of_head(&bytes[..end]).unwrap_or(Self::Invalid))
    }

    /// Sorts a request by its head, without the empty line at the end; `None` if that is not
    /// HTTP/1.
    fn of_head(head: &[u8]) -> Option<Self> {
        let head = str::from_utf8(head).ok()?;
        let mut lines = head.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if !version.starts_with("HTTP/1.") || words.next().is_some() {
            return None;
        }
        let is_head = method == "HEAD";
        if method != "GET" && !is_head {
            return Some(Self::OtherMethod);
        }
        let path = target.split_once('?').map_or(target, |(path, _)| path);
        if path != "/metrics" {
            return Some(Self::OtherPath);
        }
        let accept =
            lines.filter_map(|line| line.split_once(':')).find(|(name, _)| name.eq_ignore_ascii_case("accept"));
        Some(Self::Metrics { format: Format::accepted(accept.map_or("", |(_, value)| value)), is_head })
    }

    /// Encodes the whole answer, head and body; `metrics` returns the text of the metrics in a
    /// format.
    pub(crate) fn answer(self, metrics: impl Fn(Format) -> String) -> Vec<u8> {
        const PLAIN: &str = "text/plain; charset=utf-8";
        let (status, content_type, body, is_head) = match self {
            Self::Metrics { format, is_head } => ("200 OK", format.content_type(), metrics(format), is_head),
            Self::OtherPath => ("404 Not Found", PLAIN, "metrics are at /metrics\n".to_owned(), false),
            Self::OtherMethod => (
                "405 Method Not Allowed\r\nAllow: GET, HEAD",
                PLAIN,
                "only GET and HEAD are answered\n".to_owned(),
                false,
            ),
            Self::Invalid => ("400 Bad Request", PLAIN, "not a request of HTTP/1.1\n".to_owned(), false),
        };
        let length = body.len();
        let shown = if is_head { "" } else { &body };
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{shown}"
        )
        .into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_once_their_head_is_whole() {
        let metrics = |format, is_head| Some(Request::Metrics { format, is_head });
        for (text, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", metrics(Format::Classic, false)),
            ("HEAD /metrics?a=b HTTP/1.0\r\n\r\n", metrics(Format::Classic, true)),
            (
                "GET /metrics HTTP/1.1\r\naccept: application/openmetrics-text;version=1.0.0\r\n\r\n",
                metrics(Format::OpenMetrics, false),
            ),
            ("GET / HTTP/1.1\r\n\r\n", Some(Request::OtherPath)),
            ("GET /metrics/x HTTP/1.1\r\n\r\n", Some(Request::OtherPath)),
            ("POST /metrics HTTP/1.1\r\n\r\n", Some(Request::OtherMethod)),
            ("GET /metrics\r\n\r\n", Some(Request::Invalid)),
            ("GET /metrics HTTP/2\r\n\r\n", Some(Request::Invalid)),
            ("\r\n\r\n", Some(Request::Invalid)),
            ("GET /metrics HTTP/1.1\r\n", None),
            ("", None),
        ] {
            assert_eq!(Request::parse(text.as_bytes()), expected, "{text:?}");
        }
        assert_eq!(Request::parse(&[0xff; 10]), None);
        assert_eq!(Request::parse(&[b'x'; MAX_HEAD]), Some(Request::Invalid));
        assert_eq!(Request::parse(b"\xff\xfe\r\n\r\n"), Some(Request::Invalid));
    }

    #[test]
    fn the_length_told_is_that_of_the_text() {
        let answer = |request: &str| {
            let request = Request::parse(request.as_bytes()).unwrap();
            String::from_utf8(request.answer(|_| "icdc_x 1\n".to_owned())).unwrap()
        };
        let whole = answer("GET /metrics HTTP/1.1\r\n\r\n");
        assert!(whole.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4;"), "{whole}");
        assert!(whole.ends_with("Content-Length: 9\r\nConnection: close\r\n\r\nicdc_x 1\n"), "{whole}");
        assert!(answer("HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("Content-Length: 9\r\nConnection: close\r\n\r\n"));
        assert!(answer("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    }
}
