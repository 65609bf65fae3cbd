"""Memos in the admin: the text beside its facts, and every link from a figure down to the rows."""

from __future__ import annotations

import html as markup
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from scoring.memos import service
from scoring.memos.cache import Way, sha256_of, store
from scoring.memos.facts import Snapshot, derived, fact
from scoring.memos.facts_formula import Formula
from scoring.memos.writer import write
from scoring.models import Memo
from tests.admin_world import HOSTILE, make_memo
from tests.factories import make_run
from tests.scoring.judge.bench_rows import use_judge
from tests.scoring.memos.snapshots import cited, run
from tests.scoring.memos.worlds import World, make_memo_world
from tests.stand_ins.judge_server import JudgeServer

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.django_db

LIST = "admin:scoring_memo_changelist"


@pytest.fixture(autouse=True)
def _quick_logins(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def world(settings: Any) -> World:
    settings.MEMOS, settings.SIGNALS, settings.JUDGE_BASE_URL = "off", ["trace"], ""
    return make_memo_world()


@pytest.fixture
def model(settings: Any) -> Iterator[JudgeServer]:
    with JudgeServer() as server:
        use_judge(settings, server)
        settings.JUDGE_HIGH_STAKES_MODEL = settings.JUDGE_HIGH_STAKES_BASE_URL = ""
        yield server


def member(*groups: str, permissions: tuple[str, ...] = (), staff: bool = True) -> Client:
    user = User.objects.create_user("member", password="x", is_staff=staff)
    user.groups.set(Group.objects.filter(name__in=groups))
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def about(product: str, key: int) -> str:
    return reverse(f"admin:scoring_memo_about_{product}", args=[key])


def address(row: Memo) -> str:
    return reverse("admin:scoring_memo_change", args=[row.pk])


def page(client: Client, url: str, **query: Any) -> str:
    response = client.get(url, query, follow=True)
    assert response.status_code == 200, url
    return response.content.decode()


def kept(snapshot: Snapshot, text: str = "", **said: Any) -> Memo:
    """A stored memo about *snapshot*."""
    row = store(Way("human", "writer"), snapshot, text or write(snapshot, mode="human"), **said)
    assert row is not None
    return row


def section(html: str, title: str) -> str:
    """The part of a page below a heading, up to the next one."""
    return html.split(f"<h2>{title}", 1)[1].split("<h2>", 1)[0]


def targets(html: str, part: str = "") -> list[str]:
    return [markup.unescape(url) for url in re.findall(r'href="([^"]*)"', part or html)]


# --- From the figure to the rows ----------------------------------------------------------------------


@pytest.mark.parametrize("product", ["run", "tip"])
def test_each_figure_leads_to_its_fact_and_each_fact_to_its_rows(
    admin_client: Client, world: World, product: str
) -> None:
    html = page(admin_client, about(product, {"run": world.second, "tip": world.bad}[product].pk))
    row = Memo.objects.get()
    made = service.memo(product, {"run": "run-b", "tip": "tip-bad"}[product])
    text = section(html, "Memo</h2>")
    for sourced in made.gate.sourced:
        number, figure = sourced.ref[1:], markup.escape(row.text[sourced.start : sourced.end])
        assert re.search(rf'<a href="#fact-{number}" title="[^"]*">{re.escape(figure)}</a>', text)
    anchors = {url for url in targets(html) if url.startswith("#fact-")}
    assert len(anchors) > 10
    assert all(html.count(f'id="{anchor[1:]}"') == 1 for anchor in anchors)
    links = {url for url in targets(section(html, "Facts")) if url.startswith("/")}
    assert len(links) > 5
    for url in links:
        assert admin_client.get(url).status_code == 200, url


def test_the_list_behind_a_count_shows_as_many_rows(admin_client: Client, world: World) -> None:
    page(admin_client, about("run", world.second.pk))
    made = admin_client.get(address(Memo.objects.get())).context["page"]
    compared = 0
    for line in made.lines:
        for source in line.sources:
            if "?" in source.text and not source.only and "run_evidence" not in source.text:
                rows = admin_client.get(source.url).context["cl"].result_count
                assert str(rows) == line.value, line
                compared += 1
    assert compared >= 5


def test_runs_and_tips_lead_to_their_memos(admin_client: Client, world: World) -> None:
    shown = page(admin_client, reverse("admin:memory_run_change", args=[world.second.pk]))
    assert about("run", world.second.pk) in targets(shown)
    record = page(admin_client, reverse("admin:memory_tip_record", args=[world.bad.pk]))
    assert about("tip", world.bad.pk) in targets(record)
    assert reverse(LIST) in page(admin_client, reverse("admin:index"))
    page(admin_client, about("run", world.second.pk))
    assert Memo.objects.get().identifier == "stig/run-b"
    page(admin_client, about("run", world.second.pk))
    assert Memo.objects.get().hits == 1


def test_the_row_that_was_asked_for_is_told_and_no_namesake(
    admin_client: Client, world: World
) -> None:
    namesake = make_run(external_id=str(world.second.pk), status="done")
    page(admin_client, about("run", world.second.pk))
    assert Memo.objects.get().identifier == "stig/run-b"
    page(admin_client, about("run", namesake.pk))
    assert Memo.objects.count() == 2


def test_a_page_leads_to_the_memo_of_today_as_json(admin_client: Client, world: World) -> None:
    for product, row in (("run", world.second), ("tip", world.bad)):
        html = page(admin_client, about(product, row.pk))
        (url,) = [url for url in targets(html) if url.startswith("/api/")]
        assert admin_client.get(url).json()["text"] == Memo.objects.get(product=product).text
    assert "/api/" not in page(admin_client, address(kept(run_external())))


def run_external() -> Snapshot:
    return Snapshot("external", "acme", None, run().facts)


def test_unknown_rows_and_products_are_not_found(admin_client: Client, world: World) -> None:
    for url in (about("run", 0), about("tip", 10**30)):
        assert admin_client.get(url).status_code == 404
    assert Memo.objects.count() == 0
    assert admin_client.post(about("run", world.second.pk)).status_code == 405


# --- A model ------------------------------------------------------------------------------------------


def test_opening_pages_costs_no_inference(
    admin_client: Client, world: World, settings: Any, model: JudgeServer
) -> None:
    html = page(admin_client, about("run", world.second.pk))
    assert "by the writer, without a model" in html
    assert model.counters()["questions"] == 0
    service.memo("run", "run-b")
    asked = model.counters()["questions"]
    assert asked
    html = page(admin_client, about("run", world.second.pk))
    assert "by stand-in-judge (single)" in html
    assert "Accepted by stand-in-judge, default" in html
    checklist = html.split('<table id="checklist">')[1].split("</table>")[0]
    assert re.search(r'<a href="#fact-\d+">F\d+</a>', checklist)
    assert "supported" in checklist
    assert model.counters()["questions"] == asked


def test_a_rejected_text_stands_below_the_writers_with_the_reason(
    admin_client: Client, world: World, model: JudgeServer
) -> None:
    model.control(memo="invents")
    service.memo("run", "run-b")
    html = page(admin_client, about("run", world.second.pk))
    assert "The writer took over from the model:</strong> judge: statement" in html
    assert "weather" in section(html, "Rejected")
    assert "weather" not in section(html, "Memo</h2>")
    assert "It is about the text that was rejected" in html


# --- What is found out --------------------------------------------------------------------------------


def test_omissions_are_listed_material_ones_first(admin_client: Client) -> None:
    snapshot = run()
    row = kept(snapshot, cited("There were 40 {retrievals} retrievals. See {attempts}.", snapshot))
    shown = admin_client.get(address(row)).context["page"]
    told = [line.label for line in shown.lines if line.state == "told"]
    assert told == ["retrievals"]
    material = [line.material for line in shown.omitted]
    assert material == sorted(material, reverse=True)
    assert material.count(True) == 2
    assert {line.label: line.state for line in shown.omitted}["attempts"] == "mentioned"
    html = section(page(admin_client, address(row)), "Left out")
    assert html.count("<tr>") == len(shown.omitted) + 1
    assert "cited without its figure" in html


def test_a_derived_fact_names_what_it_is_made_of(admin_client: Client) -> None:
    row = kept(run())
    numbers = {label: ref[1:] for ref, label in labels(run()).items()}
    html = page(admin_client, address(row))
    line = html.split(f'id="fact-{numbers["change in the share followed"]}"')[1].split("</tr>")[0]
    assert "difference of" in line
    for label in (
        "share of retrievals followed in `run-7`",
        "share of retrievals followed in `run-6`",
    ):
        assert f'href="#fact-{numbers[label]}"' in line


def labels(snapshot: Snapshot) -> dict[str, str]:
    return {ref: item.label for ref, item in snapshot.by_citation.items()}


def test_the_rubric_is_shown_with_its_weights(admin_client: Client) -> None:
    html = section(page(admin_client, address(kept(run()))), "Rubric: 1.00")
    assert "<tr><th>sourcing</th><td>1.00</td><td>0.57</td></tr>" in html
    assert "faithfulness" not in html
    listed = page(admin_client, reverse(LIST))
    assert "1.00" in listed
    assert 'alt="True"' in listed


@pytest.mark.parametrize("with_hash", [False, True])
def test_a_text_that_was_changed_is_shown_as_one(admin_client: Client, *, with_hash: bool) -> None:
    row = kept(run())
    lie = row.text.replace("27 [", "99 [")
    assert lie != row.text
    digest = {"text_sha256": sha256_of(lie)} if with_hash else {}
    Memo.objects.update(text=lie, **digest)
    html = page(admin_client, address(row))
    assert ("This is not the text that was stored" in html) is not with_hash
    assert "<h2>Gate: refused" in html
    assert "right would be 27" in section(html, "Gate: refused")
    assert re.search(r'<strong title="[^"]*">99</strong>', section(html, "Memo</h2>"))
    assert "<h2>Rubric: 0.00" in html
    listed = page(admin_client, reverse(LIST))
    assert 'alt="False"' in listed
    assert "0.00" in listed


@pytest.mark.parametrize(
    "facts",
    [[], {}, "x", 5, {"product": "run"}, {"product": 1, "identifier": [], "as_of": "x", "facts": []},
     {"product": "run", "identifier": "x", "as_of": None, "facts": [{"label": ["x"]}]}],
)  # fmt: skip
def test_a_row_whose_facts_cannot_be_read_opens_and_says_so(
    admin_client: Client, facts: Any
) -> None:
    row = kept(run())
    Memo.objects.update(facts=facts, sides={"a": 1})
    html = page(admin_client, address(row))
    assert "cannot be read" in html
    assert "40" in section(html, "Memo</h2>")
    assert '<table id="facts">' not in html
    assert 'alt="None"' in page(admin_client, reverse(LIST))


@pytest.mark.parametrize("verdict", [[], "x", {"items": 3}, {"accepted": True}])
def test_a_verdict_that_cannot_be_read_hides_nothing_else(
    admin_client: Client, verdict: Any
) -> None:
    row = make_memo("x", 1)
    Memo.objects.update(verdict=verdict, sides=[3, {"name": "for"}])
    html = page(admin_client, address(row))
    assert "The verdict of this row cannot be read" in html
    assert '<table id="facts">' in html


# --- Text of strangers --------------------------------------------------------------------------------


def test_hostile_text_stays_text_wherever_it_stands(admin_client: Client) -> None:
    row = make_memo(HOSTILE, 1)
    html = page(admin_client, address(row))
    ours = html.split("<h2>Memo</h2>")[1].split("As it is stored")[0]
    assert [bad for bad in ("<script>alert", "<img src=x", "\u202e", "\x1b") if bad in ours] == []
    assert "<script>alert" not in html
    text = section(html, "Memo</h2>")
    assert "&lt;script&gt;alert" in text
    assert "\\u202e" in text
    for title in ("Judge", "Facts", "Left out"):
        assert "&lt;script&gt;alert" in section(html, title), title
    assert admin_client.get(address(row)).context["page"].fault == ""


# --- Who, and at what cost ----------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["Reviewers", "Operators"])
def test_both_roles_may_read(world: World, role: str) -> None:
    client = member(role)
    html = page(client, about("run", world.second.pk))
    assert "<h2>Facts" in html
    assert address(Memo.objects.get()) in page(client, reverse(LIST))
    assert about("run", world.second.pk) in page(
        client, reverse("admin:memory_run_change", args=[world.second.pk])
    )


def test_without_the_permission_nothing_is_shown_or_written(world: World) -> None:
    client = member(permissions=("view_run", "view_tip", "view_tipevidence", "view_retrieval"))
    row = kept(run())
    for url in (
        about("run", world.second.pk),
        about("tip", world.bad.pk),
        reverse(LIST),
        address(row),
    ):
        assert client.get(url).status_code == 403, url
    assert Memo.objects.count() == 1
    for name, key in (("run_change", world.second.pk), ("tip_record", world.bad.pk)):
        assert "/about/" not in page(client, reverse(f"admin:memory_{name}", args=[key]))
    assert reverse(LIST) not in page(client, reverse("admin:index"))


def test_who_is_not_staff_is_sent_to_the_login(world: World) -> None:
    for client in (Client(), member(permissions=("view_memo",), staff=False)):
        response = client.get(about("run", world.second.pk))
        assert response.status_code == 302
        assert "/login/" in response["Location"]
    assert Memo.objects.count() == 0


def many(size: int) -> Snapshot:
    counts = [
        fact(f"times `tip {number}` was seen", "count", number + 20, provenance=(f"tips:{number}",))
        for number in range(size)
    ]
    total = derived("all of them", "count", Formula.SUM, counts)
    return Snapshot("run", f"run of {size}", None, (*counts, total))


def test_a_page_of_150_facts_takes_as_many_queries_as_one_of_3(admin_client: Client) -> None:
    counts = []
    for size in (3, 150):
        row = kept(many(size))
        admin_client.get(address(row))
        with CaptureQueriesContext(connection) as queries:
            response = admin_client.get(address(row))
        assert len(response.context["page"].lines) == size + 1
        assert response.context["page"].made.rubric.composite > Decimal(0)
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_a_list_shows_no_more_memos_than_it_can_grade(admin_client: Client) -> None:
    template = kept(run())
    for number in range(40):
        template.pk, template.key = None, f"{number:064d}"
        template.save(force_insert=True)
    for query in ({}, {"all": ""}):
        response = admin_client.get(reverse(LIST), query)
        assert len(response.context["cl"].result_list) == 30


def test_a_memo_that_cannot_be_kept_is_no_error_page(admin_client: Client, world: World) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE scoring_memo RENAME TO lost")
    response = admin_client.get(about("run", world.second.pk))
    assert (response.status_code, response["Location"]) == (302, reverse(LIST))
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE lost RENAME TO scoring_memo")
    assert "The memo could not be kept" in page(admin_client, reverse(LIST))
