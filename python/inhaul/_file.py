"""Files of a file system that are read."""

from __future__ import annotations

from typing import Any, cast

from fsspec.asyn import sync
from fsspec.caching import caches
from fsspec.spec import AbstractBufferedFile

from .errors import IntegrityError


class Changed(IntegrityError):
    """A file has another version than the opened one."""

    code = "integrity"


class InhaulFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file that is read. By default nothing is cached, and nothing read ahead.

    All that is read is of one version: if the file changes at its source, reading fails with
    :class:`inhaul.errors.IntegrityError`. A file that changed before its first read is read in its new version.
    """

    def __init__(self, *arguments: Any, cache_type: str = "none", cache_options: Any = None, **options: Any) -> None:
        self._cache = cache_type, dict(cache_options or {})
        self._has_read = False
        fs, path = arguments[:2]
        sync(fs.loop, fs._check, path)
        super().__init__(*arguments, cache_type=cache_type, cache_options=cache_options, **options)

    def _fetch_range(self, start: int, end: int) -> bytes:
        mtime = self.details.get("mtime")
        data = cast("bytes", sync(self.fs.loop, self.fs._cat_version, self.path, start, end, self.size, mtime))
        self._has_read = True
        return data

    def read(self, length: int = -1) -> bytes:
        """Bytes from the current place on."""
        try:
            data = super().read(length)
        except Changed:
            if self._has_read or self.loc:
                raise
            self.details = self.fs.info(self.path)
            self.size = self.details["size"]
            kind, options = self._cache
            self.cache = caches[kind](int(self.blocksize), self._fetch_range, self.size, **options)
            data = super().read(length)
        return data or b""
