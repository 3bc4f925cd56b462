"""fsspec's own suites for file systems, as far as they concern a read-only one: files for a test are made in the
directory that a server offers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import inhaul

fsspec = pytest.importorskip("fsspec")
abstract = pytest.importorskip("fsspec.tests.abstract")


class InhaulFixtures(abstract.AbstractFixtures):  # type: ignore[misc]
    @pytest.fixture(scope="class")
    @classmethod
    def offered(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Any]]:
        directory = tmp_path_factory.mktemp("offered")
        with inhaul.Server(directory, public=True) as server:
            yield directory, server

    @pytest.fixture
    def fs(self, offered: tuple[Path, Any]) -> Iterator[Any]:
        ticket = offered[1].address_of().split("#")[1]
        made = fsspec.filesystem("inhaul", ticket=ticket, state="")
        made.invalidate_cache()
        yield made

    @pytest.fixture
    def fs_path(self, offered: tuple[Path, Any]) -> str:
        host: str = offered[1].address
        return host

    def _made(self, make: str, offered: tuple[Path, Any], fs: Any, local_fs: Any, local_join: Any) -> Iterator[str]:
        directory, server = offered
        source = getattr(self, make)(local_fs, local_join, str(directory))
        fs.invalidate_cache()
        yield server.address + source[len(str(directory)) :]
        local_fs.rm(source, recursive=True)

    @pytest.fixture
    def fs_bulk_operations_scenario_0(self, offered: Any, fs: Any, local_fs: Any, local_join: Any) -> Iterator[str]:
        yield from self._made("_bulk_operations_scenario_0", offered, fs, local_fs, local_join)

    @pytest.fixture
    def fs_glob_edge_cases_files(self, offered: Any, fs: Any, local_fs: Any, local_join: Any) -> Iterator[str]:
        yield from self._made("_glob_edge_cases_files", offered, fs, local_fs, local_join)

    @pytest.fixture
    def fs_dir_and_file_with_same_name_prefix(
        self, offered: Any, fs: Any, local_fs: Any, local_join: Any
    ) -> Iterator[str]:
        yield from self._made("_dir_and_file_with_same_name_prefix", offered, fs, local_fs, local_join)

    @pytest.fixture
    def fs_10_files_with_hashed_names(self, offered: Any, fs: Any, local_fs: Any, local_join: Any) -> Iterator[str]:
        yield from self._made("_10_files_with_hashed_names", offered, fs, local_fs, local_join)


class TestGet(InhaulFixtures, abstract.AbstractGetTests):  # type: ignore[misc]
    """All of them."""


    def test_get_directory_recursive(
        self, fs: Any, fs_join: Any, fs_path: str, local_fs: Any, local_join: Any, local_target: str, offered: Any
    ) -> None:
        # As in the suite, which makes its files through the file system.
        src = offered[0] / "src"
        src.mkdir()
        (src / "file").write_bytes(b"")
        for target, has_slash in ((local_target, False), (local_target, True)):
            for existing in (False, True):
                fs.invalidate_cache()
                if existing:
                    local_fs.mkdir(target)
                fs.get(fs_join(fs_path, "src") + "/" * has_slash, target, recursive=True)
                place = local_join(target, "src", "file") if existing and not has_slash else local_join(target, "file")
                assert local_fs.isfile(place)
                local_fs.rm(target, recursive=True)
        (src / "file").unlink()
        src.rmdir()


class TestOpen(InhaulFixtures):
    """The part of fsspec's suite for ``open`` that is not about writing."""

    def test_open_reads_and_does_not_write(
        self, fs: Any, fs_join: Any, fs_10_files_with_hashed_names: str
    ) -> None:
        name = fs.find(fs_10_files_with_hashed_names)[0]
        with fs.open(name, "rb") as file:
            assert file.read() in {f"{index}".encode() for index in range(10)}
        for mode in ("wb", "xb", "ab"):
            with pytest.raises(NotImplementedError):
                fs.open(name, mode)
