"""Names with all that a name may have, in every method; URLs and names; whose a ticket is."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import inhaul
from inhaul import _names

fsspec = pytest.importorskip("fsspec")

STRANGE = [
    b"plain",
    b"plain#x",
    b"#",
    b"x#plain",
    b"100%",
    b"a%23b",
    b"%00",
    b"who?",
    b"*",
    b"[ab]",
    b"a",
    b" space ",
    b"tab\t",
    b"line\nbreak",
    b"semi;colon,comma",
    b"back\\slash",
    b"c::d",
    b"inhaul:",
    b"...",
    b"-x",
    "é".encode(),
    b"\xff.bin",
    b"half\xc3",
]
DIRECTORIES = [b"", b"d#2", b"d", b"[d]", b"\xfe", b"a b%"]


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, inhaul.Server, dict[str, bytes]]]:
    root = tmp_path_factory.mktemp("strange")
    contents = {}
    for directory in DIRECTORIES:
        for name in STRANGE:
            path = os.path.join(directory, name)
            full = os.path.join(os.fsencode(root), path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            Path(os.fsdecode(full)).write_bytes(b"this is " + path)
            contents[os.fsdecode(path)] = b"this is " + path
    with inhaul.Server(root, public=True) as server:
        yield root, server, contents


def system(server: inhaul.Server, **options: Any) -> Any:
    ticket = server.address_of().split("#")[1]
    return fsspec.filesystem("inhaul", ticket=ticket, state="", skip_instance_cache=True, **options)


def test_every_name_that_is_listed_is_that_file_in_every_method(
    strange: tuple[Path, inhaul.Server, dict[str, bytes]], tmp_path: Path
) -> None:
    _, server, contents = strange
    host = server.address
    listing = system(server)
    listed = [one for top in listing.ls(host, detail=False) for one in ([top] if listing.isfile(top) else listing.ls(top, detail=False))]
    assert {one[len(host) + 1 :] for one in listed} == set(contents)
    walked = [f"{top}/{name}" for top, _, names in listing.walk(host) for name in names]
    assert sorted(walked) == sorted(listed) == system(server).find(host) == sorted(system(server).glob(f"{host}/**", withdirs=False))
    for number, one in enumerate(listed):
        # Each on its own, and all in an open data set.
        for fs in [listing, system(server)] if number % 7 == 0 else [listing]:
            want = contents[one[len(host) + 1 :]]
            assert fs.isfile(one) and fs.exists(one) and fs.size(one) == len(want), one
            assert fs.info(one)["name"] == one and fs.ls(one, detail=False) == [one]
            assert fs.cat_file(one) == fs.cat(one) == fs.open(one).read() == want
            assert fs.cat_ranges([one], 8, None) == [want[8:]]
            assert fs.glob(one) == [one] and fs.find(one) == [one]
            fs.get_file(one, str(tmp_path / "file"))
            assert (tmp_path / "file").read_bytes() == want
            fs.get(one, str(tmp_path / "got"))
            assert (tmp_path / "got").read_bytes() == want
            assert sorted(os.listdir(tmp_path)) == ["file", "got"]
    data_set = inhaul.Client(state="").open(server.address_of())
    assert {path: data_set.read(path) for path in data_set.files} == contents


def test_urls_and_names_are_made_of_each_other(strange: tuple[Path, inhaul.Server, dict[str, bytes]]) -> None:
    _, server, contents = strange
    fs = system(server)
    fs.find(server.address)
    for path, want in contents.items():
        name = f"{server.address}/{path}"
        url = fs.unstrip_protocol(name)
        assert url.startswith("inhaul://") and "#" not in url and fs._strip_protocol(url) == name
        assert fs.unstrip_protocol(url) == url and fs._strip_protocol(name) == name
        assert fs.cat_file(url) == want
        utf8 = all(ord(sign) < 0xDC80 or ord(sign) > 0xDCFF for sign in path)
        if utf8:
            opened = fsspec.open(server.address_of(path), state="")
            with opened as file:
                assert file.read() == want
            assert inhaul.Client(state="").open(server.address_of(path)).read() == want
        assert fs._parent(name) == name.rpartition("/")[0]


def test_all_of_them_are_fetched(strange: tuple[Path, inhaul.Server, dict[str, bytes]], tmp_path: Path) -> None:
    _, server, contents = strange
    system(server).get(server.address, str(tmp_path / "all"), recursive=True)
    found = {}
    for top, _, names in os.walk(tmp_path / "all"):
        for name in names:
            path = os.path.join(top, name)
            found[os.path.relpath(path, tmp_path / "all")] = Path(path).read_bytes()
    assert found == contents


def test_what_is_no_name_is_not_found(strange: tuple[Path, inhaul.Server, dict[str, bytes]]) -> None:
    _, server, _ = strange
    fs = system(server)
    for path in ("d/../plain", "./plain", "plain\0", "..", "d/.", "none#plain", "plain#none", "plain "):
        assert not fs.exists(f"{server.address}/{path}"), path
        with pytest.raises(FileNotFoundError):
            fs.cat_file(f"{server.address}/{path}")
    assert fs.cat_file(f"{server.address}//d///plain/") == b"this is d/plain"
    with pytest.raises(ValueError, match="write a # of a name as %23"):
        fs.cat_file(f"inhaul://{server.address}/plain#x")
    with pytest.raises(ValueError, match="write % as %25"):
        fs.cat_file(f"inhaul://{server.address}/100%")
    with pytest.raises(ValueError) as refused:
        fs.cat_file(f"inhaul://{server.address}/plain#secret!")
    assert "secret" not in str(refused.value)
    assert fs.glob(f"{server.address}/none/*") == []


def test_a_bracket_of_a_host_is_no_pattern(tmp_path: Path) -> None:
    (tmp_path / "f1").write_bytes(b"1")
    try:
        server = inhaul.Server(tmp_path, listen="[::1]:0", public=True)
    except OSError:
        pytest.skip("this host has no IPv6")
    with server:
        fs = system(server)
        assert fs.glob(f"{server.address}/f*") == [f"{server.address}/f1"]
        assert fs.cat(f"{server.address}/f1") == b"1"
        assert fs.cat(f"{server.address}/f[12]") == {f"{server.address}/f1": b"1"}


def test_links_are_what_they_lead_to_whatever_is_open(tmp_path: Path) -> None:
    (tmp_path / "s" / "dir").mkdir(parents=True)
    (tmp_path / "s" / "real").write_bytes(b"real")
    (tmp_path / "s" / "dir" / "x").write_bytes(b"x")
    (tmp_path / "s" / "link").symlink_to("real")
    (tmp_path / "s" / "dlink").symlink_to("dir")
    with inhaul.Server(tmp_path, public=True) as server:
        fs = system(server)
        for look in (lambda: None, lambda: fs.find(f"{server.address}/s")):
            look()
            assert fs.cat_file(f"{server.address}/s/link") == b"real"
            assert fs.cat_file(f"{server.address}/s/dlink/x") == b"x"
            assert fs.isdir(f"{server.address}/s/dlink") and not fs.exists(f"{server.address}/s/dlink/none")


NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1).filter(
    lambda name: name not in (".", "..")
)


@given(st.lists(NAMES, min_size=1, max_size=3))
def test_any_name_survives_its_url(parts: list[str]) -> None:
    name = "host:1,other/" + "/".join(parts)
    assert _names.name_of(_names.url_of(name)) == name == _names.name_of(name)
    fingerprint = "A" * 43
    assert _names.split_url(_names.url_of(name, fingerprint)) == (name, fingerprint)


def test_a_ticket_goes_to_its_server_only(
    server: inhaul.Server, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fingerprint = server.address_of().split("#")[1]
    token = "." + "A" * 80
    cls = fsspec.get_filesystem_class("inhaul")
    assert cls._get_kwargs_from_urls(f"inhaul://a:1/x#{fingerprint}") == {"ticket": fingerprint}
    assert cls._get_kwargs_from_urls(f"inhaul://a:1/x#{token}") == {"ticket": f"a:1#{token}"}
    assert cls._get_kwargs_from_urls("inhaul://a:1/x%23b") == {}
    fs = fsspec.filesystem("inhaul", ticket=f"a:1#{token}", state="")
    assert fs._address("a:1/x") == f"inhaul://a:1/x#{token}" and fs._address("b:1/x") == "inhaul://b:1/x"
    with pytest.raises(ValueError, match="which server it is for"):
        fsspec.filesystem("inhaul", ticket=token, state="")
    # From the environment: a ticket without a server is not shown, a ticket with a server is shown there, and others
    # are asked without.
    name = f"{server.address}/a"
    with inhaul.Server(tmp_path, public=True) as other:
        for bare in (token, token[1:]):
            monkeypatch.setenv("INHAUL_TICKET", bare)
            with pytest.warns(UserWarning, match="does not say which server"):
                fsspec.filesystem("inhaul", state="", skip_instance_cache=True)
        monkeypatch.setenv("INHAUL_TICKET", f"{server.address}#{fingerprint}")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            made = fsspec.filesystem("inhaul", state="", skip_instance_cache=True)
        assert made.cat_file(name) == (tree / "a").read_bytes()
        with pytest.raises(PermissionError, match="not known here"):
            made.ls(other.address)
        # By key, with any name: others are asked without it.
        monkeypatch.setenv("INHAUL_TICKET", fingerprint)
        by_key = fsspec.filesystem("inhaul", state="", accept_new=True, skip_instance_cache=True)
        assert by_key.cat_file(name) == (tree / "a").read_bytes()
        assert by_key.ls(other.address) == []
        # By name: another key there is never taken, even where unknown ones are.
        monkeypatch.setenv("INHAUL_TICKET", f"{other.address}#{fingerprint}")
        by_name = fsspec.filesystem("inhaul", state="", accept_new=True, skip_instance_cache=True)
        with pytest.raises(PermissionError):
            by_name.ls(other.address)
    monkeypatch.delenv("INHAUL_TICKET")
    secret = tmp_path / "tickets"
    secret.write_text(f"{server.address}#{fingerprint}\n")
    secret.chmod(0o600)
    by_file = fsspec.filesystem("inhaul", state="", token_file=str(secret), skip_instance_cache=True)
    assert by_file.cat_file(name) == (tree / "a").read_bytes()
    secret.chmod(0o644)
    with pytest.raises(ValueError, match="file of tokens"):
        inhaul.Client(state="", token_file=secret)
