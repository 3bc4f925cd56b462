//! A program that offers a directory to everybody, and ends when its standard input does: `serve DIRECTORY [ADDRESS:PORT]`

use std::io::Read;
use std::net::SocketAddr;

use inhaul::{Error, Server};

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().unwrap_or_else(|| usage());
    let listen: SocketAddr = match arguments.next() {
        Some(text) => text.parse().unwrap_or_else(|_| usage()),
        None => SocketAddr::from(([127, 0, 0, 1], 0)),
    };

    let server = Server::builder().offer(directory).public().listen(listen).start()?;
    println!("{}", server.address_of(""));

    // Until standard input ends.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    server.stop()
}

fn usage() -> ! {
    eprintln!("usage: serve DIRECTORY [ADDRESS:PORT]");
    std::process::exit(2)
}
