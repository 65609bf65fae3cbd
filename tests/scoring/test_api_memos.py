"""Memos as JSON over HTTP: served to whom, at no inference, and when there is nothing new to send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from contextgraph import pipeline
from memory.models import Retrieval
from scoring.memos import service
from scoring.memos.gate import check
from scoring.memos.stored import snapshot_from_dict
from scoring.models import Memo
from tests.factories import make_run, make_tip
from tests.scoring.judge.bench_rows import use_judge
from tests.scoring.memos.worlds import World, make_memo_world
from tests.stand_ins.judge_server import JudgeServer

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _quick_logins(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def world(settings: Any) -> World:
    settings.MEMOS, settings.SIGNALS, settings.JUDGE_BASE_URL = "off", ["trace"], ""
    settings.JUDGE_HIGH_STAKES_MODEL = settings.JUDGE_HIGH_STAKES_BASE_URL = ""
    return make_memo_world()


@pytest.fixture
def model(settings: Any, world: World) -> Iterator[JudgeServer]:
    """A model that is there once the runs have been scored."""
    with JudgeServer() as server:
        use_judge(settings, server)
        yield server


def url(product: str, identifier: str) -> str:
    return f"/api/memos/{product}/{quote(identifier, safe='/')}"


def got(client: Client, product: str, identifier: str, **query: str) -> dict[str, Any]:
    response = client.get(url(product, identifier), query)
    assert response.status_code == 200, response.content
    found: dict[str, Any] = response.json()
    return found


@pytest.mark.parametrize(
    ("product", "name"),
    [("run", "run-b"), ("run", "stig/run-b"), ("tip", "stig/tip-bad"), ("tip", "tip-bad"),
     ("category", "stig/ssh"), ("category", "ssh")],
)  # fmt: skip
def test_a_memo_comes_with_its_facts_and_passes_the_gate_of_who_reads_it(
    admin_client: Client, world: World, product: str, name: str
) -> None:
    first, again = got(admin_client, product, name), got(admin_client, product, name)
    snapshot = snapshot_from_dict(first["snapshot"])
    assert check(first["text"], snapshot).passed
    assert first["fingerprint"] == snapshot.fingerprint()
    assert first["gate"]["passed"] is True
    assert (first["cached"], again["cached"]) == (False, True)
    assert (first["text"], first["snapshot"]["product"]) == (again["text"], product)


def test_the_mode_is_chosen(admin_client: Client, world: World) -> None:
    human, agent = (got(admin_client, "run", "run-b", mode=mode) for mode in service.MODES)
    assert (human["mode"], agent["mode"]) == ("human", "agent")
    assert human["text"] != agent["text"]
    response = admin_client.get(url("run", "run-b"), {"mode": "poem"})
    assert (response.status_code, response.json()) == (
        400,
        {"error": "mode is one of human, agent"},
    )


def test_the_skill_is_asked_for_where_several_use_the_name(
    admin_client: Client, world: World
) -> None:
    make_run(skill="cve", external_id="run-b")
    make_tip(skill="cve", external_id="tip-bad")
    for product, name in (("run", "run-b"), ("tip", "tip-bad")):
        response = admin_client.get(url(product, name))
        assert response.status_code == 404
        assert "several skills" in response.json()["error"]
        found = got(admin_client, product, name, skill="stig")
        assert found["snapshot"]["identifier"] == f"stig/{name}"


NAMES = ("no-run", "a/b/c", "\0", "\u202e", "9" * 40, "<b>", " ", "%00", "a/" * 3_000 + "a")


@pytest.mark.parametrize("product", ["run", "tip", "category"])
def test_an_unknown_subject_is_not_found_and_named(
    admin_client: Client, world: World, product: str
) -> None:
    for name in NAMES:
        for query in ({}, {"skill": "stig"}, {"skill": "\0"}):
            response = admin_client.get(url(product, name), query)
            assert response.status_code == 404, (name, query)
            assert response["Content-Type"] == "application/json"
            assert product in response.json()["error"]
    assert "'no-run'" in admin_client.get(url(product, "no-run")).json()["error"]
    assert Memo.objects.count() == 0


def test_an_unknown_product_is_not_found_and_named(admin_client: Client, world: World) -> None:
    response = admin_client.get(url("weather", "x"))
    assert response.status_code == 404
    assert "weather" in response.json()["error"]


# --- No inference -------------------------------------------------------------------------------------


def test_a_get_asks_no_model_and_serves_what_a_model_wrote_before(
    admin_client: Client, world: World, model: JudgeServer
) -> None:
    found = got(admin_client, "run", "run-b")
    assert (found["variant"], found["by_model"], found["calls"]) == ("writer", False, 0)
    assert model.counters()["questions"] == 0
    made = service.memo("run", "run-b", variant="debate")
    asked = model.counters()["questions"]
    found = got(admin_client, "run", "run-b")
    assert (found["variant"], found["by_model"]) == ("debate", True)
    assert found["text"] == made.text
    assert found["verdict"]["accepted"] is True
    service.memo("run", "run-b", variant="single")
    later = model.counters()["questions"]
    assert later > asked
    assert got(admin_client, "run", "run-b")["variant"] == "single", "the setting's comes first"
    assert model.counters()["questions"] == later


def test_a_memo_of_a_model_that_is_no_longer_configured_is_not_served(
    admin_client: Client, world: World, settings: Any, model: JudgeServer
) -> None:
    service.memo("run", "run-b")
    for name, value in (("MEMO_VARIANT", "writer"), ("JUDGE_MODEL", "another")):
        before = getattr(settings, name)
        setattr(settings, name, value)
        assert got(admin_client, "run", "run-b")["variant"] == "writer"
        setattr(settings, name, before)
    assert got(admin_client, "run", "run-b")["variant"] == "single"


def test_prompts_that_cannot_be_read_are_no_error(
    admin_client: Client, world: World, settings: Any, model: JudgeServer, tmp_path: Any
) -> None:
    settings.PROMPTS_DIR = tmp_path
    assert got(admin_client, "run", "run-b")["variant"] == "writer"


# --- Not sent again -----------------------------------------------------------------------------------


def revisit(client: Client, etag: str) -> Any:
    return client.get(url("run", "run-b"), headers={"If-None-Match": etag})


def test_an_unchanged_memo_is_not_sent_again_and_a_changed_one_is(
    admin_client: Client, world: World
) -> None:
    response = admin_client.get(url("run", "run-b"))
    etag = response["ETag"]
    assert response.json()["fingerprint"] in etag
    assert "private" in response["Cache-Control"]
    assert "no-cache" in response["Cache-Control"]
    again = revisit(admin_client, etag)
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", etag)
    rows = Retrieval.objects.filter(run=world.second, tip=world.bad, rule_id="rule_0")
    rows.update(tip_followed_review=False, tip_followed_review_by="ann")
    assert pipeline.recount(world.second.pk)
    changed = revisit(admin_client, etag)
    assert changed.status_code == 200
    assert changed["ETag"] != etag


def test_a_text_that_a_judge_rejects_later_is_not_confirmed(
    admin_client: Client, world: World, settings: Any, model: JudgeServer
) -> None:
    service.memo("run", "run-b")
    etag = admin_client.get(url("run", "run-b"))["ETag"]
    assert revisit(admin_client, etag).status_code == 304
    with JudgeServer() as strong:
        strong.control(memo="rejects")
        settings.JUDGE_HIGH_STAKES_BASE_URL = strong.base_url
        settings.JUDGE_HIGH_STAKES_MODEL = "stand-in-judge"
        service.memo("run", "run-b", high_stakes=True)
    answer = revisit(admin_client, etag)
    assert answer.status_code == 200
    assert answer.json()["reason"].startswith("judge: ")


def test_a_head_has_the_etag_and_no_body(admin_client: Client, world: World) -> None:
    response = admin_client.head(url("run", "run-b"))
    assert (response.status_code, response.content) == (200, b"")
    assert response["ETag"] == admin_client.get(url("run", "run-b"))["ETag"]


# --- Who ----------------------------------------------------------------------------------------------


def user(*, staff: bool, permission: bool, active: bool = True) -> Client:
    one = User.objects.create_user("member", password="x", is_staff=staff, is_active=active)
    if permission:
        one.user_permissions.add(Permission.objects.get(codename="view_memo"))
    client = Client()
    client.force_login(one)
    return client


@pytest.mark.parametrize("role", ["Reviewers", "Operators"])
def test_both_roles_may_read(world: World, role: str) -> None:
    client = user(staff=True, permission=False)
    User.objects.get().groups.add(Group.objects.get(name=role))
    got(client, "run", "run-b")


@pytest.mark.parametrize(
    "who",
    [{"staff": False, "permission": True}, {"staff": True, "permission": False},
     {"staff": True, "permission": True, "active": False}, None],
)  # fmt: skip
def test_nobody_else_may_nor_learns_which_runs_there_are(
    world: World, who: dict[str, bool] | None
) -> None:
    client = Client() if who is None else user(**who)
    answers = [client.get(url("run", name)) for name in ("run-b", "no-such-run")]
    assert [one.status_code for one in answers] == [403, 403]
    assert answers[0].content == answers[1].content
    assert Memo.objects.count() == 0


def test_staff_with_the_permission_may(world: World) -> None:
    got(user(staff=True, permission=True), "run", "run-b")


def test_nothing_but_reading_is_allowed(admin_client: Client, world: World) -> None:
    for ask in (admin_client.post, admin_client.put, admin_client.patch, admin_client.delete):
        assert ask(url("run", "run-b")).status_code == 405
    assert Memo.objects.count() == 0
