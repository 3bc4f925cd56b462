"""zarr's own suite for stores, as far as it concerns a read-only one: keys are set in the directory that a server
offers, and the store looks there anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import inhaul

pytest.importorskip("zarr")
pytest.importorskip("pytest_asyncio")

from zarr.core.buffer import Buffer, cpu, default_buffer_prototype
from zarr.testing.store import StoreTests

from inhaul.zarr import InhaulStore


class Settable(InhaulStore):
    """One whose keys the suite can set, behind the store's back."""

    directories: dict[str, Path] = {}

    async def set(self, key: str, value: Buffer) -> None:
        self._check_writable()

    async def _set_many(self, values: Any) -> None:
        for key, value in values:
            self.place(key, value)

    def place(self, key: str, value: Buffer) -> None:
        path = self.directories[self.data_set.source] / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value.to_bytes())
        self.data_set.refresh()


class TestInhaulStore(StoreTests[Settable, cpu.Buffer]):
    store_cls = Settable
    buffer_cls = cpu.Buffer

    @pytest.fixture(scope="class")
    @classmethod
    def offered(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Any]]:
        directory = tmp_path_factory.mktemp("stores")
        with inhaul.Server(directory, public=True) as server:
            yield directory, server

    @pytest.fixture
    def store_kwargs(
        self, offered: tuple[Path, Any], client: inhaul.Client, request: pytest.FixtureRequest
    ) -> dict[str, Any]:
        directory, server = offered
        path = directory / f"s{len(list(directory.iterdir()))}"
        path.mkdir()
        data_set = client.open(server.address_of(path.name))
        Settable.directories[data_set.source] = path
        return {"source": data_set}

    async def set(self, store: Settable, key: str, value: Buffer) -> None:
        store.place(key, value)

    async def get(self, store: Settable, key: str) -> Buffer:
        return self.buffer_cls.from_bytes((store.directories[store.data_set.source] / key).read_bytes())

    def test_store_repr(self, store: Settable) -> None:
        assert repr(store) == f"InhaulStore({store.data_set.source!r})"

    def test_store_supports_writes(self, store: Settable) -> None:
        assert not store.supports_writes and not store.supports_deletes

    def test_store_supports_listing(self, store: Settable) -> None:
        assert store.supports_listing

    # Operations that the suite does by writing through the store.

    def test_store_read_only(self, store: Settable) -> None:
        assert store.read_only
        with pytest.raises(AttributeError):
            store.read_only = False  # type: ignore[misc]

    @pytest.mark.parametrize("read_only", [True, False])
    async def test_store_open_read_only(self, open_kwargs: dict[str, Any], read_only: bool) -> None:
        if read_only:
            await super().test_store_open_read_only(open_kwargs, read_only)
        else:
            with pytest.raises(ValueError, match="only be read"):
                await self.store_cls.open(**open_kwargs, read_only=False)

    async def test_serializable_store(self, store: Settable) -> None:
        import pickle

        store.place("foo", self.buffer_cls.from_bytes(b"\x01\x02\x03\x04"))
        new_store = pickle.loads(pickle.dumps(store))
        assert new_store == store and new_store.read_only
        observed = await new_store.get("foo", prototype=default_buffer_prototype())
        assert observed.to_bytes() == b"\x01\x02\x03\x04"

    async def test_exists(self, store: Settable) -> None:
        assert not await store.exists("foo")
        store.place("foo/zarr.json", self.buffer_cls.from_bytes(b"bar"))
        assert await store.exists("foo/zarr.json")

    test_set = test_set_not_open = test_set_many = test_set_if_not_exists = None
    test_delete_nonexistent_key_does_not_raise = test_clear = None
