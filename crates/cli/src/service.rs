//! Communication with systemd: sockets that it hands over, readiness, the end, the watchdog.
//!
//! Without systemd this module has no effect: systemd's variables are not set then.

use std::sync::Arc;
use std::time::Duration;

use inhaul_mover::{Counters, Inherited, Stop};
use sd_notify::NotifyState;

use crate::exit::Failure;

/// How often the thread checks whether the server was told to stop.
const LOOK: Duration = Duration::from_millis(100);
/// Most sockets that are taken.
const SOCKETS_MAX: usize = 2;

/// The sockets that systemd has made for this process; `None` if it has not.
///
/// # Errors
/// If they are not one listening TCP socket and at most one UDP socket.
pub(crate) fn inherited() -> Result<Option<Arc<Inherited>>, Failure> {
    let mut given = listenfd::ListenFd::from_env();
    let count = given.len();
    if count == 0 {
        return Ok(None);
    }
    let odd = || {
        Failure::usage(
            "the sockets of the service manager are not one for TCP and one for UDP: see service/inhaul.socket"
                .to_owned(),
        )
    };
    if count > SOCKETS_MAX {
        return Err(odd());
    }
    let (mut tcp, mut udp) = (None, None);
    for index in 0..count {
        // A descriptor of another kind stays, to be taken as that kind.
        if let Ok(Some(socket)) = given.take_tcp_listener(index) {
            tcp = Some(socket);
        } else if let Ok(Some(socket)) = given.take_udp_socket(index) {
            udp = Some(socket);
        } else {
            return Err(odd());
        }
    }
    let tcp = tcp.ok_or_else(odd)?;
    Ok(Some(Arc::new(Inherited { tcp, udp })))
}

/// Says that the server is ready, and from then on, on a thread of its own, that it is alive and when it stops.
pub(crate) fn announce_ready(stop: &Stop, counters: &Arc<Counters>) {
    if std::env::var_os("NOTIFY_SOCKET").is_none() {
        return;
    }
    tell(&[NotifyState::Ready]);
    let (stop, counters) = (stop.clone(), Arc::clone(counters));
    let begun = std::thread::Builder::new().name("inhaul-service".to_owned()).spawn(move || watch(&stop, &counters));
    if let Err(error) = begun {
        log::warn!("notifications to the service manager end: {error}");
    }
}

fn watch(stop: &Stop, counters: &Counters) {
    // Half of the time that the watchdog waits (sd_watchdog_enabled(3)).
    let alive_every = sd_notify::watchdog_enabled().map(|limit| limit / 2);
    let (mut waited, mut turns, mut is_stopping) = (Duration::ZERO, counters.turns.get(), false);
    loop {
        std::thread::sleep(LOOK);
        waited += LOOK;
        if stop.is_set() && !is_stopping {
            is_stopping = true;
            tell(&[NotifyState::Stopping]);
        }
        if alive_every.is_some_and(|every| waited >= every) {
            waited = Duration::ZERO;
            let now = counters.turns.get();
            // A data thread that hangs has none, and is not vouched for.
            if now != turns {
                tell(&[NotifyState::Watchdog]);
            }
            turns = now;
        }
    }
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        log::warn!("the service manager cannot be told of the server's state: {error}");
    }
}
