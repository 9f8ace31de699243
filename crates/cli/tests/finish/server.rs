//! A web server that takes what is posted, and answers as it is told.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Posted {
    pub(crate) line: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// Runs as long as the test program.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    posted: Arc<Mutex<Vec<Posted>>>,
}

/// Answers a request over its connection.
pub(crate) type Answer = fn(number: usize, stream: &mut dyn Write);

impl Server {
    pub(crate) fn start(answer: Answer) -> Self {
        Self::wrapped(answer, Some)
    }

    /// Whose connections are wrapped in something first, such as TLS; `None` for one that is not.
    pub(crate) fn wrapped<S: Read + Write>(
        answer: Answer,
        wrap: impl Fn(TcpStream) -> Option<S> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let server = Self { address: listener.local_addr().unwrap(), posted: Arc::default() };
        let posted = Arc::clone(&server.posted);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Some(stream) = wrap(stream.unwrap()) else { continue };
                let mut stream = BufReader::new(stream);
                let Some(request) = read(&mut stream) else { continue };
                let number = {
                    let mut posted = posted.lock().unwrap();
                    posted.push(request);
                    posted.len()
                };
                answer(number, stream.get_mut());
            }
        });
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook?token=SECRET", self.address)
    }

    pub(crate) fn posted(&self) -> Vec<Posted> {
        self.posted.lock().unwrap().clone()
    }
}

/// An answer without a body.
pub(crate) fn status(stream: &mut dyn Write, status: &str) {
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    // Whoever does not wait for it has another reason to fail.
    let _ = stream.write_all(answer.as_bytes()).and_then(|()| stream.flush());
}

fn read(stream: &mut impl BufRead) -> Option<Posted> {
    let mut text = String::new();
    stream.read_line(&mut text).ok().filter(|length| *length > 0)?;
    let (line, mut headers) = (text.trim_end().to_owned(), BTreeMap::new());
    loop {
        text.clear();
        stream.read_line(&mut text).ok()?;
        let Some((name, value)) = text.trim_end().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    stream.read_exact(&mut body).ok()?;
    Some(Posted { line, headers, body: String::from_utf8(body).ok()? })
}
