//! A put by hand: an order, and the data sets that a client brings.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use inhaul_mover::frame::{Frame, SessionRole};
use serde_json::{Value, json};

use crate::datagram;
use crate::hostile_server::Offer;
use crate::session::{Heard, Session};

/// A put that a server has agreed to.
#[derive(Debug)]
pub struct RawPut {
    /// The session of the order, with its progress.
    pub order: Session,
    /// The server's secret, with which data sets are attached.
    pub token: u64,
    /// The socket that the server takes for the client's.
    pub udp: UdpSocket,
    server: SocketAddr,
}

impl RawPut {
    /// An order to land one data set of the client's own at `destination`, replacing existing files.
    pub fn order_to(destination: &str) -> Value {
        // Each is a transfer of its own.
        static TRANSFERS: AtomicU64 = AtomicU64::new(1);
        let transfer = TRANSFERS.fetch_add(1, Ordering::Relaxed);
        json!({
            "transfer": transfer, "retry_seconds": 0,
            "origin": { "client": { "sources": 1 } }, "destination": destination, "rules": [], "existing": "replace",
            "checksum": false, "attributes": true, "fresh": false, "dry_run": false, "rate_bps": null,
        })
    }

    /// Gives a server this order, and shows it where the client's datagrams come from.
    ///
    /// # Errors
    /// The server's other answer.
    pub fn begin(server: SocketAddr, order: &Value) -> Result<Self, Heard> {
        let mut session = Session::connect(server).map_err(|_| Heard::End)?;
        let udp_port = session.hello(SessionRole::Delegate, "gtp");
        session.send(&Frame::Delegate { order: order.to_string().into_bytes() }).map_err(|_| Heard::End)?;
        let token = match session.receive(Duration::from_secs(10)) {
            Heard::Frame(Frame::ProbeGrant { token }) => token,
            other => return Err(other),
        };
        let udp = UdpSocket::bind((session.local_ip(), 0)).unwrap();
        let put = Self { order: session, token, udp, server };
        put.introduce(SocketAddr::new(server.ip(), udp_port));
        Ok(put)
    }

    /// Probes until an echo has come.
    fn introduce(&self, server: SocketAddr) {
        let mut probe = b"inhaul?\n".to_vec();
        probe.extend_from_slice(&self.token.to_be_bytes());
        probe.extend_from_slice(&1u32.to_be_bytes());
        probe.extend_from_slice(&20u16.to_be_bytes());
        let probe = datagram::masked(&probe);
        self.udp.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        for _ in 0..20 {
            self.udp.send_to(&probe, server).unwrap();
            if self.udp.recv(&mut [0; 64]).is_ok() {
                return;
            }
        }
        panic!("no probe was echoed");
    }

    /// Opens the session of one of the order's data sets and waits until the server asks for it.
    ///
    /// # Errors
    /// The server's other message.
    pub fn attach(&self, source: u16) -> Result<Session, Heard> {
        let mut session = Session::connect(self.server).map_err(|_| Heard::End)?;
        session.hello(SessionRole::Attach, "gtp");
        session.send(&Frame::Attach { token: self.token, source }).map_err(|_| Heard::End)?;
        match session.receive(Duration::from_secs(10)) {
            Heard::Frame(Frame::Open { .. }) => Ok(session),
            other => Err(other),
        }
    }

    /// Brings a data set, and returns the server's messages about the put, until none comes for `within`.
    pub fn bring(mut self, offer: &Offer, within: Duration) -> Vec<Heard> {
        let mut session = match self.attach(0) {
            Ok(session) => session,
            Err(instead) => return vec![instead],
        };
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| offer.bring(&mut session, &self.udp, || over.load(Ordering::Relaxed)));
            let mut heard = Vec::new();
            loop {
                let next = self.order.receive(within);
                let goes_on = matches!(next, Heard::Frame(Frame::Update { .. } | Frame::Report { last: false, .. }));
                heard.push(next);
                if !goes_on {
                    over.store(true, Ordering::Relaxed);
                    return heard;
                }
            }
        })
    }
}
