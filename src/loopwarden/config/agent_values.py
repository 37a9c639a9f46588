"""Values of an agent's block that are texts and have to make sense: times, addresses, files, folders.

What can't work is refused where the configuration is read, not when it is used in the middle of a run. Each
check gives the text back as it is, and raises `ValueError` with what is allowed.
"""

from __future__ import annotations

import ipaddress
import os
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Collection

_FIELDS: Final = 5
_CRON: Final = "allowed: five fields (minute, hour, day of month, month, day of week), as `0 9 * * 1-5`"
_BASE_URL: Final = "allowed: http://HOST[:PORT]/... or https://..., as `http://localhost:11434/v1`"
_WEBHOOK: Final = (
    "allowed: http://HOST[:PORT]/... on this machine (localhost, or a loopback address as 127.0.0.1), without"
    " a name and password"
)
_FILE: Final = "allowed: a file inside the workspace, without '..'"
_FOLDER: Final = "allowed: a folder that is there"


def check_cron(text: str) -> str:
    """A cron expression that comes true; where cronsim is not installed only its fields are counted."""
    if len(text.split()) != _FIELDS:
        raise ValueError(_CRON)
    try:
        from cronsim import CronSim, CronSimError  # belongs to the extra that runs agents
    except ImportError:
        return text
    try:
        next(CronSim(text, datetime.now(UTC)))
    except StopIteration:
        raise ValueError(f"{_CRON}; this never comes true") from None
    except (CronSimError, AssertionError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"{_CRON} ({error})") from None
    return text


def check_base_url(text: str) -> str:
    """The address of a model's server."""
    if _host(text, {"http", "https"}) is None:
        raise ValueError(_BASE_URL)
    return text


def check_webhook(text: str) -> str:
    """An address on this machine. Names besides localhost are refused, as they may come to mean another."""
    host = _host(text, {"http"})
    if host is None or "@" in urlsplit(text).netloc or not _loopback(host):
        raise ValueError(_WEBHOOK)
    return text


def check_file(text: str) -> str:
    """The path of a channel's file, by itself; `inside` looks at where it leads."""
    if "\0" in text or ".." in PurePath(text).parts:
        raise ValueError(_FILE)
    return text


def check_folder(text: str) -> str:
    """A folder that is there; `~` is the user's own."""
    try:
        found = Path(text).expanduser().is_dir()
    except (OSError, RuntimeError, ValueError):  # no such user, or no path at all
        found = False
    if not found:
        raise ValueError(_FOLDER)
    return text


def inside(workspace: str | None, file: str) -> str | None:
    """What is wrong with the file of a channel in a workspace; both have passed their own checks."""
    root = os.path.realpath(Path(workspace or ".").expanduser())
    place = os.path.realpath(Path(root, file))
    within = place != root and os.path.commonpath((root, place)) == root
    return None if within and not Path(place).is_dir() else _FILE


def _host(text: str, schemes: Collection[str]) -> str | None:
    """The host of an address, `None` where it is none."""
    if not text.isprintable() or " " in text:
        return None
    try:
        parts = urlsplit(text)
        usable = parts.scheme in schemes and parts.port != 0  # reading the port checks it
    except ValueError:
        return None
    return parts.hostname if usable else None


def _loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
