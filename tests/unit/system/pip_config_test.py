"""pip's configuration, as uv is told it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from py_driver.system.pip_config import settings_of
from py_driver.system.uv import Installer, as_uv

if TYPE_CHECKING:
    from pathlib import Path

PRINTED = """global.index-url='https://one.invalid/simple'
global.extra_index_url='https://two.invalid/simple\\nhttps://me:secret@three.invalid/simple'
download.index-url='https://elsewhere.invalid/simple'
install.find-links='/wheels https://four.invalid/wheels'
install.timeout='7'
:env:.index-url=''
:env:.constraint='/etc/constraints.txt'
"""


def test_later_sections_win_and_empty_values_do_not_count() -> None:
    assert settings_of(PRINTED, "install") == {
        "index-url": "https://one.invalid/simple",
        "extra-index-url": "https://two.invalid/simple\nhttps://me:secret@three.invalid/simple",
        "find-links": "/wheels https://four.invalid/wheels",
        "timeout": "7",
        "constraint": "/etc/constraints.txt",
    }
    assert settings_of(PRINTED, "download")["index-url"] == "https://elsewhere.invalid/simple"


def _told(settings: dict[str, str], environ: dict[str, str] | None = None) -> Installer:
    told = as_uv(settings, environ or {})
    assert told is not None
    return told


def test_indexes_are_in_the_environment_where_nobody_else_reads_them() -> None:
    told = _told(settings_of(PRINTED, "install"))
    assert told.options == (
        "--index-strategy=unsafe-best-match",
        "--color=never",
        "--find-links=/wheels",
        "--find-links=https://four.invalid/wheels",
        "--constraint=/etc/constraints.txt",
    )
    assert told.variables["UV_DEFAULT_INDEX"] == "https://one.invalid/simple"
    assert told.variables["UV_INDEX"] == "https://two.invalid/simple https://me:secret@three.invalid/simple"
    assert told.variables["UV_HTTP_TIMEOUT"] == "7"
    assert told.variables["UV_NO_CONFIG"] == "1"
    assert told.keeps


def test_certificates_and_proxies(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.touch()
    assert _told({"cert": str(bundle)}, {"REQUESTS_CA_BUNDLE": "/other"}).variables["SSL_CERT_FILE"] == str(bundle)
    assert _told({"cert": str(tmp_path)}).variables["SSL_CERT_DIR"] == str(tmp_path)
    assert _told({}, {"REQUESTS_CA_BUNDLE": str(bundle)}).variables["SSL_CERT_FILE"] == str(bundle)
    assert _told({"client-cert": "/mine.pem"}).variables["SSL_CLIENT_CERT"] == "/mine.pem"
    variables = _told({"proxy": "http://proxy.invalid:3128"}).variables
    assert {variables[name] for name in ("https_proxy", "HTTPS_PROXY", "HTTP_PROXY")} == {"http://proxy.invalid:3128"}
    assert _told({"trusted-host": "a.invalid b.invalid:8080"}).options[-2:] == (
        "--allow-insecure-host=a.invalid",
        "--allow-insecure-host=b.invalid:8080",
    )


@pytest.mark.parametrize("value", ["1", "true", "0", "false"])
def test_pip_caches_nothing_whatever_no_cache_dir_says(value: str) -> None:
    assert not _told({"no-cache-dir": value}).keeps


@pytest.mark.parametrize(("value", "told"), [("1", True), ("yes", True), ("0", False), ("off", False)])
def test_no_index(value: str, *, told: bool) -> None:
    assert ("--no-index" in _told({"no-index": value}).options) is told


@pytest.mark.parametrize(
    "settings",
    [
        {"pre": "1"},
        {"no-binary": ":all:"},
        {"cache-dir": "/cache"},
        {"keyring-provider": "subprocess"},
        {"a-setting-of-tomorrow": "1"},
        {"index-url": "/srv/simple"},
        {"find-links": "https://me:secret@four.invalid/wheels"},
    ],
)
def test_what_has_no_counterpart_is_left_to_pip(settings: dict[str, str]) -> None:
    assert as_uv(settings, {}) is None
