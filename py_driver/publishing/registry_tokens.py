"""Tokens of a registry's token server, by Docker's token authentication, which the large registries require.

A registry answers 401 with `WWW-Authenticate: Bearer realm="...",service="...",scope="..."`. A GET of the realm, with
the user's password if there is one, returns a token for the request.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from httpx2 import URL, Request

from py_driver.errors import Code, error

if TYPE_CHECKING:
    from collections.abc import Callable

    from httpx2 import Response

_BEARER: Final = re.compile(r"\s*bearer\s+(.*)", re.IGNORECASE | re.DOTALL)
_PARAMETER: Final = re.compile(r'([A-Za-z_]+)\s*=\s*"([^"]*)"')
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,65536}", re.ASCII)
_LOOPBACK: Final = (b"localhost", b"127.0.0.1", b"::1")
_LOGIN: Final = "log in with `docker login` or `oras login`, as a user who may write there"
_OK: Final = 200


def is_private(address: URL) -> bool:
    """Whether requests to an address are private: encrypted, or only within this machine."""
    return address.scheme == "https" or (address.scheme == "http" and address.raw_host in _LOOPBACK)


def asks_for_token(answer: Response) -> bool:
    """Whether a registry requires a token of a token server."""
    return any(_BEARER.match(challenge) for challenge in answer.headers.get_list("WWW-Authenticate"))


def token_of(answer: Response, password: str, send: Callable[[Request], Response]) -> str:
    """Request a token after a registry has refused a request.

    Args:
        answer: the refusal, for which `asks_for_token` holds.
        password: the header value `Basic ...`; empty without a password.
        send: sends a request and returns the answer.

    Raises:
        DriverError: HUB_REFUSED if the token server returns none, or its connection would not be encrypted.
    """
    challenges = answer.headers.get_list("WWW-Authenticate")
    found = next(parts for challenge in challenges if (parts := _BEARER.match(challenge)))
    named = dict(_PARAMETER.findall(found[1]))
    registry = answer.url.netloc.decode()
    realm = answer.url.join(named.get("realm", ""))
    if "realm" not in named or not is_private(realm):
        message = f"{registry} asks for a token of `{named.get('realm', '')}`, which is not an https address"
        raise error(Code.HUB_REFUSED, message, help="the password is not sent there")
    asked = {key: named[key] for key in ("service", "scope") if key in named}
    headers = {"Authorization": password} if password else {}
    reply = send(Request("GET", realm.copy_merge_params(asked), headers=headers))
    if reply.status_code != _OK:
        message = f"the token server {realm.netloc.decode()} of {registry} answered {reply.status_code}"
        raise error(Code.HUB_REFUSED, message, help=_LOGIN)
    try:
        value = reply.json()
        token = value.get("token") or value["access_token"]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        token = ""
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise error(
            Code.HUB_REFUSED, f"the token server {realm.netloc.decode()} of {registry} answered without a token"
        )
    return f"Bearer {token}"
