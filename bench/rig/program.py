"""The program that is measured."""

import atexit
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent


def release():
    """Builds `inhaul` in release mode and says where it is."""
    subprocess.run(["cargo", "build", "--release", "--package", "inhaul-cli"], cwd=TOP, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", TOP / "target")) / "release" / "inhaul"


def _trust_each_other():
    """Keys of this run alone, servers that anybody may read, and clients that take any server's key as it comes."""
    state = tempfile.TemporaryDirectory(prefix="inhaul-state-")
    atexit.register(state.cleanup)
    os.environ.update({"INHAUL_STATE": state.name, "INHAUL_SERVE_PUBLIC": "true"})
    os.environ.update({f"INHAUL_{name}_ACCEPT_NEW": "true" for name in ("GET", "PLAN", "LS", "DOCTOR", "BENCH")})


def fingerprint(file):
    """Distinguishes builds, independent of their files' names."""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]


_trust_each_other()
