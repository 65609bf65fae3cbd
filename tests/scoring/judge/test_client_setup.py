"""What the client is told (address, key, limits), what it keeps to itself, and what the probe says.

Shaped by keys in logs and URLs, and by a ~/.netrc that took the place of the key.
"""

from __future__ import annotations

import logging
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr

from scoring.judge import errors
from scoring.judge.client import JudgeClient, JudgeConfig
from tests.scoring.judge.questions import ask, failure_of
from tests.stand_ins.judge_server import JudgeServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    ClientOf = Callable[..., JudgeClient]

KEY = "sk-not-a-real-key-7f31"


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/", "/v1/chat/completions"])
def test_the_base_url_may_or_may_not_hold_v1(
    judge: JudgeServer, client_of: ClientOf, suffix: str
) -> None:
    root = judge.base_url.removesuffix("/v1")
    assert ask(client_of(root + suffix)).status == 200


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_url": "127.0.0.1:8000"},
        {"base_url": "ftp://host/v1"},
        {"base_url": f"http://me:{KEY}@host/v1"},
        {"base_url": f"http://host/v1?key={KEY}"},
        {"model": " "},
        {"api_key": SecretStr(f"{KEY}\n")},
        {"api_key": SecretStr("")},
        {"read_timeout_s": 0},
        {"max_tries": 0},
    ],
)
def test_a_configuration_that_cannot_work_is_refused_without_quoting_a_secret(
    wrong: dict[str, Any],
) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        JudgeConfig(**({"base_url": "http://host", "model": "m"} | wrong))
    assert KEY not in str(caught.value)


def test_the_key_is_sent_as_a_bearer_token_only_if_there_is_one(client_of: ClientOf) -> None:
    with JudgeServer(api_key=KEY) as locked:
        assert ask(client_of(locked.base_url, api_key=SecretStr(KEY))).status == 200
        assert type(failure_of(client_of(locked.base_url))) is errors.JudgeMisconfigured
        sent = [seen.headers.get("Authorization") for seen in locked.seen]
    assert sent == [f"Bearer {KEY}", None]


def test_a_netrc_entry_never_takes_the_place_of_the_key(
    judge: JudgeServer, client_of: ClientOf, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    ask(client_of(judge.base_url))
    ask(client_of(judge.base_url, api_key=SecretStr(KEY)))
    sent = [seen.headers.get("Authorization") for seen in judge.seen]
    assert sent == [None, f"Bearer {KEY}"]


@pytest.mark.parametrize("fault", [None, "500", "401", "garbage", "reset", "truncated"])
def test_neither_key_nor_judged_text_reaches_logs_errors_or_reprs(
    client_of: ClientOf, caplog: pytest.LogCaptureFixture, fault: str | None
) -> None:
    caplog.set_level(logging.DEBUG)
    with JudgeServer(api_key=KEY, fault=fault) as server:
        client = client_of(server.base_url, api_key=SecretStr(KEY))
        try:
            said = repr(ask(client))
        except errors.JudgeError as exc:
            said = f"{exc!r} {exc} {exc.provider_text} {exc.__dict__}"
    logged = " ".join(f"{record.getMessage()} {record.exc_text}" for record in caplog.records)
    shown = said + logged + repr(client.config) + str(client.config) + repr(client.__dict__)
    assert KEY not in shown
    assert "makestep" not in shown
    assert fault != "500" or "JudgeServerFault" in logged


def test_a_key_that_the_server_echoes_is_taken_out(client_of: ClientOf) -> None:
    with JudgeServer(model=KEY) as server:  # the 404 of an unknown model lists the known ones
        error = failure_of(client_of(server.base_url, model="other", api_key=SecretStr(KEY)))
    assert error.provider_text.count("[key]") == 1
    assert KEY not in error.provider_text


def test_an_error_survives_the_way_between_processes() -> None:
    error = errors.JudgeOverloaded("cause", mend="mend", status=429, retry_after_s=3.0)
    error.tries = 2
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (type(copy), str(copy), copy.__dict__) == (type(error), "cause: mend", error.__dict__)


@pytest.fixture
def probed(judge: JudgeServer, client_of: ClientOf) -> Iterator[Callable[..., Any]]:
    yield lambda **config: client_of(judge.base_url, **config).probe()


def test_the_probe_lists_the_models_and_says_whether_ours_is_there(
    probed: Callable[..., Any],
) -> None:
    ours, other = probed(), probed(model="another")
    assert (ours.reachable, ours.models, ours.lists_model) == (True, ("stand-in-judge",), True)
    assert ours.problem == ""
    assert (other.reachable, other.lists_model) == (True, False)
    assert "another" in other.problem


def test_the_probe_reports_a_wrong_key_and_a_silent_port(client_of: ClientOf) -> None:
    with JudgeServer(api_key=KEY) as locked:
        wrong = client_of(locked.base_url, api_key=SecretStr("other")).probe()
        gone = locked.base_url
    assert (wrong.reachable, wrong.status) == (True, 401)
    assert "JUDGE_API_KEY" in wrong.problem
    silent = client_of(gone).probe()
    assert (silent.reachable, silent.status, silent.models) == (False, None, ())
    assert "JUDGE_BASE_URL" in silent.problem
