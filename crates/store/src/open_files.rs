//! Caches a bounded number of open files, so that a data set of a hundred thousand files does not use up the
//! descriptors.

use std::fs::File;
use std::sync::Arc;

use rustix::process::{Resource, getrlimit};

/// Files by index, the last used one in front. A caller's file stays open even if it is dropped from here.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    files: Vec<(usize, Arc<File>)>,
    limit: usize,
}

impl OpenFiles {
    /// Maximum number of open files of an offered data set.
    pub(crate) const LIMIT: usize = 128;

    pub(crate) fn with_limit(limit: usize) -> Self {
        Self { files: Vec::new(), limit }
    }

    /// At most `most` files, and at most a quarter of this process's descriptors: sockets, directories, journals and
    /// other data sets need some, too.
    pub(crate) fn with_share(most: usize) -> Self {
        let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let share = usize::try_from(allowed / 4).unwrap_or(usize::MAX);
        Self::with_limit(share.clamp(1, most))
    }

    #[cfg(test)]
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn get(&mut self, index: usize) -> Option<Arc<File>> {
        // Data mostly comes in order, so the wanted file is nearly always the first.
        let at = self.files.iter().position(|(i, _)| *i == index)?;
        self.files[..=at].rotate_right(1);
        Some(Arc::clone(&self.files[0].1))
    }

    /// Adds a new file, and drops the least recently used one if there are too many.
    pub(crate) fn insert(&mut self, index: usize, file: Arc<File>) {
        self.files.truncate(self.limit - 1);
        self.files.insert(0, (index, file));
    }

    pub(crate) fn remove(&mut self, index: usize) {
        self.files.retain(|(i, _)| *i != index);
    }

    pub(crate) fn clear(&mut self) {
        self.files.clear();
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn insert_drops_what_was_not_used_for_longest() {
        let file = || Arc::new(tempfile::tempfile().unwrap());
        let mut open = OpenFiles::with_limit(2);
        open.insert(1, file());
        open.insert(2, file());
        assert!(open.get(1).is_some());
        open.insert(3, file());
        assert!(open.get(2).is_none());
        assert!(open.get(1).is_some() && open.get(3).is_some());
        open.remove(1);
        assert!(open.get(1).is_none());
    }
}
