//! This user's own directories without write permission. Data sets bring them, and later transfers add to them.
//!
//! Their permissions are lifted while a data set lands in them, and restored at the end, on success or failure. The
//! journal records the ones that already had the data set's permissions. So a later transfer restores these if this
//! process is killed. Root may write anywhere, and needs none of this.

use std::collections::BTreeSet;

use rustix::fs::{Access, AtFlags};
use rustix::io::Errno;

use crate::beneath::{Beneath, Links, Own, split};
use crate::journal::Record;
use crate::landing_error::LandingError;
use crate::manifest::MODE_BITS;
use crate::plan::Plan;
use crate::{Kind, Metadata};

/// The permissions that an owner needs to make a file in a directory, and to find it again.
const OWNER_BITS: u32 = 0o700;

/// The directories whose permissions are lifted.
#[derive(Debug, Default)]
pub(super) struct Lifted(Vec<Directory>);

/// One of them, by its index; `None` is the data set's own.
#[derive(Debug)]
struct Directory {
    directory: Option<usize>,
    own: Own,
    /// Whether it had the data set's permissions.
    was_settled: bool,
}

/// The directories that directly contain landing items, by their paths.
fn landing_in<'p>(plan: &'p Plan, base: &Beneath) -> BTreeSet<&'p [u8]> {
    let manifest = &plan.manifest;
    let files = (0..plan.files().len()).filter(|&index| plan.files()[index].lands()).map(|index| plan.path(index));
    let symlinks = manifest.symlinks().iter().zip(&plan.symlinks).filter(|(_, fate)| fate.lands());
    let hard_links = manifest.hard_links().iter().zip(&plan.hard_links).filter(|(_, fate)| fate.lands());
    let directories = manifest.directories().iter().zip(&plan.directories).filter(|(_, wanted)| **wanted);
    let is_missing = |path: &[u8]| base.stat(path, Links::Refuse).is_err_and(|errno| errno == Errno::NOENT);
    files
        .chain(symlinks.map(|(link, _)| link.path.as_slice()))
        .chain(hard_links.map(|(link, _)| link.path.as_slice()))
        .chain(directories.map(|(directory, _)| directory.path.as_slice()).filter(|path| is_missing(path)))
        .map(|path| split(path).0)
        .collect()
}

/// Checks that this user may write in the directories that the plan adds to first.
pub(super) fn check(plan: &Plan) -> Result<(), LandingError> {
    let place = plan.destination.nearest()?;
    let lands_in = plan.base().filter(|_| plan.manifest.kind() == Kind::Directory);
    if lands_in.is_some_and(|base| !landing_in(plan, base).contains(b"".as_slice()) || base.own(b"").is_ok()) {
        return Ok(());
    }
    may_write(&place).map_err(|errno| LandingError::from_errno("write to", plan.target(), errno))
}

fn may_write(directory: &Beneath) -> rustix::io::Result<()> {
    rustix::fs::accessat(directory.fd(), ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::empty())
}

impl Lifted {
    /// Lifts the permissions of this user's own directories that the plan adds to, and checks that the user may write
    /// in the first ones. The lifted ones are added to `self`, also on failure.
    pub(super) fn open_up(&mut self, plan: &Plan, base: &Beneath) -> Result<(), LandingError> {
        let not_writable = |errno| LandingError::from_errno("write to", plan.shown(b""), errno);
        if plan.manifest.kind() == Kind::File || rustix::process::geteuid().is_root() {
            return may_write(base).map_err(not_writable);
        }
        let manifest = &plan.manifest;
        let paths = landing_in(plan, base);
        for path in &paths {
            let directory = manifest.find_directory(path);
            let metadata = directory.map_or(manifest.top(), |index| &manifest.directories()[index].metadata);
            self.lift(directory, base, path, metadata)
                .map_err(|errno| LandingError::from_errno("write to", plan.shown(path), errno))?;
        }
        if paths.contains(b"".as_slice()) { may_write(base).map_err(not_writable) } else { Ok(()) }
    }

    fn lift(
        &mut self,
        directory: Option<usize>,
        base: &Beneath,
        path: &[u8],
        metadata: &Metadata,
    ) -> rustix::io::Result<()> {
        // A missing directory will be made. Another user's gives an error when a file is made in it.
        let Ok(own) = base.own(path) else { return Ok(()) };
        if own.mode & OWNER_BITS == OWNER_BITS {
            return Ok(());
        }
        let was_settled = own.mode & MODE_BITS == metadata.mode;
        let lifted = own.permit(OWNER_BITS);
        self.0.push(Directory { directory, own, was_settled });
        lifted
    }

    /// Records for the journal: the directories that get the data set's permissions, by this landing or a later one.
    pub(super) fn records(&self) -> Vec<Record> {
        let settled = self.0.iter().filter(|lifted| lifted.was_settled);
        settled.map(|lifted| Record::Made { directory: lifted.directory }).collect()
    }

    /// Restores the permissions of directory `index`, if they were lifted.
    pub(super) fn close_up(&self, index: Option<usize>) {
        for lifted in self.0.iter().filter(|lifted| lifted.directory == index) {
            // The caller owns it. If restoring fails, the owner can still do it later.
            let _ = lifted.own.restore();
        }
    }

    /// The same for all.
    pub(super) fn close_up_all(&self) {
        for lifted in &self.0 {
            let _ = lifted.own.restore();
        }
    }
}
