//! Sends pieces to a collector by HTTP, as OTLP says: again and again while it is down or busy.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long a collector may be down.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(10);

/// The first pause between two attempts. Each is twice as long as the one before.
const PAUSE: Duration = Duration::from_millis(100);

/// The longest pause.
const LONGEST: Duration = Duration::from_secs(5);

/// The most bytes of an answer's head.
const HEAD: u64 = 1 << 16;

/// Where a collector listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collector {
    /// As it was given.
    pub url: String,
    host: String,
    port: u16,
    path: String,
}

/// The collector at a URL such as `http://localhost:4318`; the path is `/v1/traces` unless one is given.
///
/// # Errors
///
/// The text is no such URL.
pub fn parse_url(text: &str) -> Result<Collector, String> {
    let rest = text.strip_prefix("http://").ok_or_else(|| {
        if text.starts_with("https://") {
            "mcount doesn't speak https: send to a collector nearby, by http".to_owned()
        } else {
            "not a URL such as http://localhost:4318".to_owned()
        }
    })?;
    let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
    let path = if path.is_empty() { "/v1/traces".to_owned() } else { format!("/{path}") };
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            (host, port.parse().map_err(|_| format!("'{port}' isn't a port"))?)
        }
        // The port of OTLP by HTTP.
        _ => (place, 4318),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    if host.is_empty() || !is_plain(&host) || !is_plain(&path) {
        return Err("not a URL such as http://localhost:4318".to_owned());
    }
    Ok(Collector { url: text.to_owned(), host, port, path })
}

/// What a collector said.
enum Answer {
    Taken,
    /// It may take the same later.
    Busy(String, Option<Duration>),
    /// It won't.
    Refused(String),
}

impl Collector {
    /// Sends a piece, and waits until the collector has taken it.
    ///
    /// # Errors
    ///
    /// It refuses the piece, or is down for a minute.
    pub fn send(&self, piece: &[u8]) -> io::Result<()> {
        let (begin, mut pause) = (Instant::now(), PAUSE);
        loop {
            let (why, wanted) = match self.attempt(piece) {
                Ok(Answer::Taken) => return Ok(()),
                Ok(Answer::Refused(why)) => {
                    return Err(io::Error::other(format!("{}: {why}", self.url)));
                }
                Ok(Answer::Busy(why, wanted)) => (why, wanted),
                Err(error) => (error.to_string(), None),
            };
            let next = wanted.unwrap_or(pause).min(PATIENCE);
            if begin.elapsed() + next > PATIENCE {
                let seconds = PATIENCE.as_secs();
                let text = format!("{}: not taken within {seconds} s: {why}", self.url);
                return Err(io::Error::other(text));
            }
            std::thread::sleep(next);
            pause = (pause * 2).min(LONGEST);
        }
    }

    fn attempt(&self, piece: &[u8]) -> io::Result<Answer> {
        let mut stream = self.connect()?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.set_write_timeout(Some(ANSWER))?;
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: {host}:{}\r\nUser-Agent: mcount/{}\r\n\
             Content-Type: application/x-protobuf\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.path,
            self.port,
            env!("CARGO_PKG_VERSION"),
            piece.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(piece)?;
        answer(BufReader::new(stream.take(HEAD)))
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut failure = io::Error::other("the host has no address");
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, ANSWER) {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }
}

/// Reads the head of an answer.
fn answer(mut stream: impl BufRead) -> io::Result<Answer> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut words = line.split_whitespace();
    let version = words.next().unwrap_or_default();
    let code: u16 = words.next().and_then(|code| code.parse().ok()).unwrap_or(0);
    if !version.starts_with("HTTP/1.") || code == 0 {
        return Ok(Answer::Refused("the answer isn't HTTP/1.1".to_owned()));
    }
    let why =
        format!("the answer is {}", line.trim_end().split_once(' ').map_or("", |(_, rest)| rest));
    let mut wanted = None;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("retry-after")
        {
            wanted = value.trim().parse().ok().map(Duration::from_secs);
        }
    }
    Ok(match code {
        200..300 => Answer::Taken,
        429 | 502..=504 => Answer::Busy(why, wanted),
        _ => Answer::Refused(why),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_collectors() {
        let table = [
            ("http://localhost", "localhost", 4318, "/v1/traces"),
            ("http://localhost:80/", "localhost", 80, "/v1/traces"),
            ("http://[::1]:4000/x/y", "::1", 4000, "/x/y"),
            ("http://[::1]", "::1", 4318, "/v1/traces"),
        ];
        for (url, host, port, path) in table {
            let found = parse_url(url).unwrap();
            assert_eq!((found.host.as_str(), found.port, found.path.as_str()), (host, port, path));
        }
        let wrong = [
            "localhost",
            "https://localhost",
            "http://",
            "http://a:b",
            "http://a b",
            "http://a/\r\n",
        ];
        for url in wrong {
            assert!(parse_url(url).is_err(), "{url}");
        }
    }
}
