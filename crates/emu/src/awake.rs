//! Keeps processors awake.
//!
//! An idle processor halts. In a virtual machine, the machine's host then gives the processor to others, and it comes
//! back milliseconds late. The emulator and its hosts stand still meanwhile. So a thread of the lowest priority keeps
//! each processor busy, and yields to every other thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use inhaul_udp::thread;

/// Steps of work between two looks at whether it is over: some microseconds.
const STEPS: u64 = 10_000;

/// One thread on each of these processors, which runs only when the processor would be idle. The threads end when this
/// is dropped.
#[derive(Debug)]
pub(crate) struct Awake {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    pub(crate) fn start(cpus: &[usize]) -> io::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let mut awake = Self { over: Arc::clone(&over), threads: Vec::new() };
        for &cpu in cpus {
            let over = Arc::clone(&over);
            let (ready, started) = std::sync::mpsc::channel();
            let work = move || {
                let begun = thread::pin_to_cpu(cpu).and_then(|()| thread::run_when_idle());
                let runs = begun.is_ok();
                // The starting thread waits for this message.
                let _ = ready.send(begun);
                if runs {
                    pass_time(&over);
                }
            };
            awake.threads.push(std::thread::Builder::new().name("awake".to_owned()).spawn(work)?);
            started.recv().map_err(io::Error::other)??;
        }
        Ok(awake)
    }
}

fn pass_time(over: &AtomicBool) {
    let mut work = 0u64;
    while !over.load(Ordering::Relaxed) {
        for _ in 0..STEPS {
            work = std::hint::black_box(work.wrapping_add(1));
        }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A loop that has died keeps no processor awake, and is over.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_has_a_thread_for_each_processor_and_drop_ends_them() {
        let cpus = thread::allowed_cpus().unwrap();
        let awake = Awake::start(&cpus).unwrap();
        assert_eq!(awake.threads.len(), cpus.len());
        assert!(awake.threads.iter().all(|thread| !thread.is_finished()));
        let over = Arc::clone(&awake.over);
        drop(awake);
        assert_eq!(Arc::strong_count(&over), 1, "no loop is left");
    }
}
