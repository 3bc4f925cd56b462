"""Errors, by cause. Every class is an :class:`InhaulError`, and the built-in exception that fits."""

from __future__ import annotations

__all__ = [
    "DestinationError",
    "InhaulError",
    "IntegrityError",
    "InternalError",
    "Interrupted",
    "NoRight",
    "NoSpace",
    "NotFound",
    "PartialError",
    "Refused",
    "ScenarioError",
    "SimulationError",
    "TimedOut",
    "UdpBlocked",
    "Unreachable",
    "Untrusted",
    "UsageError",
]


class InhaulError(OSError):
    """Something went wrong. ``code`` is the cause, as in the JSON of the command line."""

    code: str = "internal"


class InternalError(InhaulError):
    """A bug, or the operating system failed."""


class UsageError(InhaulError, ValueError):
    """The request makes no sense."""


class NotFound(InhaulError, FileNotFoundError):
    """There is nothing at the path."""


class Unreachable(InhaulError, ConnectionError):
    """No such host, or nothing listens there."""


class TimedOut(InhaulError, TimeoutError):
    """No answer in time."""


class Refused(InhaulError, ConnectionError):
    """The server refused, or is no inhaul server."""


class NoSpace(InhaulError):
    """The destination is full."""


class DestinationError(InhaulError):
    """The destination cannot be written, or exists."""


class IntegrityError(InhaulError):
    """Data came wrong, or is of another version than the requested one. It is never handed out."""


class UdpBlocked(InhaulError, ConnectionError):
    """UDP does not pass, and the fallback is not allowed."""


class PartialError(InhaulError):
    """Some data has landed, and some has not."""


class Untrusted(InhaulError, PermissionError):
    """The server's key is not known, has changed, or is not certified."""


class NoRight(InhaulError, PermissionError):
    """The server does not give the right."""


class Interrupted(InhaulError, InterruptedError):
    """It was cancelled."""


class ScenarioError(UsageError):
    """A scenario of the laboratory cannot be run. ``line`` and ``column`` count from 1; ``None``: no single place."""

    line: int | None = None
    column: int | None = None


class SimulationError(InhaulError):
    """A simulated run cannot go on."""


_CLASSES: dict[str, type[InhaulError]] = {
    "internal": InternalError,
    "usage": UsageError,
    "path-not-found": NotFound,
    "host-unknown": Unreachable,
    "unreachable": Unreachable,
    "timed-out": TimedOut,
    "refused": Refused,
    "no-space": NoSpace,
    "destination": DestinationError,
    "integrity": IntegrityError,
    "udp-blocked": UdpBlocked,
    "partial": PartialError,
    "untrusted": Untrusted,
    "no-right": NoRight,
    "interrupted": Interrupted,
    "scenario": ScenarioError,
    "simulation": SimulationError,
}


def make(code: str, text: str) -> InhaulError:
    """The exception for a cause, as the native module raises it."""
    error = _CLASSES.get(code, InternalError)(text)
    error.code = code
    return error
