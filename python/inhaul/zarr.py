"""A zarr store of remote data: ``zarr.open_group(inhaul.zarr.InhaulStore("inhaul://dtn1/run7.zarr"))``.

One request brings all the chunks of shards that are asked for together, and exactly their bytes. A missing key is
known without asking.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)

from . import Client, DataSet

if TYPE_CHECKING:
    from zarr.core.buffer import Buffer, BufferPrototype

__all__ = ["InhaulStore"]


class InhaulStore(Store):
    """A read-only store in an open data set.

    :param source: ``inhaul://HOST[:PORT][,MIRROR...]/PATH``, or an open :class:`inhaul.DataSet`.
    :param client: whose client; if there is none, one is made with ``options``.
    """

    def __init__(
        self, source: str | DataSet, *, client: Client | None = None, read_only: bool = True, **options: Any
    ) -> None:
        if not read_only:
            raise ValueError("this store can only be read: leave read_only as it is")
        super().__init__(read_only=True)
        self._data_set = source if isinstance(source, DataSet) else (client or Client(**options)).open(source)

    @property
    def supports_writes(self) -> bool:
        """It cannot be written to."""
        return False

    @property
    def supports_deletes(self) -> bool:
        """Nothing can be removed."""
        return False

    @property
    def supports_listing(self) -> bool:
        """Its keys are known."""
        return True

    @property
    def data_set(self) -> DataSet:
        """The data set that it reads."""
        return self._data_set

    def with_read_only(self, read_only: bool = True) -> InhaulStore:
        """Another one of the same data set. It cannot be written to."""
        if not read_only:
            raise NotImplementedError(f"with_read_only is not implemented for the {type(self)} store type.")
        return type(self)(self._data_set)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InhaulStore) and other._data_set.source == self._data_set.source

    def __hash__(self) -> int:
        return hash(self._data_set.source)

    def __repr__(self) -> str:
        return f"InhaulStore({self._data_set.source!r})"

    def __reduce__(self) -> tuple[type[InhaulStore], tuple[DataSet]]:
        return type(self), (self._data_set,)

    @staticmethod
    def _bounds(request: ByteRequest | None) -> tuple[int | None, int | None]:
        match request:
            case None:
                return None, None
            case RangeByteRequest(start=start, end=end):
                return start, end
            case OffsetByteRequest(offset=offset):
                return offset, None
            case SuffixByteRequest(suffix=suffix):
                return (-suffix, None) if suffix > 0 else (0, 0)
        raise TypeError(f"Unexpected byte_range, got {request!r}.")

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """The bytes of a key, or a range of them; ``None`` if it is missing."""
        from zarr.core.buffer import default_buffer_prototype

        if key not in self._data_set.files:
            return None
        data = await self._data_set.aread(key, *self._bounds(byte_range))
        return (prototype or default_buffer_prototype()).buffer.from_bytes(data)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Ranges of many keys, in one request."""
        wanted = list(key_ranges)
        places = [(key, *self._bounds(one)) for key, one in wanted if key in self._data_set.files]
        parts = iter(await self._data_set.aread_ranges(places))
        return [
            prototype.buffer.from_bytes(next(parts)) if key in self._data_set.files else None for key, _ in wanted
        ]

    async def get_ranges(
        self,
        key: str,
        byte_ranges: Sequence[ByteRequest | None],
        *,
        prototype: BufferPrototype,
        **_: Any,
    ) -> AsyncGenerator[Sequence[tuple[int, Buffer | None]], None]:
        """Ranges of one key, in one request of exactly their bytes: there are no gaps to be joined."""
        if key not in self._data_set.files:
            raise FileNotFoundError(key)
        parts = await self._data_set.aread_ranges([(key, *self._bounds(one)) for one in byte_ranges])
        yield [(index, prototype.buffer.from_bytes(part)) for index, part in enumerate(parts)]

    async def exists(self, key: str) -> bool:
        """Whether there is a key."""
        return key in self._data_set.files

    async def getsize(self, key: str) -> int:
        """Bytes of a key."""
        if key not in self._data_set.files:
            raise FileNotFoundError(key)
        return self._data_set.files[key].size

    async def set(self, key: str, value: Buffer) -> None:
        """Refused: the store is read-only."""
        self._check_writable()

    async def delete(self, key: str) -> None:
        """Refused: the store is read-only."""
        self._check_writable()

    async def list(self) -> AsyncIterator[str]:
        """All keys."""
        for key in self._data_set.files:
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """All keys that begin with a prefix."""
        for key in self._data_set.files:
            if key.startswith(prefix):
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Names right below a prefix."""
        inner = prefix.rstrip("/")
        if self._data_set.is_directory(inner):
            files, directories = self._data_set.children(inner)
            for name in [file.path for file in files] + directories:
                yield name.rpartition("/")[2]
