"""Prints how some system calls end, one a line: what a filter refuses shows by its error. For x86_64."""

import ctypes
import errno
import os

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
NOWHERE = b"/nowhere/at/all"
BAD = -1

PROBES = {
    "openat2": (437, -100, NOWHERE, 0, 0),
    "openat": (257, -100, NOWHERE, 0, 0),
    "openat, set-user-id": (257, -100, NOWHERE, os.O_CREAT, 0o4600),
    "openat, set-group-id": (257, -100, NOWHERE, os.O_CREAT, 0o2600),
    "open, set-user-id": (2, NOWHERE, os.O_CREAT, 0o4600),
    "creat, set-group-id": (85, NOWHERE, 0o2600),
    "chmod": (90, NOWHERE, 0o755),
    "chmod, set-user-id": (90, NOWHERE, 0o4755),
    "fchmod, set-group-id": (91, BAD, 0o2755),
    "fchmodat, set-user-id": (268, -100, NOWHERE, 0o4755),
    "mkdir, set-group-id": (83, NOWHERE, 0o2755),
    "mkdirat, set-group-id": (258, -100, NOWHERE, 0o2755),
    "mknod, set-user-id": (133, NOWHERE, 0o104755, 0),
    "mknodat, set-user-id": (259, -100, NOWHERE, 0o104755, 0),
    "renameat2": (316, -100, NOWHERE, -100, NOWHERE, 1),
    "clone3": (435, 0, 0),
    "unshare, mounts": (272, 0x20000),
    "unshare, users": (272, 0x10000000),
    "unshare, nothing": (272, 0),
    "setns": (308, BAD, 0),
    "setns, network": (308, BAD, 0x40000000),
    "mmap, write and execute": (9, 0, 4096, 7, 0x22, BAD, 0),
    "mmap, execute": (9, 0, 0, 5, 0x22, BAD, 0),
    "mprotect, execute": (10, 0, 0, 5),
    "mprotect, write": (10, 0, 0, 3),
    "pkey_mprotect, execute": (329, 0, 0, 5, BAD),
    "shmat, execute": (30, BAD, 0, 0o100000),
    "sched_setscheduler, FIFO": (144, BAD, 1, 0),
    "sched_setscheduler, other": (144, BAD, 0, 0),
    "sched_setscheduler, deadline": (144, BAD, 6, 0),
    "sched_setscheduler, idle": (144, BAD, 5, 0),
    "personality, Linux 32": (135, 8),
    "personality, asked": (135, 0xFFFFFFFF),
    "clock_settime": (227, BAD, 0),
    "adjtimex": (159, 0),
    "init_module": (175, 0, 0, 0),
    "syslog": (103, 99, 0, 0),
    "sethostname": (170, 0, BAD),
    "mount": (165, 0, 0, 0, 0, 0),
    "umount2": (166, NOWHERE, 0),
    "pivot_root": (155, NOWHERE, NOWHERE),
    "chroot": (161, NOWHERE),
    "reboot": (169, 0, 0, 0, 0),
    "swapon": (167, NOWHERE, 0),
    "ptrace": (101, 99, 0, 0, 0),
    "bpf": (321, 99, 0, 0),
    "perf_event_open": (298, 0, 0, 0, 0, 0),
    "kexec_load": (246, 0, 0, 0, BAD),
    "iopl": (172, 99),
    "ioperm": (173, BAD, 0, 0),
    "setuid": (105, BAD),
    "setgroups": (116, BAD, 0),
    "chown": (92, NOWHERE, 0, 0),
    "fchown": (93, BAD, 0, 0),
    "capset": (126, 0, 0),
    "acct": (163, NOWHERE),
    "quotactl": (179, BAD, 0, 0, 0),
    "open_by_handle_at": (304, BAD, 0, 0),
    "name_to_handle_at": (303, BAD, 0, 0, 0, 0),
    "fanotify_init": (300, BAD, BAD),
    "inotify_add_watch": (254, BAD, NOWHERE, 0),
    "keyctl": (250, 99, 0, 0, 0, 0),
    "userfaultfd": (323, BAD),
    "io_uring_setup": (425, 0, 0),
    "process_vm_readv": (310, BAD, 0, 0, 0, 0, 0),
    "modify_ldt": (154, 99, 0, 0),
    "memfd_create": (319, 0, BAD),
    "statx": (332, BAD, 0, 0, 0, 0),
    "close_range": (436, BAD, 0, BAD),
    "faccessat2": (439, -100, NOWHERE, 0, 0),
    "fallocate": (285, BAD, 0, 0, 0),
    "syncfs": (306, BAD),
    "recvmmsg": (299, BAD, 0, 0, 0, 0),
    "setpriority": (141, 99, 0, 0),
    "prlimit64": (302, BAD, BAD, 0, 0),
}
for family in (1, 2, 3, 4, 5, 10, 15, 16, 17, 21, 29, 31, 38, 40, 44, 99):
    PROBES[f"socket, family {family}"] = (41, family, 99, 99)

for name, (number, *values) in PROBES.items():
    ctypes.set_errno(0)
    arguments = [value if isinstance(value, bytes) else ctypes.c_long(value) for value in values]
    ended = libc.syscall(ctypes.c_long(number), *arguments)
    print(f"{name}: {'done' if ended >= 0 else errno.errorcode.get(ctypes.get_errno())}")
