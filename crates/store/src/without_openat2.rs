//! All tests of this crate once more, in a process that may not call `openat2`.

use std::collections::BTreeMap;
use std::process::Command;

use rustix::io::Errno;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// Set in the second process.
const VARIABLE: &str = "INHAUL_STORE_WITHOUT_OPENAT2";
/// The call's number, on all architectures.
const OPENAT2: i64 = 437;
/// The second process is ended if it takes longer.
const SECONDS_MAX: &str = "300";

/// A system call filter that makes `openat2` fail, like systemd's `RestrictSUIDSGID=`.
fn without_openat2() -> BpfProgram {
    let refused = SeccompAction::Errno(Errno::NOSYS.raw_os_error().unsigned_abs());
    let rules = BTreeMap::from([(OPENAT2, Vec::new())]);
    let architecture = std::env::consts::ARCH.try_into().unwrap();
    SeccompFilter::new(rules, SeccompAction::Allow, refused, architecture).unwrap().try_into().unwrap()
}

#[test]
fn every_test_holds_without_openat2() {
    if std::env::var_os(VARIABLE).is_some() {
        assert!(crate::disk::is_openat2_refused());
        return;
    }
    // The filter holds for this thread, and for the processes that it starts.
    let again = std::thread::spawn(|| {
        seccompiler::apply_filter(&without_openat2()).unwrap();
        let mut tests = Command::new("timeout");
        // The modelled disk does not use this call, so few seeds suffice.
        tests.env(VARIABLE, "1").env("INHAUL_POWER_FAILURES", "0..20");
        tests.arg(SECONDS_MAX).arg(std::env::current_exe().unwrap()).output().unwrap()
    });
    let again = again.join().unwrap();
    let told = String::from_utf8_lossy(&again.stdout);
    // Passed tests need not be in the message.
    let failed = told.split_once("\nfailures:").map_or(&*told, |(_, failed)| failed);
    assert!(again.status.success(), "{}\n{failed}", again.status);
    assert!(told.contains("every_test_holds_without_openat2 ... ok"), "{told}");
}
