"""Files of a file system that come to this host: the program lands them, as ``inhaul get`` does, in a directory of its
own beside their places, and each then gets its name in one step.

So only wanted names are touched. A file is whole and synced before it has its name, and an old file stays until then.
If the same call is interrupted and made again, it continues from the verified data.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from . import _jobs
from .errors import DestinationError, NotFound, Untrusted

if TYPE_CHECKING:
    from . import Client, _inhaul

_PREFIX = ".inhaul-get-"
_LOOK_S = 0.2
_TRIES = 5
"""So often a place is tried that another process has."""
_turns = _jobs.Turns()


async def land(
    client: Client,
    address: str,
    places: Sequence[tuple[str | None, str]],
    hear: Callable[[int], object] | None = None,
) -> None:
    """Fetches files of a data set to their places: paths in it, and paths here. The path ``None`` is a data set that is
    one file. ``hear`` is called with the bytes that are done."""
    home = os.path.commonpath([os.path.dirname(os.path.abspath(place)) for _, place in places])
    said = "\0".join([address.partition("#")[0], *(f"{path}\0{os.path.abspath(place)}" for path, place in places)])
    staging = os.path.join(home, _PREFIX + hashlib.sha256(said.encode("utf-8", "surrogateescape")).hexdigest()[:16])
    async with _turns.of(staging):
        for _ in range(_TRIES):
            try:
                return await _land_in(staging, client, address, places, hear)
            except NotFound:
                raise
            except (DestinationError, FileNotFoundError) as error:
                # Another process that lands the same may have taken the directory away when it was done.
                if "another transfer" not in str(error) and os.path.lexists(os.path.join(staging, "data")):
                    raise
            # A process that was killed may have it for a moment yet.
            await asyncio.sleep(_LOOK_S)
        # Another process does the same: each lands for itself.
        own = f"{staging}-{uuid.uuid4().hex[:8]}"
        try:
            await _land_in(own, client, address, places, hear)
        finally:
            await asyncio.to_thread(_remove, own)


async def _land_in(
    staging: str,
    client: Client,
    address: str,
    places: Sequence[tuple[str | None, str]],
    hear: Callable[[int], object] | None,
) -> None:
    await asyncio.to_thread(_make, staging)
    landed = os.path.join(staging, "data")
    is_file = places[0][0] is None
    only = None if is_file else [path for path, _ in places if path is not None]
    begin = client._getting([address], landed, only=only, existing="refuse")

    try:
        await _follow(client, address, begin, hear)
        await asyncio.to_thread(_name, landed, places)
    except BaseException:
        # Its verified data is kept for the next try; an empty directory is useless.
        _remove_empty(staging)
        raise
    await asyncio.to_thread(_remove, staging)


async def _follow(
    client: Client,
    address: str,
    begin: Callable[[_inhaul.Client], _inhaul.Job[tuple[int, str]]],
    hear: Callable[[int], object] | None,
) -> None:
    natives = client._natives(address)
    for native in natives:
        job = begin(native)
        end = asyncio.ensure_future(_jobs.result_of(job))
        try:
            while not end.done():
                await asyncio.wait({end}, timeout=_LOOK_S)
                if hear is not None:
                    hear(job.progress()[0])
        except BaseException:
            end.cancel()
            raise
        if native is natives[-1] or not isinstance(end.exception(), Untrusted):
            end.result()
            return


def _make(staging: str) -> None:
    os.makedirs(os.path.dirname(staging), exist_ok=True)
    try:
        os.mkdir(staging, 0o700)
    except FileExistsError:
        there = os.lstat(staging)
        if not stat.S_ISDIR(there.st_mode) or there.st_uid != os.geteuid():
            raise DestinationError(errno.EEXIST, "it is not this program's: remove it", staging) from None


def check_place(place: str) -> None:
    """A file may take this name: nothing has it, or a file or link that is replaced."""
    try:
        mode = os.lstat(place).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a directory", place)
    if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
        raise DestinationError(errno.EEXIST, "it is a device, a pipe or a socket: it is not replaced", place)


def _name(landed: str, places: Sequence[tuple[str | None, str]]) -> None:
    """Gives files their names."""
    if os.path.isdir(landed):
        for directory, _, _ in os.walk(landed):
            # A directory without write permission for its owner could not be emptied.
            os.chmod(directory, 0o700)
    changed = set()
    for path, place in places:
        source = landed if path is None else os.path.join(landed, path)
        directory = os.path.dirname(os.path.abspath(place))
        os.makedirs(directory, exist_ok=True)
        check_place(place)
        try:
            os.replace(source, place)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _name_over_there(source, place, directory)
        changed.add(directory)
    for directory in changed:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        except OSError:
            # Some file systems sync no directories. The file is still whole.
            pass
        finally:
            os.close(descriptor)


def _name_over_there(source: str, place: str, directory: str) -> None:
    """The same, to another file system."""
    copy = os.path.join(directory, f"{_PREFIX}{uuid.uuid4().hex[:16]}")
    try:
        shutil.copy2(source, copy)
        with open(copy, "rb") as file:
            os.fsync(file.fileno())
        os.replace(copy, place)
    except BaseException:
        if os.path.lexists(copy):
            os.unlink(copy)
        raise


def _remove_empty(staging: str) -> None:
    try:
        os.rmdir(staging)
    except OSError:
        pass


def _remove(staging: str) -> None:
    shutil.rmtree(staging, ignore_errors=True)
