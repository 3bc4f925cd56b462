//! Real endpoints, both ends of a transfer in one engine, over a network that blocks.

use std::cell::RefCell;
use std::io::IoSliceMut;
use std::rc::Rc;

use inhaul_base::{Bitrate, RangeSet};
use inhaul_protocols::registry::PROTOCOLS;
use inhaul_transport::{EndpointConfig, FlowLimits, JoinFlow, ObjectId, OfferFlow, PathSpec};
use inhaul_udp::seal::{FlowSecrets, SECRET_LEN, Seals, Secret, Suite};

use super::super::fake::WayOut;
use super::*;
use crate::engine::port::Show;

const SIZE: u64 = 1 << 20;

/// What the object has at `at`.
fn byte(at: u64) -> u8 {
    (at * 7 + at / 1021) as u8
}

struct Pattern;

impl BodySource for Pattern {
    fn read(&mut self, _flow: FlowId, offset: u64, bodies: &mut [IoSliceMut<'_>]) -> std::io::Result<()> {
        let bytes = bodies.iter_mut().flat_map(|body| body.iter_mut());
        bytes.zip(offset..).for_each(|(out, at)| *out = byte(at));
        Ok(())
    }
}

/// Memory as the destination.
#[derive(Clone)]
struct Memory(Rc<RefCell<Vec<u8>>>);

impl Sink<FakeSocket> for Memory {
    fn receive(
        &mut self,
        port: &mut Port<FakeSocket>,
        seals: &mut Seals,
        _expected: Option<Expected>,
        show: &mut Show<'_>,
        places: &mut Vec<Place>,
    ) -> Result<bool, MoveError> {
        let Some(batch) = port.receive(seals, show, places)? else { return Ok(false) };
        let mut memory = self.0.borrow_mut();
        batch.deliver(places, |delivery| {
            let mut at = delivery.range.start as usize;
            for body in delivery.bodies {
                memory[at..at + body.len()].copy_from_slice(body);
                at += body.len();
            }
            Ok::<_, MoveError>(())
        })?;
        Ok(true)
    }
}

/// A megabyte comes from one endpoint to the other; `trouble` is what their network does meanwhile. Says how long it
/// took, in the clear or sealed, whichever took longer.
fn transfer(protocol: &str, trouble: impl Fn(&Bench, usize, usize)) -> Span {
    let in_clear = transfer_with(protocol, false, &trouble);
    transfer_with(protocol, true, &trouble).max(in_clear)
}

fn transfer_with(protocol: &str, sealed: bool, trouble: &dyn Fn(&Bench, usize, usize)) -> Span {
    let entry = PROTOCOLS.iter().find(|entry| entry.name == protocol).unwrap();
    let mut bench = Bench::new();
    let mut build = |role, seed| {
        // Some protocols send at a given rate.
        let flow_rate = Some(Bitrate::from_mbps(500));
        let config = EndpointConfig { socket_buffer_bytes: 1 << 18, flow_rate, ..EndpointConfig::new(role, seed) };
        bench.engine.add_endpoint(role, (entry.build)(&config).unwrap())
    };
    let (sender, receiver) = (build(Role::Sender, 1), build(Role::Receiver, 2));
    let (sending, out) = bench.port(HERE, None);
    let (receiving, back) = bench.port(THERE, Some(HERE.into()));
    // Both ends of one connection are streams of this engine.
    let (ours, theirs) = bench.fake.connection();
    let address = SocketAddr::from(HERE);
    let theirs = inhaul_session::session::control_stream::ControlStream::over(theirs, address, address);
    let secrets = |outgoing, incoming| FlowSecrets {
        suite: Suite::Aes128Gcm,
        outgoing: Secret::new([outgoing; SECRET_LEN]),
        incoming: Secret::new([incoming; SECRET_LEN]),
    };
    let (ours, theirs) = if sealed {
        (ours.with_flow_secrets(secrets(1, 2)), theirs.with_flow_secrets(secrets(2, 1)))
    } else {
        (ours, theirs)
    };
    let (offered, joined) = (bench.engine.new_flow(), bench.engine.new_flow());
    bench.engine.add_flow(offered, sender, sending, ours).unwrap();
    bench.engine.add_flow(joined, receiver, receiving, theirs).unwrap();
    trouble(&bench, out, back);

    let path = PathSpec::clear(1500, address.ip());
    let offer = OfferFlow {
        flow: offered,
        size: SIZE,
        peer: None,
        only_from: None,
        path,
        connection: ConnectionId(7),
        token: 99,
        client: None,
        parameters: Default::default(),
    };
    bench.engine.command(sender, Command::Offer(offer));
    let object = ObjectId(0);
    bench.engine.command(receiver, Command::Fetch { object, size: SIZE, held: RangeSet::new() });
    let limits = FlowLimits::default();
    let join = JoinFlow {
        flow: joined,
        object,
        peer: Some(HERE.into()),
        path,
        connection: ConnectionId(77),
        probed: None,
        limits,
    };
    bench.engine.command(receiver, Command::Join(join));

    let memory = Memory(Rc::new(RefCell::new(vec![0; SIZE as usize])));
    let mut run = Run::until(millis(20_000));
    run.sink = Box::new(memory.clone());
    run.bodies = Box::new(Pattern);
    let run = bench.run(run);
    let complete = run.events.iter().find(|(_, event)| *event == Event::Complete { object });
    let complete = complete.unwrap_or_else(|| panic!("{protocol}: {:?}", run.events));
    assert!(memory.0.borrow().iter().zip(0..).all(|(&is, at)| is == byte(at)), "{protocol}");
    assert_eq!(run.ends, [], "{protocol}");
    complete.0.since(Time::ZERO)
}

/// A socket whose buffer holds 64 kB, and empties at 50 Mbit/s: a megabyte takes 170 ms.
fn narrow() -> WayOut {
    WayOut::Buffer { bytes: 64_000, rate: Bitrate::from_mbps(50), empty_at: Time::ZERO }
}

#[test]
fn every_protocol_gets_through_a_socket_that_is_often_full() {
    for protocol in PROTOCOLS {
        let took = transfer(protocol.name, |bench, out, _| {
            bench.fake.world().set_way_out(Time::ZERO, out, narrow());
        });
        assert!(took < Span::from_secs(2), "{}: {took}", protocol.name);
    }
}

#[test]
fn every_protocol_survives_a_second_without_memory_at_either_end() {
    for protocol in PROTOCOLS {
        let took = transfer(protocol.name, |bench, out, back| {
            let mut world = bench.fake.world();
            world.set_way_out(Time::ZERO, out, narrow());
            for socket in [out, back] {
                world.set_way_out(millis(60), socket, WayOut::NoMemory);
                world.set_way_out(millis(1060), socket, WayOut::Open);
            }
        });
        assert!(took < Span::from_secs(5), "{}: {took}", protocol.name);
    }
}
