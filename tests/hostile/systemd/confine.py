"""Runs a program under the filters of system calls that systemd sets up for a service.

confine.py LIBRARY DIRECTIVE=VALUE... -- PROGRAM ARGUMENT...

The filters are systemd's own: LIBRARY is its libsystemd-shared. They are set up in the order of systemd's execute.c.
"""

import ctypes
import os
import socket
import sys

PR_SET_NO_NEW_PRIVS = 38
EPERM = 1
ALLOW = 0x7FFF0000
REFUSE = 0x00050000 | EPERM
INVERT, ALLOW_LIST, LOG, PERMISSIVE = 1, 2, 4, 8

library, *words = sys.argv[1:]
split = words.index("--")
program = words[split + 1 :]
directives = [word.split("=", 1) for word in words[:split]]
libc = ctypes.CDLL(None, use_errno=True)
systemd = ctypes.CDLL(library)
for name in ("_hashmap_new", "syscall_filter_set_find"):
    getattr(systemd, name).restype = ctypes.c_void_p


def must(done, what):
    if done < 0:
        sys.exit(f"confine.py: {what}: {os.strerror(-done)}")


def values(directive):
    return [value for name, value in directives if name == directive]


def is_on(directive):
    return values(directive)[-1:] == ["yes"]


def refuse(group):
    found = ctypes.c_void_p(systemd.syscall_filter_set_find(group.encode()))
    must(systemd.seccomp_load_syscall_filter_set(ctypes.c_uint32(ALLOW), found, ctypes.c_uint32(REFUSE), False), group)


def restrict_families():
    families = ctypes.c_void_p()
    for name in " ".join(values("RestrictAddressFamilies")).split():
        family = ctypes.c_void_p(int(getattr(socket, name)))
        must(systemd._set_ensure_put(ctypes.byref(families), None, family), name)
    must(systemd.seccomp_restrict_address_families(families, True), "RestrictAddressFamilies")


def filter_calls():
    calls = ctypes.c_void_p(systemd._hashmap_new(None))

    def parse(name, flags):
        line = (ctypes.c_int(-1), calls, ctypes.c_int(flags), b"unit", b"file", ctypes.c_uint(1))
        must(systemd.seccomp_parse_syscall_filter(name.encode(), *line), name)

    parse("@default", PERMISSIVE | ALLOW_LIST)
    for value in values("SystemCallFilter"):
        flags = INVERT if value.startswith("~") else 0
        for name in value.lstrip("~").split():
            parse(name, flags | ALLOW_LIST | PERMISSIVE | LOG)
    done = systemd.seccomp_load_syscall_filter_set_raw(ctypes.c_uint32(REFUSE), calls, ctypes.c_uint32(ALLOW), False)
    must(done, "SystemCallFilter")


libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
if values("RestrictAddressFamilies"):
    restrict_families()
if is_on("MemoryDenyWriteExecute"):
    must(systemd.seccomp_memory_deny_write_execute(), "MemoryDenyWriteExecute")
if is_on("RestrictRealtime"):
    must(systemd.seccomp_restrict_realtime_full(EPERM), "RestrictRealtime")
if is_on("RestrictSUIDSGID") or is_on("DynamicUser"):
    must(systemd.seccomp_restrict_suid_sgid(), "RestrictSUIDSGID")
if is_on("RestrictNamespaces"):
    must(systemd.seccomp_restrict_namespaces(ctypes.c_ulong(0)), "RestrictNamespaces")
if is_on("ProtectHostname"):
    must(systemd.seccomp_protect_hostname(), "ProtectHostname")
if is_on("ProtectKernelTunables"):
    must(systemd.seccomp_protect_sysctl(), "ProtectKernelTunables")
if is_on("ProtectKernelModules"):
    refuse("@module")
if is_on("ProtectKernelLogs"):
    must(systemd.seccomp_protect_syslog(), "ProtectKernelLogs")
if is_on("ProtectClock"):
    refuse("@clock")
if is_on("PrivateDevices"):
    refuse("@raw-io")
if values("SystemCallArchitectures") == ["native"]:
    must(systemd.seccomp_restrict_archs(None), "SystemCallArchitectures")
if is_on("LockPersonality"):
    must(systemd.seccomp_lock_personality(ctypes.c_ulong(0)), "LockPersonality")
if values("SystemCallFilter"):
    filter_calls()
os.execvp(program[0], program)
