//! The rights that open sessions are held by. They are looked at again and again: a session ends when its right does.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use inhaul_identity::Right;

use crate::gate::{Caller, Gate};
use inhaul_session::session::frame::RefusalCode;
use inhaul_session::session::refusal::{GreetingError, refused};

/// The passes of all sessions that are open.
#[derive(Debug, Default)]
pub(crate) struct Passes {
    issued: Mutex<Vec<Weak<Issued>>>,
}

/// A session's right, as long as it is open.
#[derive(Debug)]
pub struct Pass(Arc<Issued>);

#[derive(Debug)]
struct Issued {
    caller: Caller,
    right: Right,
    path: String,
    /// Why the right has ended, once it has.
    ended: OnceLock<String>,
}

impl Passes {
    /// A pass for a client that has just been let in.
    pub(crate) fn issue(&self, caller: &Caller, right: Right, path: &str) -> Pass {
        let issued = Arc::new(Issued { caller: caller.clone(), right, path: path.to_owned(), ended: OnceLock::new() });
        let mut all = self.issued.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Arc::downgrade(&issued));
        Pass(issued)
    }

    /// Looks at all of them by what `gate` says now.
    pub(crate) fn review(&self, gate: &Gate) {
        let open: Vec<Arc<Issued>> = {
            let mut all = self.issued.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|issued| issued.strong_count() > 0);
            all.iter().filter_map(Weak::upgrade).collect()
        };
        for issued in open.iter().filter(|issued| issued.ended.get().is_none()) {
            if let Err(reason) = gate.still(&issued.caller, issued.right, &issued.path) {
                let _ = issued.ended.set(reason);
            }
        }
    }
}

impl Pass {
    /// Who holds it.
    pub fn caller(&self) -> &Caller {
        &self.0.caller
    }

    /// What for.
    pub(crate) fn right(&self) -> Right {
        self.0.right
    }

    /// Whether the right still stands.
    ///
    /// # Errors
    /// The refusal for the client, if not.
    pub fn check(&self) -> Result<(), GreetingError> {
        let Some(reason) = self.0.ended.get() else { return Ok(()) };
        let text = format!("the right '{}' has ended: {reason}", self.0.right);
        Err(refused(RefusalCode::NoRight, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_identity::{Fingerprint, Rights, State};
    use inhaul_session::api::trust::ServerIdentity;

    #[test]
    fn a_pass_ends_with_its_right_and_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::at(dir.path());
        let identity = ServerIdentity { state: Some(state.clone()), ..ServerIdentity::passing(Rights::NONE).unwrap() };
        let gate = Gate::new(&identity, Arc::default()).unwrap();
        let caller =
            |key| Caller { address: ([192, 0, 2, 1], 5).into(), key: Some(key), token: None, name_left_out: None };
        let (alice, bob) = (Fingerprint::of(b"alice"), Fingerprint::of(b"bob"));
        std::fs::write(state.authorized_keys(), format!("{alice} read\n{bob} read\n")).unwrap();
        let passes = Passes::default();
        let open = [alice, bob].map(|key| passes.issue(&caller(key), Right::Read, "/run-42"));
        drop(passes.issue(&caller(alice), Right::Read, "/"));
        passes.review(&gate);
        assert_eq!(passes.issued.lock().unwrap().len(), 2, "one was given back");
        assert!(open.iter().all(|pass| pass.check().is_ok()));
        std::fs::write(state.authorized_keys(), format!("{bob} read\n")).unwrap();
        passes.review(&gate);
        let (code, text) = open[0].check().unwrap_err().refusal().unwrap();
        assert!(code == RefusalCode::NoRight && text.contains("'read' has ended"), "{text}");
        assert!(open[1].check().is_ok());
    }
}
