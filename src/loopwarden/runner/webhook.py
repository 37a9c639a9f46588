"""Posts JSON to a server on this machine, and to no other.

The name is resolved first; every address that it has must be a loopback address, and the connection is made
to that address, so that a name can't mean something else a moment later. Redirects are not followed, no
proxy is used, no cookie kept.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import TYPE_CHECKING, Any, Final

from loopwarden.errors import MissingExtraError

try:
    import httpx2
except ImportError as error:
    raise MissingExtraError("httpx2", "runner") from error

if TYPE_CHECKING:
    from collections.abc import Mapping

SECONDS: Final = 10.0
"""For the whole exchange."""

ANSWER_BYTES: Final = 64 * 1024
"""Of the answer that are read; they are not looked at."""

_SUCCESS: Final = range(200, 300)
_PORTS: Final = range(1, 65_536)


async def post(url: str, body: Mapping[str, Any]) -> int:
    """Post a JSON object, and give back the HTTP status, which is from 200 to 299.

    Raises:
        OSError: The server is not there, too slow, or says that it failed.
        ValueError: The URL is none for a server on this machine.
    """
    try:
        async with asyncio.timeout(SECONDS):
            return await _post(url, body)
    except TimeoutError:
        raise OSError(f"no answer within {SECONDS:g} seconds") from None


async def _post(url: str, body: Mapping[str, Any]) -> int:
    try:
        target = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise ValueError("not a URL") from error
    if target.scheme != "http" or not target.host or target.userinfo:
        raise ValueError(
            "the URL must be http://HOST[:PORT]/..., on this machine, without a name and password"
        )
    port = 80 if target.port is None else target.port
    if port not in _PORTS:
        raise ValueError(f"there is no port {port}")
    address = await _loopback(target.host, port)
    host = target.netloc.decode("ascii")
    try:
        async with (
            httpx2.AsyncClient(follow_redirects=False, trust_env=False, timeout=SECONDS) as client,
            client.stream(
                "POST", target.copy_with(host=address, port=port), json=dict(body), headers={"Host": host}
            ) as response,
        ):
            status = response.status_code
            size = 0
            async for piece in response.aiter_raw():
                size += len(piece)
                if size > ANSWER_BYTES:
                    break
    except httpx2.HTTPError as error:
        raise OSError(f"the server can't be reached ({type(error).__name__})") from error
    if status not in _SUCCESS:
        raise OSError(f"the server answered with status {status}")
    return status


async def _loopback(host: str, port: int) -> str:
    """An address of `host`, all of whose addresses are on this machine."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise OSError(f"{host} has no address") from error
    addresses = [str(entry[4][0]) for entry in found]
    for text in addresses:
        address = ipaddress.ip_address(text.partition("%")[0])
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        if not (mapped or address).is_loopback:
            raise ValueError(f"{host} is not this machine; only loopback addresses are allowed")
    if not addresses:
        raise OSError(f"{host} has no address")
    return addresses[0]
