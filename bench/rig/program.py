"""The program that is measured."""

import os
import subprocess
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent


def release():
    """Builds `inhaul` in release mode and says where it is."""
    subprocess.run(["cargo", "build", "--release", "--package", "inhaul-cli"], cwd=TOP, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", TOP / "target")) / "release" / "inhaul"
