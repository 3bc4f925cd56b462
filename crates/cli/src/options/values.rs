//! Parsers for values on the command line, with errors that say what to write instead.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use inhaul_mover::{Algorithm, DEFAULT_PORT, Server};

use crate::wrong::Wrong;

/// Every address of this host, IPv4 and IPv6, at the default port.
pub(crate) fn any_address() -> SocketAddr {
    any_address_at(DEFAULT_PORT)
}

fn any_address_at(port: u16) -> SocketAddr {
    SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port)
}

/// An address and a port to listen on. For a port alone, or an address alone, the error names the missing part.
pub(crate) fn listen_address(text: &str) -> Result<SocketAddr, Wrong> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Some(address) = in_zone(text) {
        return address.map_err(Wrong::new);
    }
    let port = text.strip_prefix("*:").or(text.strip_prefix(':')).unwrap_or(text);
    if let Ok(port) = port.parse() {
        let (all, here) = (any_address_at(port), SocketAddr::from(([127, 0, 0, 1], port)));
        let message = format!(
            "'{text}' names no address: write '{all}' for all addresses of this host, or {here} for programs on this host"
        );
        return Err(Wrong::new(message).or(text, all.to_string()));
    }
    let address = unbracketed(text).parse::<IpAddr>();
    if let Ok(address) = address {
        let whole = SocketAddr::new(address, DEFAULT_PORT).to_string();
        return Err(Wrong::new(format!("'{text}' names no port: write '{whole}'")).or(text, whole));
    }
    let whole = format!("[{}]:{DEFAULT_PORT}", unbracketed(text));
    if in_zone(&whole).is_some() {
        return Err(Wrong::new(format!("'{text}' names no port: write '{whole}'")).or(text, whole));
    }
    let any = any_address();
    Err(Wrong::new(format!("'{text}' is not an address with a port: write '{any}', or one like 10.0.0.1:4321")))
}

/// An address of a link, whose interface has a name: `[fe80::1%eth0]:4321`. `None`: it is none of these. The standard
/// library reads interfaces that are numbers; the system's resolver knows the names.
fn in_zone(text: &str) -> Option<Result<SocketAddr, String>> {
    let server = text.starts_with('[').then(|| text.parse::<Server>().ok())??;
    let (address, zone) = server.host.split_once('%').filter(|_| text.contains("]:"))?;
    let mut found = (server.host.as_str(), server.port).to_socket_addrs().into_iter().flatten();
    let unknown = || format!("'{text}': {address} is no address of an interface '{zone}'; 'ip address' lists them");
    Some(found.next().ok_or_else(unknown))
}

/// A host without the brackets that part an IPv6 address from the port.
fn unbracketed(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// The addresses of `HOST:PORT`, where the host may be an IPv6 address in brackets, and that one of a link.
pub(crate) fn addresses_of(text: &str) -> Option<std::io::Result<Vec<SocketAddr>>> {
    if let Some(address) = in_zone(text) {
        return Some(address.map(|address| vec![address]).map_err(std::io::Error::other));
    }
    let (host, port) = text.rsplit_once(':')?;
    let port: u16 = port.parse().ok()?;
    Some((unbracketed(host), port).to_socket_addrs().map(Iterator::collect))
}

/// A time in seconds.
pub(crate) fn seconds(text: &str) -> Result<f64, Wrong> {
    let read = |text: &str| text.parse().ok().filter(|s| (0.1..=1e6).contains(s));
    read(text).ok_or_else(|| {
        let wrong = Wrong::new(format!("'{text}' is not a time: write seconds, from 0.1 to 1000000"));
        let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
        let factor = match text[number.len()..].trim() {
            "s" | "sec" | "seconds" => 1.0,
            "ms" => 1e-3,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            _ => return wrong,
        };
        // Exact as far as a person writes it.
        let seconds = number.parse().ok().map(|number: f64| (number * factor * 1e6).round() / 1e6);
        match seconds.map(|seconds| seconds.to_string()).filter(|seconds| read(seconds).is_some()) {
            Some(seconds) => wrong.or(text, seconds),
            None => wrong,
        }
    })
}

/// A parameter and its value.
pub(crate) fn parameter(text: &str) -> Result<(String, String), String> {
    let wrong = || format!("'{text}' has no '=': write NAME=VALUE, like c=10");
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    Ok((name.to_owned(), value.to_owned()))
}

/// A key of a scenario and its value.
pub(crate) fn key_and_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE, like 'duration=5 s'")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// A checksum that somebody has published, as `ALGORITHM:DIGITS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checksum {
    pub(crate) algorithm: Algorithm,
    pub(crate) sum: Vec<u8>,
}

impl FromStr for Checksum {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = "write ALGORITHM:DIGITS, like sha256: and 64 hexadecimal digits";
        let (name, digits) = text.split_once([':', '=']).ok_or(example)?;
        let known = || Algorithm::all().map(Algorithm::name).collect::<Vec<_>>().join(", ");
        let algorithm = Algorithm::named(name)
            .ok_or_else(|| format!("'{name}' is no algorithm that is known here; these are: {}", known()))?;
        let sum =
            algorithm.sum(digits).ok_or_else(|| format!("a checksum by {algorithm} has {}", algorithm.looks()))?;
        Ok(Self { algorithm, sum })
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddrV6;

    use super::*;
    use crate::wrong::Mend;

    #[test]
    fn listen_address_says_what_is_missing() {
        assert_eq!(listen_address("[::]:5001"), Ok(any_address_at(5001)));
        let of_a_link = Ok(SocketAddrV6::new("fe80::1".parse().unwrap(), 5001, 0, 1).into());
        assert_eq!(
            (listen_address("[fe80::1%lo]:5001"), listen_address("[fe80::1%1]:5001")),
            (of_a_link.clone(), of_a_link.clone())
        );
        assert_eq!(listen_address("[fe80::1%25lo]:5001"), of_a_link, "as in URLs");
        for (text, hint) in [
            ("5001", "write '[::]:5001' for all addresses of this host, or 127.0.0.1:5001 for"),
            (":5001", "write '[::]:5001'"),
            ("*:5001", "write '[::]:5001'"),
            ("10.0.0.1", "names no port: write '10.0.0.1:4321'"),
            ("::1", "names no port: write '[::1]:4321'"),
            ("[fe80::1%lo]", "names no port: write '[fe80::1%lo]:4321'"),
            ("localhost:5001", "is not an address with a port: write '[::]:4321'"),
            ("nowhere", "is not an address with a port"),
            ("[fe80::1%nowhere]:5001", "is no address of an interface 'nowhere'"),
        ] {
            let error = listen_address(text).unwrap_err().message;
            assert!(error.contains(hint) && error.contains(&format!("'{text}'")), "{text}: {error}");
        }
    }

    #[test]
    fn seconds_are_bounded() {
        assert_eq!(seconds("1.5"), Ok(1.5));
        for text in ["", "0", "10s", "nan", "inf", "1e7"] {
            assert!(seconds(text).unwrap_err().message.contains("write seconds"), "{text}");
        }
        for (text, instead) in [("5s", "5"), ("5m", "300"), ("500ms", "0.5")] {
            assert_eq!(seconds(text).unwrap_err().mend, Some(Mend::Word { wrong: text.into(), right: instead.into() }));
        }
    }

    #[test]
    fn key_and_value_splits_at_the_first_sign() {
        assert_eq!(key_and_value("a.b = x=y"), Ok(("a.b".to_owned(), "x=y".to_owned())));
        assert!(key_and_value("duration").is_err());
    }

    #[test]
    fn checksums_have_a_name_and_their_digits() {
        let digits = "0aF".repeat(22)[..64].to_owned();
        let parsed: Checksum = format!("SHA-256:{digits}").parse().unwrap();
        assert_eq!((parsed.algorithm, parsed.sum.len(), parsed.sum[1]), (Algorithm::Sha256, 32, 0xf0));
        assert_eq!(format!("blake3={digits}").parse::<Checksum>().unwrap().algorithm, Algorithm::Blake3);
        for text in ["md5:25f9e794323b453885f5181f1b624d0b", "MD5=JfnnlDI7RTiF9RgfG2JNCw=="] {
            let parsed: Checksum = text.parse().unwrap();
            assert_eq!((parsed.algorithm, parsed.sum[0]), (Algorithm::Md5, 0x25), "{text}");
        }
        for (text, said) in [
            (digits.clone(), "write ALGORITHM:DIGITS"),
            (format!("sha512:{digits}"), "128 hexadecimal digits"),
            (format!("sha256:{}+", &digits[1..]), "64 hexadecimal digits"),
            (format!("crc32c:{digits}"), "8 hexadecimal digits, or 8 characters of base64"),
            (format!("crc:{digits}"), "'crc' is no algorithm that is known here; these are: blake3, sha512, "),
        ] {
            let error = text.parse::<Checksum>().unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
