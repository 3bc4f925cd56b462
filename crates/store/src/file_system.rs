//! Kinds of file systems, as far as they matter here.

use std::os::fd::AsFd;

/// The kind of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileSystem {
    /// A local one that keeps times to the second or better, and distinguishes all names unless a directory says
    /// otherwise.
    Fine,
    /// FAT or exFAT.
    Fat,
    /// Its files are generated when they are read (`/proc`, `/sys`), so their sizes mean nothing.
    Generated,
    /// Anything else: network file systems, FUSE, and unknown ones.
    Other,
}

/// The kernel's numbers of file systems (`statfs`): ext2 to ext4, XFS, Btrfs, tmpfs, overlayfs, ZFS, F2FS, bcachefs,
/// ramfs, ReiserFS, JFS.
const FINE: [u32; 11] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0x0102_1994,
    0x794c_7630,
    0x2fc1_2fc1,
    0xf2f5_2010,
    0xca45_1a4e,
    0x8584_58f6,
    0x5265_4973,
    0x3153_464a,
];
/// FAT, and exFAT.
const FAT: [u32; 2] = [0x4d44, 0x2011_bab0];
/// proc, sysfs, debugfs, tracefs, securityfs, cgroup, cgroup2, selinuxfs, smackfs, configfs, binfmt_misc, fusectl,
/// nfsd, rpc_pipefs, openpromfs, mqueue.
const GENERATED: [u32; 16] = [
    0x9fa0,
    0x6265_6572,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0x0027_e0eb,
    0x6367_7270,
    0xf97c_ff8c,
    0x4341_5d53,
    0x6265_6570,
    0x4249_4e4d,
    0x6573_5543,
    0x6e66_7364,
    0x6759_6969,
    0x9fa1,
    0x1980_0202,
];

impl FileSystem {
    /// The file system of an open file.
    pub(crate) fn of(fd: impl AsFd) -> Self {
        #[cfg(test)]
        if let Some(modelled) = crate::disk::foreign::kind() {
            return modelled;
        }
        // The numbers have 32 bits, even if the field is wider.
        rustix::fs::fstatfs(fd).map_or(Self::Other, |stat| Self::of_number(stat.f_type as u32))
    }

    fn of_number(number: u32) -> Self {
        match number {
            number if FINE.contains(&number) => Self::Fine,
            number if FAT.contains(&number) => Self::Fat,
            number if GENERATED.contains(&number) => Self::Generated,
            _ => Self::Other,
        }
    }

    /// Whether it certainly keeps whole seconds.
    pub(crate) fn keeps_seconds(self) -> bool {
        self == Self::Fine
    }

    /// Whether it certainly has no symbolic links.
    pub(crate) fn lacks_links(self) -> bool {
        self == Self::Fat
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn file_systems_are_told_by_their_numbers() {
        assert_eq!(FileSystem::of(File::open("/proc/self/stat").unwrap()), FileSystem::Generated);
        assert_eq!(FileSystem::of_number(0x4d44), FileSystem::Fat);
        assert_eq!(FileSystem::of_number(0x6573_5546), FileSystem::Other, "FUSE");
        assert!(FileSystem::of_number(0xef53).keeps_seconds() && !FileSystem::of_number(0x6969).keeps_seconds());
    }
}
