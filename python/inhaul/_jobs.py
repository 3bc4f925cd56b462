"""Native jobs and event loops."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from . import _inhaul

T = TypeVar("T")


def waker(future: asyncio.Future[None]) -> Callable[[], None]:
    """What ends the waiting for a future, from any thread."""
    loop = future.get_loop()

    def settle() -> None:
        if not future.done():
            future.set_result(None)

    def wake() -> None:
        try:
            loop.call_soon_threadsafe(settle)
        except RuntimeError:
            # The loop is closed: no caller waits any more.
            pass

    return wake


async def ended(on_end: Callable[[Callable[[], None]], object]) -> None:
    """Waits in the running loop, until the function given to ``on_end`` is called."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    on_end(waker(future))
    await future


async def result_of(job: _inhaul.Job[T]) -> T:
    """The result of a job. If the waiting is cancelled, so is the job."""
    try:
        await ended(job.on_end)
    except asyncio.CancelledError:
        job.cancel()
        raise
    return job.result()


class Turns:
    """Locks by names, for tasks of any event loop of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        # Who holds or waits for one is not here.
        self._lock = threading.Lock()
        self._waiting = {}

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[None]:
        """Waits for the turn of this task."""
        future: asyncio.Future[None] | None = None
        with self._lock:
            if name in self._waiting:
                future = asyncio.get_running_loop().create_future()
                self._waiting[name].append(future)
            else:
                self._waiting[name] = deque()
        if future is not None:
            try:
                await future
            except asyncio.CancelledError:
                with self._lock:
                    still_waits = future in self._waiting.get(name, ())
                    if still_waits:
                        self._waiting[name].remove(future)
                if not still_waits:
                    # Its turn has come meanwhile.
                    self._next(name)
                raise
        try:
            yield
        finally:
            self._next(name)

    def _next(self, name: str) -> None:
        with self._lock:
            queue = self._waiting.get(name)
            if queue is None:
                return
            while queue:
                future = queue.popleft()
                if not future.get_loop().is_closed():
                    break
            else:
                del self._waiting[name]
                return
        waker(future)()
