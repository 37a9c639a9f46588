r"""What may be shown of text that came from outside: short, without secrets, harmless on a screen.

Results are never shown. Names and arguments are: control characters, terminal escapes and characters
that turn the direction of writing are written out (`\u{1b}`), values under telling names and text that
looks like a credential become `***`. When in doubt, text is masked.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from functools import partial
from typing import Final

MASK: Final = "***"

_SHOWN: Final = 160
_TEXT_SHOWN: Final = 72
_TEXT_READ: Final = 512
_ITEMS: Final = 8
_DEPTH: Final = 4
_NODES: Final = 64

_SECRET_NAME: Final = re.compile(
    r"pass(word|wd|phrase|code)?$|password|passwd|secret|token|apikey|authorization|^auth$|credential|cookie"
    r"|privatekey|accesskey|signingkey|encryptionkey|bearer|^pwd$|^pin$|^otp$|sessionid$|connectionstring"
)
_WORDS: Final = (
    r"[\w.-]{0,40}?(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|authorization|credential|cookie"
    r"|private[_-]?key|access[_-]?key)[\w.-]{0,20}"
)
_SCHEMES: Final = r"bearer|basic|digest|negotiate|token|ntlm|apikey|key|bot|oauth|jwt|hmac|aws4-hmac-sha256"
_VALUE: Final = r"(?:\"[^\"]*\"?|'[^']*'?|[^\s,;&|)}\]]+)"
_RULES: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"-----BEGIN [A-Z ]{0,40}KEY.*", re.DOTALL), MASK),
    (re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,20}://)[^\s/@\"']+@"), rf"\1{MASK}@"),
    (re.compile(rf"(?i)([\"']authorization\s*:\s*(?:(?:{_SCHEMES})\s+)?)[^\"'\n]+"), rf"\1{MASK}"),
    (re.compile(rf"(?i)(authorization[\"']?\s*[:=]\s*[\"']?(?:{_SCHEMES})\s+)[^\s\"',;]+"), rf"\1{MASK}"),
    (
        re.compile(
            r"(?i)\b(bearer|basic|digest|negotiate)(\s+)(?=\S*(?-i:[0-9A-Z=+/_-]))[A-Za-z0-9._~+/=-]{6,}"
        ),
        rf"\1\2{MASK}",
    ),
    (
        re.compile(rf"(?i)(?<![\w.-])({_WORDS}\\?[\"']?\s*(?:=>|[:=])\s*)(?!\s*(?:{_SCHEMES})\b)\\?{_VALUE}"),
        rf"\1{MASK}",
    ),
    (re.compile(rf"(?i)(?<![\w.-])((?:[\w.-]{{0,40}}[_-])?pass=){_VALUE}"), rf"\1{MASK}"),
    (
        re.compile(
            rf"(?i)(?<![\w.-])((?:--{_WORDS}|--?pass|-(?:password|passwd|passphrase|pwd|secret|token))\s+)"
            rf"(?!--?[a-z]){_VALUE}"
        ),
        rf"\1{MASK}",
    ),
    (re.compile(rf"(?i)(\bset\s+[^\s-]\S{{0,60}}?{_WORDS}\s+)(?!-){_VALUE}"), rf"\1{MASK}"),
    (
        re.compile(r"((?:^|\s)(?:-u|--user)[\s=]+)(?!\d+:\d+(?:\s|$)|(\w+):\2(?:\s|$))[^\s:]+:\S+"),
        rf"\1{MASK}",
    ),
    (re.compile(rf"(\bsshpass\s+(?:-v\s+)?-p\s*){_VALUE}"), rf"\1{MASK}"),
    (re.compile(rf"(\bhtpasswd\s+-\w*b\w*(?:\s+[^\s-]\S*){{1,2}}\s+){_VALUE}"), rf"\1{MASK}"),
    (
        re.compile(
            rf"(\b(?:echo|printf)\s+(?:-\w+\s+)?){_VALUE}(?=\s*\|[^|;&\n]{{0,80}}\s(?:-\w*S|--(?:password-)?stdin)\b)"
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{8,}"), MASK),
    (re.compile(r"\bgh[a-z]_[A-Za-z0-9]{8,}|\bgithub_pat_\w{8,}|\bglpat-[\w-]{8,}"), MASK),
    (re.compile(r"\bxox[a-z]-[\w-]{6,}|\bxapp-[\w-]{6,}"), MASK),
    (re.compile(r"\b(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{8,}"), MASK),
    (re.compile(r"\bAIza[\w-]{16,}|\bya29\.[\w-]+"), MASK),
    (re.compile(r"\beyJ[\w-]{8,}(?:\.[\w-]*){0,2}"), MASK),
    (re.compile(r"\b(?:npm|hf|pypi|dop_v1|whsec|shpat|lin_api|gsk|xai|r8|tvly)[-_][A-Za-z0-9_-]{10,}"), MASK),
    (re.compile(r"\bSG\.[\w-]{8,}\.[\w-]{8,}|\bAGE-SECRET-KEY-\w+"), MASK),
    (
        re.compile(
            r"(?<![\w/+=.-])(?=[^\s]{0,39}[a-z])(?=[^\s]{0,39}[A-Z])(?=[^\s]{0,39}[0-9])[A-Za-z0-9/+]{40}(?![\w/+=.-])"
        ),
        MASK,
    ),
)
_REST: Final = r"(?:\"[^\"]*\"?|'[^']*'?|[^|;&\n\"'])*+"
"""What follows the name of a program up to the end of its command."""

_GIVEN: Final = r"(?=[^\s-])"
_CLIENTS: Final = tuple(
    (
        re.compile(rf"(?<![\w.-])(?:{programs})(?:\.exe)?(?=\s){_REST}"),
        re.compile(rf"(\s(?:{options})){_VALUE}"),
    )
    for programs, options in (
        (r"mysql\w*|mariadb[\w-]*|mycli|7z[ar]?|(?:un)?rar", rf"-p{_GIVEN}"),
        (r"redis-cli", r"-a\s*|--pass(?:=|\s+)"),
        (
            r"curl|https?|xh",
            (
                r"(?:-[a-zA-Z]{0,5}?[uU]\s*|--(?:proxy-)?user(?:=|\s+))(?=[\"']?[^\s:\"'/]*:)"
                r"|(?:-b\s*|--cookie(?:=|\s+))(?=[\"']?[^\s=\"']+=)"
            ),
        ),
        (
            r"(?:docker|podman|nerdctl|buildah|skopeo|oras|helm|oc|az|cf)\s+(?:[\w-]+\s+)?login|mongo\w*",
            rf"-p\s*{_GIVEN}",
        ),
        (r"(?:un)?zip|sqlcmd|bcp", rf"-P\s*{_GIVEN}"),
        (r"ldap\w+", rf"-w\s*{_GIVEN}"),
        (r"smb\w+|rpcclient|net", r"-U\s*[^\s%]+%"),
        (r"openssl", r"-[kK]\s+|-pass(?:in|out)?\s+(?:pass:)?"),
        (r"gh\s+secret\s+set", r"-b\s*|--body(?:=|\s+)"),
    )
)
"""Programs that take a secret as a short option, and what stands before it."""

_LONG: Final = re.compile(r"[A-Za-z0-9+/_=-]{20,}")
_SEGMENT: Final = re.compile(r"[/_=-]+")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

_HEX: Final = re.compile(r"\b[0-9a-fA-F]{32,}\b")
_HARMLESS_BEFORE: Final = re.compile(
    r"\b(?:sha-?(?:1|224|256|384|512)|md5|blake2[bs]|digest|commit)(?:sum)?[\"']?[ :=]{1,3}[\"']?$|\bmsg-$",
    re.IGNORECASE,
)
"""What a digest or the id of a message is told by; hexadecimal digits that stand alone may be a key."""
_BEFORE: Final = 20

_RANDOM_SIZE: Final = 16
_RANDOM_ENTROPY: Final = 3.2
"""Bits a character; random lower-case letters and digits have about 3.5 at 16 characters."""
_RANDOM_CHANGES: Final = {1: 1.0, 2: 0.25, 3: 0.42}
"""Share of places where the kind of character changes, by the number of kinds: chance gives 0.4 for two
kinds and 0.6 for three, a name in camel case stays below 0.4."""

_HARMFUL: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ud800-\udfff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\uffff\U000e0000-\U000e0fff]"
)
_SPACES: Final = "\xa0\u3000"
_WRITTEN_OUT: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def clean(text: str, limit: int = 200) -> str:
    """The text on one line with every harmful character written out, cut to `limit` characters."""
    shown = _HARMFUL.sub(_written_out, text[:limit])
    if not shown.isprintable():
        shown = "".join(char if char.isprintable() or char in _SPACES else _code(char) for char in shown)
    return _cut(shown, limit) if len(text) <= limit else _cut(shown + "…", limit)


def _written_out(match: re.Match[str]) -> str:
    return _WRITTEN_OUT.get(match[0]) or _code(match[0])


def _code(char: str) -> str:
    return f"\\u{{{ord(char):x}}}"


def mask(text: str) -> str:
    """The text with everything that looks like a credential replaced; linear in the text given."""
    for program, option in _CLIENTS:
        text = program.sub(partial(_mask_options, option), text)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return _LONG.sub(_mask_long, _HEX.sub(_mask_hex, text))


def _mask_options(option: re.Pattern[str], command: re.Match[str]) -> str:
    return option.sub(rf"\1{MASK}", command[0])


def shorten(value: object, limit: int = _SHOWN) -> str:
    """Arguments of a call as they may be shown: one line of at most `limit` characters.

    Takes time that does not depend on how large the arguments are, and never raises for JSON values
    or any other Python value.
    """
    text = _Walk().text(value, 0)
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    return _cut(text, limit)


class _Walk:
    """Writes a value out, stopping after so many parts."""

    def __init__(self) -> None:
        self.left = _NODES

    def text(self, value: object, depth: int) -> str:
        self.left -= 1
        if isinstance(value, str):
            return f'"{_text(value)}"'
        if value is None or isinstance(value, bool):
            return {None: "null", True: "true", False: "false"}[value]
        if isinstance(value, int):
            return str(value) if value.bit_length() < 200 else "(a huge number)"  # noqa: PLR2004 - 60 digits
        if isinstance(value, float):
            return repr(value)
        if self.left <= 0 or depth >= _DEPTH:
            return "…"
        if isinstance(value, dict):
            return self._mapping(value, depth)
        if isinstance(value, list | tuple):
            shown = [self.text(item, depth + 1) for item in value[:_ITEMS]]
            return "[" + ", ".join([*shown, "…"] if len(value) > _ITEMS else shown) + "]"
        return f"({clean(type(value).__name__, 40)})"

    def _mapping(self, value: dict[object, object], depth: int) -> str:
        shown = []
        for number, (name, item) in enumerate(value.items()):
            if number == _ITEMS:
                shown.append("…")
                break
            label = _text(name) if isinstance(name, str) else clean(type(name).__name__, 40)
            hidden = isinstance(name, str) and _secret(name, item)
            shown.append(f"{label}: {MASK if hidden else self.text(item, depth + 1)}")
        return "{" + ", ".join(shown) + "}"


def _secret(name: str, value: object) -> bool:
    """Whether the value under this name must be hidden; counts such as `max_tokens` need not be."""
    plain = re.sub(r"[^a-z]", "", name[:80].lower())
    if not _SECRET_NAME.search(plain) or value is None or isinstance(value, bool):
        return False
    return not ("token" in plain and isinstance(value, int | float))


def _text(value: str) -> str:
    head = value[:_TEXT_READ]
    if len(value) > _TEXT_READ:
        # a credential that the cut goes through might no longer be recognised
        tail = len(re.split(r"[\s\"'=:,;]", head)[-1])
        head = head[: len(head) - tail] if tail < _TEXT_READ // 2 else head
    return _cut(clean(mask(head), _TEXT_READ) + ("…" if len(value) > len(head) else ""), _TEXT_SHOWN)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip("…") + "…"


def _mask_hex(match: re.Match[str]) -> str:
    before = match.string[max(match.start() - _BEFORE, 0) : match.start()]
    return match[0] if _HARMLESS_BEFORE.search(before) else MASK


def _mask_long(match: re.Match[str]) -> str:
    text = match[0]
    if _UUID.fullmatch(text):
        return text
    rest = _HEX.sub("", text)  # what is hexadecimal was looked at before
    return MASK if any(_random(part) for part in _SEGMENT.split(rest)) else text


def _random(text: str) -> bool:
    """Whether a run of letters and digits looks drawn by chance rather than written."""
    size = len(text)
    digits = sum(map(str.isdigit, text))
    if size < _RANDOM_SIZE or digits < 2 or digits == size:  # noqa: PLR2004 - a name with one digit is common
        return False
    kinds = ["0" if char.isdigit() else "A" if char.isupper() else "a" for char in text]
    changes = sum(left != right for left, right in itertools.pairwise(kinds)) / size
    entropy = -sum(n / size * math.log2(n / size) for n in Counter(text).values())
    return entropy >= _RANDOM_ENTROPY and changes >= _RANDOM_CHANGES[len(set(kinds))]
