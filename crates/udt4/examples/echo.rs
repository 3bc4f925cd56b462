//! A server that returns each client's data, or a client of it:
//!
//!     cargo run -p inhaul-udt4 --example echo -- listen 127.0.0.1:9000
//!     cargo run -p inhaul-udt4 --example echo -- connect 127.0.0.1:9000 hello
//!
//! Programs that use libudt may be at the other side.

use std::error::Error;
use std::net::SocketAddr;

use inhaul_udt4::{Endpoint, Options, Socket, UdtError};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["listen", address] => listen(address.parse()?),
        ["connect", address, text] => connect(address.parse()?, text),
        _ => Err("usage: echo listen ADDRESS:PORT | echo connect ADDRESS:PORT TEXT".into()),
    }
}

fn listen(address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let endpoint = Endpoint::bind(address, Options::default())?;
    println!("listening on {}", endpoint.local_address());
    let incoming = endpoint.listen(10)?;
    loop {
        let socket = incoming.accept()?;
        std::thread::spawn(move || {
            println!("{} connected", socket.peer_address());
            if let Err(error) = echo(&socket) {
                eprintln!("{}: {error}", socket.peer_address());
            }
        });
    }
}

fn echo(socket: &Socket) -> Result<(), UdtError> {
    let mut bytes = [0; 65_536];
    loop {
        match socket.read(&mut bytes)? {
            0 => return Ok(()),
            count => socket.write_all(&bytes[..count])?,
        }
    }
}

fn connect(address: SocketAddr, text: &str) -> Result<(), Box<dyn Error>> {
    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let endpoint = Endpoint::bind(any.parse()?, Options::default())?;
    let socket = endpoint.connect(address)?;
    socket.write_all(text.as_bytes())?;
    let mut back = vec![0; text.len()];
    socket.read_exact(&mut back)?;
    println!("{}", String::from_utf8_lossy(&back));
    socket.close()?;
    Ok(())
}
