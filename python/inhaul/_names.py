"""Names of files at servers, and the URLs that lead to them.

A *name* is ``HOST[:PORT][,MIRROR...]/PATH``, with the path as it is: every character of it, ``#``, ``%`` and ``?`` too, is
part of a file's name. Bytes that are not UTF-8 stand in it as :func:`os.fsdecode` has them. A *URL* begins with
``inhaul://``; there, and only there, ``%XX`` is a byte and the text behind the last ``#`` is a ticket. What begins
with ``inhaul://`` is never a name, as ``inhaul:`` is no host. So no text is both, and each can be made of the other.
"""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import unquote_to_bytes

SCHEME = "inhaul://"

_WITH_FINGERPRINT = re.compile(r"[A-Za-z0-9_-]{43}(\..*)?")
_TICKET = re.compile(r"([A-Za-z0-9_-]{43})?(\.[A-Za-z0-9_=-]+)?")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_RAW_BYTE = re.compile("[\udc80-\udcff]")


def quoted(path: str) -> str:
    """A path as it stands in a URL."""
    path = path.replace("%", "%25").replace("#", "%23")
    # fsspec takes '::' for the end of one URL of a chain.
    return raw_bytes_quoted(path.replace("::", "%3A%3A"))


def raw_bytes_quoted(text: str) -> str:
    """A text with ``%XX`` for bytes that are not UTF-8."""
    return _RAW_BYTE.sub(lambda found: f"%{ord(found[0]) - 0xDC00:02X}", text)


def _unquoted(path: str, shown: str) -> str:
    if _BAD_ESCAPE.search(path):
        raise ValueError(f"'{shown}' is no URL: write % as %25 in it, or give the name without inhaul://")
    return unquote_to_bytes(path.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


def joined(hosts: str, path: str) -> str:
    """A name, without slashes that say nothing."""
    return "/".join([hosts, *(part for part in path.split("/") if part)])


def split_url(url: str) -> tuple[str, str | None]:
    """The name that a URL leads to, and its ticket."""
    front, sign, ticket = url[len(SCHEME) :].rpartition("#")
    if not sign:
        front, ticket = ticket, ""
    # The text behind any '#' may be a secret.
    shown = SCHEME + front.split("#", 1)[0]
    if sign and not all(_TICKET.fullmatch(one) for one in ticket.split(",")):
        raise ValueError(f"the text behind the '#' of '{shown}' is no ticket: write a # of a name as %23")
    hosts, _, path = front.partition("/")
    if "#" in hosts:
        raise ValueError(f"'{shown}' has a # in its host")
    return joined(hosts, _unquoted(path, shown)), (ticket if sign else None)


def name_of(text: Any) -> str:
    """The name that a URL, or a name, stands for."""
    text = os.fspath(text)
    if isinstance(text, bytes):
        text = os.fsdecode(text)
    if text.startswith(SCHEME):
        return split_url(text)[0]
    hosts, _, path = text.partition("/")
    return joined(hosts, path)


def url_of(name: str, ticket: str | None = None) -> str:
    """The URL of a name."""
    hosts, _, path = name.partition("/")
    return f"{SCHEME}{hosts}/{quoted(path)}" + (f"#{ticket}" if ticket else "")


def is_possible(name: str) -> bool:
    """Whether there can be a file of that name."""
    return "\0" not in name and not any(part in (".", "..") for part in name.split("/")[1:])


def askable(name: str) -> str:
    """A name, or the directory above it that a server can be asked for by its own name: it must be UTF-8. What lies in an
    open directory may have any name."""
    parts = name.split("/")
    strange = next((k for k, part in enumerate(parts) if _RAW_BYTE.search(part)), len(parts))
    return "/".join(parts[:strange])


def says_whose(ticket: str) -> bool:
    """Whether a ticket, or all of several with commas between them, says which server it is for."""
    return "#" in ticket or all(not one or _WITH_FINGERPRINT.fullmatch(one) for one in ticket.split(","))


def has_magic(text: str) -> bool:
    """Whether a path, or the path of a name, has characters that glob takes for more than themselves."""
    return any(sign in text.partition("/")[2] for sign in "*?[")


def ticket_words(tickets: list[str], file: str | None) -> list[str]:
    """The tickets of arguments and of a file, one by one."""
    words = [word for text in tickets for word in text.split()]
    if file is not None:
        with open(file, encoding="utf-8", errors="surrogateescape") as lines:
            words += [word for line in lines if not line.lstrip().startswith("#") for word in line.split()]
    return words


def tickets_from_environment() -> list[str]:
    """Tickets of ``INHAUL_TICKET`` and ``INHAUL_TOKEN`` that say which server they are for; a warning for others."""
    import warnings

    found = []
    for variable in ("INHAUL_TICKET", "INHAUL_TOKEN"):
        for word in os.environ.get(variable, "").split():
            if says_whose(word):
                found.append(word)
            else:
                warnings.warn(
                    f"{variable} is not used: it does not say which server it is for. Write HOST[:PORT]#.TOKEN or "
                    "FINGERPRINT.TOKEN",
                    stacklevel=4,
                )
    return found
