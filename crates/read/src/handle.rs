//! What a caller holds of a running read: how far it is, its end, and a way to end it early.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::delivery::Delivery;
use super::order::{Order, Ticket};
use inhaul_session::api::error::MoveError;

/// Where the bytes of a read go.
pub trait Destination: Send + 'static {
    /// Takes verified bytes: those of range `index` of the read, from `offset` in that range on. They come in any order,
    /// each byte once, and never from two threads at once.
    ///
    /// # Errors
    /// When they cannot be taken: the read ends with this error.
    fn write(&mut self, index: usize, offset: u64, bytes: &[u8]) -> io::Result<()>;
}

/// Memory: one buffer for each range, as long as the range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buffers(pub Vec<Vec<u8>>);

impl Destination for Buffers {
    fn write(&mut self, index: usize, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let place = usize::try_from(offset).ok().and_then(|start| {
            let buffer = self.0.get_mut(index)?;
            buffer.get_mut(start..start.checked_add(bytes.len())?)
        });
        place.ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(bytes);
        Ok(())
    }
}

/// How far a read is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadProgress {
    /// Bytes that are verified and at their destination.
    pub bytes: u64,
    /// Bytes of the whole read.
    pub total_bytes: u64,
}

/// A read, between the engine's threads and its caller.
pub(super) struct Shared<D> {
    state: Mutex<State<D>>,
    over: Condvar,
}

struct State<D> {
    destination: Option<D>,
    progress: ReadProgress,
    /// Set once, and taken by the caller.
    outcome: Option<Result<(), MoveError>>,
    is_over: bool,
    waker: Option<Waker>,
}

impl<D: Destination> Shared<D> {
    pub(super) fn new(destination: D, total_bytes: u64) -> Arc<Self> {
        let is_over = total_bytes == 0;
        let state = State {
            destination: Some(destination),
            progress: ReadProgress { bytes: 0, total_bytes },
            outcome: is_over.then_some(Ok(())),
            is_over,
            waker: None,
        };
        Arc::new(Self { state: Mutex::new(state), over: Condvar::new() })
    }

    fn end(&self, state: &mut State<D>, outcome: Result<(), MoveError>) {
        if !state.is_over {
            state.is_over = true;
            state.outcome = Some(outcome);
            self.over.notify_all();
            if let Some(waker) = state.waker.take() {
                waker.wake();
            }
        }
    }
}

impl<D> Shared<D> {
    /// A destination that panics leaves a read that does not end well, and no lock that nobody can take.
    fn state(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(state: &mut State<D>) -> Result<D, MoveError> {
        let taken = || MoveError::Internal("the outcome of a read was taken twice".to_owned());
        state.outcome.take().unwrap_or_else(|| Err(taken()))?;
        state.destination.take().ok_or_else(taken)
    }
}

impl<D: Destination> Delivery for Shared<D> {
    fn write(&self, index: usize, offset: u64, bytes: &[u8]) {
        let mut state = self.state();
        let State { destination: Some(destination), is_over: false, .. } = &mut *state else { return };
        // A destination that panics ends its own read, and not the thread that serves all.
        let died = |_| Err(io::Error::other("what takes the bytes has panicked"));
        match catch_unwind(AssertUnwindSafe(|| destination.write(index, offset, bytes))).unwrap_or_else(died) {
            Err(source) => self.end(&mut state, Err(MoveError::Sink { source })),
            Ok(()) => {
                state.progress.bytes += bytes.len() as u64;
                if state.progress.bytes >= state.progress.total_bytes {
                    self.end(&mut state, Ok(()));
                }
            }
        }
    }

    fn fail(&self, error: MoveError) {
        let mut state = self.state();
        self.end(&mut state, Err(error));
    }

    fn is_over(&self) -> bool {
        self.state().is_over
    }
}

/// A running read. It is a future of its destination; or [`Handle::join`] waits for it. Dropping it ends the read.
#[must_use = "dropping a handle ends its read"]
pub struct Handle<D: Destination> {
    pub(super) shared: Arc<Shared<D>>,
    pub(super) ticket: Ticket,
    /// To end it early.
    pub(super) orders: Orders,
    /// What carries it out stays as long as it does.
    pub(super) _keep: Arc<dyn Any + Send + Sync>,
}

/// The way to the data thread.
#[derive(Clone)]
pub(super) struct Orders {
    pub(super) sender: Sender<Order>,
    pub(super) waker: inhaul_udp::Waker,
}

impl Orders {
    /// Tells the data thread. If it has died, a read fails at once.
    pub(super) fn give(&self, order: Order) {
        if let Err(unheard) = self.sender.send(order) {
            unheard.0.refuse("the data thread has ended");
        }
        self.waker.wake();
    }
}

impl<D: Destination> Handle<D> {
    /// How far it is.
    pub fn progress(&self) -> ReadProgress {
        self.shared.state().progress
    }

    /// Whether it has ended, well or not.
    pub fn is_over(&self) -> bool {
        self.shared.state().is_over
    }

    /// Ends it now: what waits for it hears [`MoveError::Interrupted`].
    pub fn cancel(&self) {
        self.shared.fail(MoveError::Interrupted);
        self.orders.give(Order::Cancel(self.ticket));
    }

    /// Waits for its end, and gives its destination back.
    ///
    /// # Errors
    /// Why it has ended without all bytes.
    pub fn join(self) -> Result<D, MoveError> {
        let mut state = self.shared.state();
        while !state.is_over {
            state = self.shared.over.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Shared::take(&mut state)
    }

    /// Takes its destination if it has ended, or why it has ended without all bytes; `None` while it runs. Once only:
    /// what is taken is gone.
    pub fn try_take(&self) -> Option<Result<D, MoveError>> {
        let mut state = self.shared.state();
        state.is_over.then(|| Shared::take(&mut state))
    }

    /// Waits for its end for so long at most: whether it has ended.
    pub fn wait(&self, timeout: Duration) -> bool {
        let until = Instant::now() + timeout;
        let mut state = self.shared.state();
        while !state.is_over {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.shared.over.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Calls `then` when it has ended; at once if it has. For those who wait for many by means of their own.
    pub fn on_end(&self, then: impl Fn() + Send + Sync + 'static) {
        struct Call<F>(F);
        impl<F: Fn() + Send + Sync> std::task::Wake for Call<F> {
            fn wake(self: Arc<Self>) {
                (self.0)();
            }
        }
        let waker = Waker::from(Arc::new(Call(then)));
        let mut state = self.shared.state();
        if state.is_over {
            drop(state);
            waker.wake();
        } else {
            state.waker = Some(waker);
        }
    }
}

impl<D: Destination> Future for Handle<D> {
    type Output = Result<D, MoveError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.shared.state();
        if state.is_over {
            return Poll::Ready(Shared::take(&mut state));
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<D: Destination> Drop for Handle<D> {
    fn drop(&mut self) {
        if !self.is_over() {
            self.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(total: u64) -> (Handle<Buffers>, Arc<Shared<Buffers>>) {
        let shared = Shared::new(Buffers(vec![vec![0; total as usize]]), total);
        let (sender, _) = std::sync::mpsc::channel();
        let poller = inhaul_udp::Poller::new().unwrap();
        let waker = poller.waker(0).unwrap();
        (
            Handle {
                shared: Arc::clone(&shared),
                ticket: Ticket(1),
                orders: Orders { sender, waker },
                _keep: Arc::new(()),
            },
            shared,
        )
    }

    #[test]
    fn join_gives_the_destination_when_all_is_there() {
        let (handle, shared) = handle(5);
        assert!(!handle.wait(Duration::ZERO));
        shared.write(0, 3, b"lo");
        assert_eq!(handle.progress(), ReadProgress { bytes: 2, total_bytes: 5 });
        shared.write(0, 0, b"hel");
        assert!(handle.wait(Duration::ZERO) && handle.is_over());
        assert_eq!(handle.join().unwrap(), Buffers(vec![b"hello".to_vec()]));
    }

    #[test]
    fn what_a_destination_does_not_take_ends_the_read() {
        let (handle, shared) = handle(5);
        shared.write(0, 4, b"lo");
        assert!(matches!(handle.join(), Err(MoveError::Sink { .. })));
        assert!(shared.is_over());
    }

    #[test]
    fn a_destination_that_panics_ends_its_read_alone() {
        struct Broken;
        impl Destination for Broken {
            fn write(&mut self, _: usize, _: u64, _: &[u8]) -> io::Result<()> {
                panic!("a bug of the caller's");
            }
        }
        let shared = Shared::new(Broken, 5);
        shared.write(0, 0, b"hello");
        assert!(shared.is_over());
        let outcome = Shared::take(&mut shared.state());
        assert!(matches!(outcome, Err(MoveError::Sink { .. })));
    }

    #[test]
    fn a_handle_is_a_future_and_cancels_when_it_is_dropped() {
        let (mut handle, shared) = handle(1);
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut handle).poll(&mut context).is_pending());
        shared.write(0, 0, b"x");
        assert!(matches!(Pin::new(&mut handle).poll(&mut context), Poll::Ready(Ok(_))));
        let (handle, shared) = self::handle(1);
        drop(handle);
        assert!(shared.is_over());
        let (handle, _) = self::handle(0);
        assert_eq!(handle.join().unwrap(), Buffers(vec![Vec::new()]), "what is empty is there at once");
    }

    #[test]
    fn on_end_is_called_once_whenever_it_is_asked_for() {
        use std::sync::atomic::{AtomicU32, Ordering};
        let calls = Arc::new(AtomicU32::new(0));
        let call = || {
            let calls = Arc::clone(&calls);
            move || {
                calls.fetch_add(1, Ordering::Relaxed);
            }
        };
        let (handle, shared) = handle(1);
        handle.on_end(call());
        assert_eq!(calls.load(Ordering::Relaxed), 0);
        shared.fail(MoveError::Interrupted);
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        handle.on_end(call());
        assert_eq!(calls.load(Ordering::Relaxed), 2);
    }
}
