"""What may be shown: no secret, nothing that a screen would obey, never too long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwarden.masking import clean, mask, shorten

if TYPE_CHECKING:
    from collections.abc import Callable

RANDOM = "q7Rk2ZpX9vLm4TsB8nWc"

SECRETS: list[tuple[Any, str]] = [
    ({"password": "hunter2"}, "hunter2"),
    ({"dbPassword": 12345678}, "12345678"),
    ({"headers": {"Authorization": "Bearer abc.def-123"}}, "abc.def"),
    ({"headers": {"X-Api-Key": "zzz"}}, "zzz"),
    ({"Cookie": "sid=1"}, "sid"),
    ({"auth": ["user", "letmein"]}, "letmein"),
    ({"client_secret": {"value": "deep"}}, "deep"),
    ({"command": "curl -H 'Authorization: Bearer abcdef123456' https://host"}, "abcdef123456"),
    ({"command": "curl -u root:toor https://host"}, "toor"),
    ({"command": "export OPENAI_API_KEY=hunter2 && run"}, "hunter2"),
    ({"command": 'TOKEN="two words" run'}, "two words"),
    ({"command": "mysql --password s3cret db"}, "s3cret"),
    ({"url": "https://ann:pa55@host/path"}, "pa55"),
    ({"url": "https://host/?access_token=abc123&x=1"}, "abc123"),
    ({"body": '{"api_key": "k1", "b": 2}'}, "k1"),
    ({"body": '{\\"token\\": \\"k1k1\\"}'}, "k1k1"),
    ({"x": "sk-ant-api03-abcdefgh"}, "abcdefgh"),
    ({"x": "ghp_abcdefghijkl"}, "abcdefgh"),
    ({"x": "github_pat_11AAAAAAA"}, "11AAAAAAA"),
    ({"x": "glpat-abcdefghij"}, "abcdefghij"),
    ({"x": "xoxb-1234-abcd"}, "1234-abcd"),
    ({"x": "AKIAIOSFODNN7EXAMPLE"}, "IOSFODNN7"),
    ({"x": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}, "K7MDENG"),
    ({"x": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.abc"}, "hbGciOi"),
    ({"x": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow"}, "MIIEow"),
    ({"x": "9f86d081884c7d659a2feaa0c55ad015"}, "9f86d081"),
    ({"x": f"id {RANDOM} end"}, RANDOM),
    (f"plain text with password: {RANDOM}", RANDOM),
    ({"x": "a " * 250 + f"token={RANDOM}" * 3}, RANDOM[:6]),
    ({f"key {RANDOM}": 1}, RANDOM),
]


COMMANDS = [
    "mysql -pSECRET -u root",
    "mysqldump -u root -pSECRET db > x.sql",
    "mariadb -pSECRET",
    "sshpass -pSECRET ssh host",
    "sshpass -p SECRET ssh host",
    "sshpass -p 'SECRET' ssh -p 22 host",
    "redis-cli -a SECRET ping",
    "redis-cli -h h -aSECRET get k",
    "curl -u ann:SECRET https://h",
    "curl -uann:SECRET https://h",
    "curl --user ann:SECRET h",
    "curl --user=ann:SECRET h",
    "curl -su 'ann:SECRET' h",
    "psql --password SECRET",
    "tool --password=SECRET",
    "tool --password='SECRET x'",
    "PGPASSWORD=SECRET psql -h h",
    "export DB_PASS=SECRET",
    "MYSQL_PWD=SECRET mysql",
    "git clone https://ann:SECRET@h/r.git",
    "psql postgres://u:SECRET@h/db",
    "redis://:SECRET@h:6379/0",
    "curl -H 'Authorization: Bearer SECRET' h",
    'curl -H "Authorization: Basic SECRET==" h',
    "curl -H 'Authorization: token SECRET' h",
    "curl -H Authorization:SECRET h",
    "curl -H 'X-Api-Key: SECRET' h",
    "wget --header='PRIVATE-TOKEN: SECRET' h",
    "wget --http-password=SECRET h",
    "docker login -u ann -p SECRET",
    "docker login -u ann -pSECRET reg",
    "docker run -e DB_PASSWORD=SECRET img",
    "kubectl create secret generic s --from-literal=password=SECRET",
    "aws configure set aws_secret_access_key SECRET",
    "mongosh -u ann -p SECRET",
    "echo SECRET | sudo -S ls",
    "mysqladmin -u root -p'SECRET' ping",
    "openssl enc -k SECRET",
    "openssl rsa -passin pass:SECRET",
    "smbclient -U ann%SECRET //h/s",
    "zip -P SECRET a.zip f",
    "unzip -P SECRET a.zip",
    "7z x -pSECRET a.7z",
    "ldapsearch -D cn=a -w SECRET",
    "echo '-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----' > k",
    "curl 'https://h/?api_key=SECRET&x=1'",
    "curl -b 'session=SECRET' h",
    'curl -d \'{"password":"SECRET"}\' h',
    "curl -d 'user=a&password=SECRET' h",
    "htpasswd -b f ann SECRET",
    "sqlcmd -S h -U sa -P SECRET",
    "PASSWORD='SECRET' run",
    "gpg --passphrase SECRET -d f",
    "ansible-playbook -e ansible_password=SECRET p.yml",
    "mysql -h db -u root --password='SECRET'",
    "mysql -u root -p\"SECRET\" -e 'select 1'",
    "cd x && mysql -uroot -pSECRET db",
    "sudo mysql -u root -pSECRET",
    "/usr/bin/mysql -pSECRET",
    "curl --proxy-user a:SECRET h",
    "curl -x http://a:SECRET@p h",
    "set -a; TOKEN=SECRET; x",
]
ORDINARY = [
    "mkdir -p dir",
    "ls -la",
    "grep -p x",
    "ssh -p 22 host",
    "cp -p a b",
    "mysql -u root -p db",
    "mysql -h localhost -P 3306 -u root -e 'select 1'",
    "docker run -p 80:80 img",
    "docker run -u 1000:1000 img",
    "python -u script.py a:b",
    "patch -p1 < x.diff",
    "pytest -p no:cacheprovider",
    "redis-cli -h h -p 6379 ping",
    "tar -xpf a",
    "7z x a.7z",
    "git log -p --all",
    "id -u ann",
    "rsync -a src dst",
    "curl -X POST https://h/a",
    "find . -path ./x -prune",
    "mysqldump --port=3306 --all-databases",
    "sshpass -f file ssh -p 22 h",
    "ls basic things",
    "unzip -p a.zip f",
    "docker compose -p proj up",
    "docker login reg",
    "git commit -m 'rotate token usage'",
    "cat secrets.txt",
    "grep -rn password src",
    "echo 'authorization code flow'",
    "helm install -f v.yaml",
    "chown -R user:group d",
    "docker exec -u root:root c ls",
    "docker run --user 1000:1000 img",
    "sort -u names.txt",
    "make -p | less",
    "echo done | tee -a log",
    "7z l a.7z",
    "zip -r a.zip dir",
    "openssl x509 -in cert.pem -noout",
    "gh pr create --body 'text'",
    "http GET example.com/a",
    "export PATH=/usr/bin:$PATH",
    "git config set user.name Ann",
]


@pytest.mark.parametrize("secret", ["s3cr3t-w0rd", "hunter2", "Xy_9.z!Q", "correcthorse"])
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_with_a_secret(command: str, secret: str) -> None:
    shown = mask(command.replace("SECRET", secret))
    assert secret not in shown
    assert secret[:5] not in shown
    assert secret[-4:] not in shown
    assert shown.startswith(command[:2])


@pytest.mark.parametrize("command", ORDINARY)
def test_ordinary_commands_stay_readable(command: str) -> None:
    assert mask(command) == command


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "around", ["cd x && {}", 'bash -c "{}"', "{}; ls -la", "{} | head -1", "sudo {}", "env\n{}"]
)
def test_commands_among_others(command: str, around: str) -> None:
    assert "hunter2" not in mask(around.format(command.replace("SECRET", "hunter2")))


@pytest.mark.parametrize(
    "piece",
    ["mysql -p", "curl -u a:", "'", '"', "set pass", "sshpass -p ", "authorization: ", "pass=", "echo |"],
)
def test_masking_takes_time_that_grows_with_the_text(piece: str) -> None:
    assert len(mask(piece * (4096 // len(piece)))) <= 3 * 4096


@pytest.mark.parametrize(("value", "secret"), SECRETS)
def test_secrets_are_masked(value: Any, secret: str) -> None:
    shown = shorten(value)
    assert secret not in shown
    assert "***" in shown or len(str(value)) > 500


@pytest.mark.parametrize(
    "value",
    [
        {"path": "src/components/UserProfileCard2.tsx", "limit": 10},
        {"max_tokens": 4096, "tokenizer": None},
        {"command": "pytest tests/test_user_profile_returns_404_when_missing.py -q"},
        {"id": "123e4567-e89b-12d3-a456-426614174000"},
        {"query": "how many tokens does it use"},
        {"name": "TestUserProfile2Returns404WhenMissing"},
        {"url": "https://example.com/a/b?page=2#top"},
    ],
)
def test_ordinary_arguments_stay(value: Any) -> None:
    assert "***" not in shorten(value)


def test_arguments_read_like_their_json() -> None:
    assert shorten({"path": "a", "lines": [1, 2.5, None, True]}) == 'path: "a", lines: [1, 2.5, null, true]'
    assert shorten("text") == '"text"'
    assert shorten({}) == ""


@pytest.mark.parametrize(
    ("given_text", "shown"),
    [
        ("\x1b[31mred", "\\u{1b}[31mred"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\u202eevil", "\\u{202e}evil"),
        ("zero\u200bwidth\ufeff", "zero\\u{200b}width\\u{feff}"),
        ("\ud800", "\\u{d800}"),
        ("\U000e0041", "\\u{e0041}"),
        ("\u09cf", "\\u{9cf}"),
        ("Zürich 東京 שלום 🙂", "Zürich 東京 שלום 🙂"),
    ],
)
def test_what_a_screen_would_obey_is_written_out(given_text: str, shown: str) -> None:
    assert clean(given_text) == shown


@pytest.mark.parametrize(
    "make",
    [
        lambda: "x" * 10_000_000,
        lambda: {str(number): "v" * 1000 for number in range(100_000)},
        lambda: [[[[[[[[["deep"]]]]]]]]],
        lambda: 10**5000,
        lambda: {"token=" * 1000: "token=" * 1000},
        lambda: {1: object(), None: b"bytes", ("t",): {1, 2}},
        lambda: float("nan"),
    ],
)
def test_any_value_is_short(make: Callable[[], Any]) -> None:
    shown = shorten(make())
    assert len(shown) <= 160


def test_a_value_within_itself_ends() -> None:
    value: dict[str, Any] = {}
    value["self"] = value
    assert len(shorten(value)) <= 160


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_never_raises_and_always_harmless(value: Any) -> None:
    shown = shorten(value)
    assert len(shown) <= 160
    assert all(char.isprintable() or char in "\u3000\xa0" for char in shown)
    shown.encode()


@given(st.text())
def test_clean_is_bounded_and_encodable(text: str) -> None:
    shown = clean(text, 50)
    assert len(shown) <= 50
    shown.encode()


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz ABC./-_:"))
def test_masking_twice_changes_nothing_more(text: str) -> None:
    assert mask(mask(text)) == mask(text)


@pytest.mark.parametrize(
    "before", ["sha256:", "sha256 ", "digest=", "commit ", '"sha256": "', "md5=", "SHA-1 "]
)
def test_what_is_named_a_digest_is_shown(before: str) -> None:
    text = f"{before}3f786850e387550fdab836ed7e6dc881de23001b"
    assert mask(text) == text


def test_ids_of_our_own_messages_are_shown() -> None:
    text = "Sent to terminal as msg-0b5c1f0e8a7d4c36b2f91e5d7a6c4830"
    assert mask(text) == text


@pytest.mark.parametrize("before", ["", "key ", "digest of key ", "digest key ", "msg-x"])
def test_hex_that_is_not_named_a_digest_is_hidden(before: str) -> None:
    assert "3f786850e387550f" not in mask(f"{before}3f786850e387550fdab836ed7e6dc881de23001b")
