"""Secrets leave as markers, ordinary configuration leaves as it is.

All secrets here are made up. Shaped by keys that went to a hosted model, and by a redactor that ate
the very values a tip was about.
"""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.judge.redact import redact

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow==\nAbc+/\n-----END RSA PRIVATE KEY-----"
OPENSSH = '"-----BEGIN OPENSSH PRIVATE KEY-----\\nb3BlbnNzaA\\n-----END OPENSSH PRIVATE KEY-----"'
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0xx.c2lnbmF0dXJlLWhlcmU"

SECRETS = [
    ("private_key", f"cat > k <<EOF\n{PEM}\nEOF", "MIIEow=="),
    ("private_key", f'{{"private_key": {OPENSSH}}}', "b3BlbnNzaA"),
    ("private_key", "-----BEGIN PRIVATE KEY-----\nMIIEcut", "MIIEcut"),
    ("private_key", "AGE-SECRET-KEY-1QQQQQQQQQQQQQQQQQQQQQQQQQQ", "QQQQ"),
    ("authorization", "curl -H 'Authorization: Bearer abcdef123456' https://h", "abcdef123456"),
    ("authorization", 'headers = {"Authorization": "Basic dXNlcjpwYXNz"}', "dXNlcjpwYXNz"),
    ("authorization", "bearer 0123456789abcdef0123", "0123456789abcdef0123"),
    ("header", "curl -H 'X-Api-Key: k-12345-abc' https://h", "k-12345-abc"),
    ("header", "curl -H 'Cookie: session=abc123; id=7' https://h", "session=abc123"),
    ("url_password", "git clone https://bot:s3cr3tpw@git.example.org/r.git", "s3cr3tpw"),
    ("url_password", "DATABASE=postgres://app:pa%24s@db:5432/x", "pa%24s"),
    ("url_token", "curl https://hooks.slack.com/services/T000/B000/XXXXyyyy", "XXXXyyyy"),
    ("url_token", "curl 'https://b.example.net/f?sv=1&sig=AbCd%2F1234567890'", "AbCd%2F"),
    ("jwt", f"echo {JWT}", "c2lnbmF0dXJl"),
    ("cloud_key", "aws configure set aws_access_key_id AKIAABCDEFGHIJKLMNOP", "AKIAABCD"),
    ("cloud_key", f"key: AIza{'a' * 35}", "AIzaaaa"),
    ("token", f"git push https://h/{'ghp_' + 'A1' * 18}", "ghp_A1"),
    ("token", f"export X={'glpat-' + 'x' * 20}", "glpat-x"),
    ("token", f"slack({'xoxb-' + '1' * 12})", "xoxb-1"),
    ("token", f"openai {'sk-' + 'a' * 40}", "sk-aaa"),
    ("token", f"pip install --token {'pypi-' + 'A' * 40}", "pypi-AAA"),
    ("token", f"vault login {'hvs.' + 'C' * 24}", "hvs.CCC"),
    ("password_hash", "root:$6$saltsalt$hashhashhashhashhash:19000:0:99999:7:::", "hashhash"),
    ("password_hash", "usermod -p '$y$j9T$abcdefgh$ijklmnopqrst' root", "ijklmnop"),
    (
        "password_hash",
        "password_pbkdf2 root grub.pbkdf2.sha512.10000.ABCDEF0123456789.00FF",
        "ABCDEF",
    ),
    ("password_hash", "userPassword: {SSHA}AbCdEfGhIjKlMnOp", "AbCdEf"),
    ("password", "echo 'root:Winter2099!' | chpasswd", "Winter2099!"),
    ("password", 'printf "%s:%s\\n" bob Winter2099 | sudo chpasswd', "Winter2099"),
    ("password", "chpasswd <<< 'bob:Winter2099'", "Winter2099"),
    ("password", "echo Winter2099 | passwd --stdin root", "Winter2099"),
    ("password", "echo Winter2099 | sudo -S ls", "Winter2099"),
    ("password", "sshpass -p 'Winter 2099' ssh h", "Winter 2099"),
    ("password", "mysql -uroot -pWinter2099 -e 'select 1'", "Winter2099"),
    ("password", "curl -s -u admin:Winter2099 https://h", "Winter2099"),
    ("password", "openssl passwd -6 -salt ab Winter2099", "Winter2099"),
    ("password", "htpasswd -cb /etc/f bob Winter2099", "Winter2099"),
    ("password", "useradd -m -p Winter2099 bob", "Winter2099"),
    ("password", "PGPASSWORD=Winter2099 psql", "Winter2099"),
    ("password", "db_password: 'Winter 2099'", "Winter 2099"),
    ("password", '{"client_secret": "abc-Def"}', "abc-Def"),
    ("password", "aws_secret_access_key = wJalr/XUtn+abc", "wJalr"),
    ("password", "wpa-psk=WinterIsHere", "WinterIsHere"),
    ("password", "restic --password Winter2099 backup", "Winter2099"),
    ("password", "rootpw=hunter22", "hunter22"),
    ("password", "CREATE USER a IDENTIFIED BY 'Winter2099'", "Winter2099"),
]

ORDINARY = [
    "PASS_MAX_DAYS 60",
    "PASS_MIN_LEN=15",
    "PASSWORD_MIN_LENGTH=15",
    "PermitEmptyPasswords no",
    "PasswordAuthentication=no",
    "ssh -o PasswordAuthentication=no h",
    "vi /etc/pam.d/password-auth /etc/pam.d/system-auth",
    "password    requisite     pam_pwquality.so retry=3 minlen=15",
    "password sufficient pam_unix.so sha512 shadow use_authtok",
    "sed -i 's/^password.*pam_unix.*/& remember=5/' /etc/pam.d/password-auth",
    "passwd -l root && passwd --status root",
    "chage -M 60 -m 1 root",
    "ENCRYPT_METHOD SHA512",
    "crypt_style = sha512",
    'PASSWORD="$1"',
    "password=${PASSWORD:?}",
    "TOKEN=$(cat /run/secrets/token)",
    "password: {{ vault_password }}",
    "password = os.environ['PW']",
    "--password-file=/etc/restic.key",
    "password_file: /etc/restic.pw",
    "secret: null",
    "token = none",
    "password=<your password>",
    "retry_password = 3",
    "ssh-keygen -t ed25519 -f /etc/ssh/key -N ''",
    "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQC7 root@h",
    "-----BEGIN CERTIFICATE-----\nMIIDdz==\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMIIBIj==\n-----END PUBLIC KEY-----",
    "sha256sum -c <<< '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  x'",
    "gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY",
    "MACs hmac-sha2-512-etm@openssh.com,hmac-sha2-256",
    "curl http://127.0.0.1:8080/path@2",
    "scp a@h:/etc/x b@g:/y",
    "mkdir -p /etc/x; cp -p a b",
    "kernel.kptr_restrict = 1",
    "auditctl -w /etc/shadow -p wa -k identity",
    "authselect enable-feature with-faillock",
    "minlen = 15\ndcredit = -1",
    "mysql -p",
    "curl -u $USER:$PASS https://h",
    "find / -perm -4000 -exec ls -l {} +",
]


@pytest.mark.parametrize(("kind", "text", "secret"), SECRETS)
def test_a_secret_becomes_a_marker_and_the_row_can_say_so(
    kind: str, text: str, secret: str
) -> None:
    done = redact(text)
    assert secret in text
    assert secret not in done.text
    assert done.kinds == {kind: 1}
    assert f"[REDACTED:{kind}:1]" in done.text
    assert done.text.split("[REDACTED:")[0] == text[: len(done.text.split("[REDACTED:")[0])]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_configuration_is_left_alone(text: str) -> None:
    assert redact(text).text == text
    assert redact(text).kinds == {}


def test_the_same_secret_keeps_its_number_and_another_gets_the_next() -> None:
    text = "password=alpha1\npassword=beta22\npassword=alpha1\nsudo x"
    done = redact(text)
    assert done.text == (
        "password=[REDACTED:password:1]\npassword=[REDACTED:password:2]\n"
        "password=[REDACTED:password:1]\nsudo x"
    )
    assert done.kinds == {"password": 3}


def test_redacting_twice_changes_nothing_and_counting_goes_on() -> None:
    once = redact("password=alpha1").text
    assert redact(once) == type(redact(""))(once, {})
    assert redact(f"{once}\nsecret=beta22").text == f"{once}\nsecret=[REDACTED:password:2]"


pieces = st.sampled_from([text for _, text, _ in SECRETS] + ORDINARY) | st.text(max_size=12)


@settings(deadline=None, max_examples=300)
@given(st.lists(pieces, max_size=6), st.sampled_from(["\n", " ", ""]))
def test_any_text_is_redacted_once_and_for_all(parts: list[str], glue: str) -> None:
    once = redact(glue.join(parts))
    assert redact(once.text) == type(once)(once.text, {})


@pytest.mark.parametrize(
    "text",
    ["-----BEGIN PRIVATE KEY-----\n" * 900, "password=" * 2_700, "a-" * 12_000, "echo a:" * 3_500,
     "curl -u " * 3_000, "://:" * 6_000, "eyJaaaaaaaaa." * 1_800, "password=abc1234 " * 1_400],
)  # fmt: skip
def test_a_hostile_script_is_redacted_in_moments(text: str) -> None:
    started = time.monotonic()
    redact(text)
    assert time.monotonic() - started < 2.0
