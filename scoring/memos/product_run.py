"""The facts of a run: how it went, what was followed, which tips misled, what changed since the last.

Guarantees: figures about retrievals are those of the run's last dream pass (``memory.summary``), or a
recount of the run if there is none; rules at which a tip misled are of the same recount (RunEvidence);
figures about attempts are counted from the run's own attempts. Of tips and categories those with most to
tell, a fixed number, in a fixed order. Reads rows of this run and two stored passes, nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.db.models import Count, Q, Sum
from django.db.models.fields.json import KeyTransform

from memory.credit import SUCCESS_ABOVE, policy_named
from memory.flags import Flag
from memory.models import Attempt, DreamPass, Run, RunEvidence, Tip
from memory.summary import summarise
from memory.tip_record import POLICY
from scoring.memos import product_labels as label
from scoring.memos.ledger import Ledger, counts_of, held_by, rows_of
from scoring.memos.naming import Shown, clean, quoted

if TYPE_CHECKING:
    from datetime import date

    from scoring.memos.facts import Fact, Snapshot

WORST_TIPS: Final = 3
WORST_RULES: Final = 3
CATEGORIES: Final = 8


@dataclass(frozen=True, slots=True)
class Counted:
    """The recount that is told: of a kept pass, or made now."""

    summary: dict[str, Any]
    report: dict[str, Any]
    number: int
    key: int
    day: date | None

    def at(self, path: str) -> tuple[str, ...]:
        """Where a figure of the summary stands; of a recount made now only the rows can be named."""
        return (held_by("dream_passes", self.key, f"summary.{path}"),) if self.key else ()


def counted(run: Run) -> Counted:
    """Return the run's last recount; makes one of a run that has none."""
    kept = DreamPass.objects.filter(run=run).order_by("-number").first()
    if kept is not None:
        return Counted(kept.summary, kept.report, kept.number, kept.pk, kept.created_at.date())
    return Counted(summarise(run, policy=policy_named(settings.CREDIT_POLICY)), {}, 0, 0, None)


def run_snapshot(run: Run) -> Snapshot:
    """Return the facts of ``run``."""
    shown, ledger, found = Shown(), Ledger(), counted(run)
    identifier = shown.name("run", f"{run.skill}/{run.external_id}")
    if run.superseded_at is not None:
        identifier = shown.name("run", f"{run.skill}/{run.external_id} revision {run.revision}")
    _attempts(ledger, run)
    _rules(ledger, found)
    _retrievals(ledger, run, found)
    _tips(ledger, run, found, shown)
    _before(ledger, found, shown)
    _since_last_pass(ledger, found)
    ledger.name(label.POLICY, clean(found.summary["policy"]), *found.at("policy"))
    _categories(ledger, found, shown)
    return ledger.snapshot("run", identifier, found.day)


def _attempts(ledger: Ledger, run: Run) -> None:
    graded = Q(outcome_value__isnull=False)
    row = Attempt.objects.filter(run=run).aggregate(
        total=Count("pk"),
        well=Count("pk", filter=graded & Q(outcome_value__gt=SUCCESS_ABOVE)),
        badly=Count("pk", filter=graded & Q(outcome_value__lte=SUCCESS_ABOVE)),
    )

    def where(outcome: str) -> str:
        return rows_of("attempts", run_id=run.pk, outcome=outcome)

    ledger.count(label.ATTEMPTS, row["total"], rows_of("attempts", run_id=run.pk), material=True)
    well = ledger.count(label.SUCCESSFUL, row["well"], where("success"), material=True)
    badly = ledger.count(label.FAILED, row["badly"], where("failure"), material=True)
    ledger.count(label.UNGRADED, row["total"] - row["well"] - row["badly"], where("none"))
    whole = ledger.total(label.GRADED, well, badly)
    ledger.share(label.SUCCESS_SHARE, well, whole)


def _rules(ledger: Ledger, found: Counted) -> None:
    hits, n = _remediated(found.summary["categories"])
    source = found.at("categories.rules_remediated")
    whole = ledger.count(label.RULES, n, *source, material=bool(n))
    part = ledger.count(label.REMEDIATED, hits, *source, material=bool(n))
    ledger.share(label.REMEDIATED_SHARE, part, whole, material=True)


def _remediated(categories: list[dict[str, Any]]) -> tuple[int, int]:
    rates = [each["rules_remediated"] for each in categories]
    return sum(rate["hits"] for rate in rates), sum(rate["n"] for rate in rates)


def _retrievals(ledger: Ledger, run: Run, found: Counted) -> None:
    totals = found.summary["totals"]

    def add(name: str, path: str, value: int, *, material: bool = False, **rows: object) -> Fact:
        source = rows_of("tip_retrievals", run_id=run.pk, **rows)
        return ledger.count(name, value, *found.at(f"totals.{path}"), source, material=material)

    n = counts_of(totals, ("retrievals", "present", "followed", "ignored", "unknown"))
    add(label.RETRIEVALS, "retrievals", n["retrievals"], material=True)
    add(label.SHOWN, "present", n["present"], shown=True)
    followed = add(label.FOLLOWED, "followed", n["followed"], material=True, answer="followed")
    ignored = add(label.IGNORED, "ignored", n["ignored"], answer="ignored")
    add(label.UNANSWERED, "unknown", n["unknown"], answer="none")
    ledger.share(
        label.FOLLOW_SHARE, followed, ledger.total(label.ANSWERED, followed, ignored), material=True
    )
    quadrants = counts_of(totals["quadrants"], tuple(label.QUADRANTS))
    cells = {
        name: add(label.QUADRANTS[name], f"quadrants.{name}", value, material=True, quadrant=name)
        for name, value in quadrants.items()
    }
    whole = ledger.total(label.FOLLOWED_GRADED, cells["earned"], cells["misleading"])
    ledger.share(label.MISLED_SHARE, cells["misleading"], whole, material=True)


# --- Tips -----------------------------------------------------------------------------------------


def _tips(ledger: Ledger, run: Run, found: Counted, shown: Shown) -> None:
    tips = found.summary["tips"]
    ledger.count(label.TIPS, len(tips), *found.at("tips"))
    for flag, name in label.TIPS_CALLED.items():
        n = sum(tip.get("flag") == flag for tip in tips)
        ledger.count(name, n, *found.at("tips.flag"), material=flag == Flag.MISLEADING)
    worst = _worst(tips)
    stored = Tip.objects.only("text").in_bulk([tip["tip_id"] for tip in worst])
    for place, tip in enumerate(worst):
        name = shown.name("tip", tip["tip"])
        if place == 0:
            ledger.name(
                label.WORST_TIP, name, held_by("tips", tip["tip_id"]), *found.at("tips.flag"),
                material=True,
            )  # fmt: skip
        text = stored[tip["tip_id"]].text if tip["tip_id"] in stored else ""
        _tip(ledger, run, found, tip, name, material=place == 0)
        source = held_by("tips", tip["tip_id"], "text")
        ledger.name(label.TEXT.of(name), quoted(text), source)
    if worst:
        _where_it_misled(ledger, run, worst[0], shown)


def _worst(tips: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tips that were followed into failures: the flagged ones first, then by how often."""
    failed = [tip for tip in tips if tip["quadrants"]["misleading"]]
    return sorted(
        failed,
        key=lambda tip: (
            tip.get("flag") != Flag.MISLEADING, -tip["quadrants"]["misleading"],
            tip["quadrants"]["earned"], tip["tip_id"],
        ),
    )[:WORST_TIPS]  # fmt: skip


def _tip(
    ledger: Ledger, run: Run, found: Counted, tip: dict[str, Any], name: str, *, material: bool
) -> None:
    def add(kind: label.Subject, value: int, *, told: bool = False, **rows: object) -> Fact:
        source = rows_of("tip_retrievals", run_id=run.pk, tip_id=tip["tip_id"], **rows)
        return ledger.count(kind.of(name), value, source, material=told)

    cells = tip["quadrants"]
    add(label.TIMES_RETRIEVED, tip["retrievals"])
    add(label.TIMES_FOLLOWED, tip["followed"], told=material, answer="followed")
    good = add(label.INTO_SUCCESS, cells["earned"], quadrant="earned")
    bad = add(label.INTO_FAILURE, cells["misleading"], told=material, quadrant="misleading")
    whole = ledger.total(label.TIMES_GRADED.of(name), good, bad)
    ledger.share(label.FAILURE_SHARE.of(name), bad, whole)
    credit = (tip.get("visits") or {}).get("credit") or {}
    ledger.score(
        label.CREDIT_IN_RUN.of(name), credit.get("mean"),
        *found.at(f"tips.{tip['tip_id']}.visits.credit"),
    )  # fmt: skip


def _where_it_misled(ledger: Ledger, run: Run, tip: dict[str, Any], shown: Shown) -> None:
    """The rules at which the worst tip was followed into a failure; of the same recount as the pass."""
    name = shown.name("tip", tip["tip"])
    here: dict[str, Any] = {"run_id": run.pk, "tip_id": tip["tip_id"], "policy": POLICY}
    rows = RunEvidence.objects.filter(misleading__gt=0, **here).order_by()
    rules = rows.values("rule_id").annotate(n=Sum("misleading")).order_by("-n", "rule_id")
    for rule in rules[:WORST_RULES]:
        source = rows_of("run_evidence", **here, rule_id=rule["rule_id"])
        at = shown.name("rule", rule["rule_id"])
        ledger.count(label.FAILURE_ON.of(name, at), rule["n"], source)


# --- What changed ---------------------------------------------------------------------------------


def _before(ledger: Ledger, found: Counted, shown: Shown) -> None:
    """The run before it, and what changed since."""
    since = found.report.get("since_last_run")
    if not since:
        return
    kept = (
        DreamPass.objects.filter(run=since["run"]["id"], number=since["pass"])
        .values("pk", totals=part_of("totals"), categories=part_of("categories"))
        .first()
    )
    if kept is None:
        return
    name = shown.name("run", since["run"]["external_id"])
    facts_of_run(ledger, name, kept["pk"], kept["totals"], *_remediated(kept["categories"]))
    for change, now, before in (
        (label.REMEDIATED_CHANGE, label.REMEDIATED_SHARE, label.REMEDIATED_SHARE_IN),
        (label.FOLLOW_CHANGE, label.FOLLOW_SHARE, label.FOLLOW_SHARE_IN),
        (label.MISLEADING_CHANGE, label.MISLEADING, label.MISLEADING_IN),
    ):
        ledger.change(
            change, ledger.get(now), ledger.get(before.of(name)),
            material=change != label.MISLEADING_CHANGE,
        )  # fmt: skip


def part_of(part: str) -> KeyTransform:
    """A part of a stored summary; the rest of it is not sent."""
    return KeyTransform(part, "summary")


def facts_of_run(
    ledger: Ledger, name: str, key: int, entry: dict[str, Any], hits: int, n: int,
    *, material: bool = False,
) -> None:  # fmt: skip
    """Add what a pass says of a run, or of a category in it, under the run's shown name."""

    def add(kind: label.Subject, value: int, *paths: str) -> Fact:
        sources = (held_by("dream_passes", key, path) for path in paths)
        return ledger.count(kind.of(name), value, *sources)

    part = add(label.REMEDIATED_IN, hits, "summary.categories.rules_remediated")
    whole = add(label.RULES_IN, n, "summary.categories.rules_remediated")
    ledger.share(label.REMEDIATED_SHARE_IN.of(name), part, whole, material=material)
    counts = counts_of(entry, ("followed", "ignored"))
    paths = [f"summary.totals.{part}" for part in counts]
    followed = add(label.FOLLOWED_IN, counts["followed"], paths[0])
    answered = add(label.ANSWERED_IN, sum(counts.values()), *paths)
    ledger.share(label.FOLLOW_SHARE_IN.of(name), followed, answered, material=material)
    cells = counts_of(entry["quadrants"], ("misleading",))
    add(label.MISLEADING_IN, cells["misleading"], "summary.totals.quadrants.misleading")


def _since_last_pass(ledger: Ledger, found: Counted) -> None:
    """What the pass changed of this run's own figures, and what its sweep retired."""
    source = held_by("dream_passes", found.key, "report")
    since = found.report.get("since_last_pass")
    if since:
        flags, credits = len(since["flags"]), len(since["credit"])
        ledger.count(label.FLAGS_CHANGED, flags, f"{source}.since_last_pass", material=bool(flags))
        ledger.count(label.CREDITS_CHANGED, credits, f"{source}.since_last_pass")
    sweep = found.report.get("sweep") or {}
    if sweep.get("sweep") is not None:
        retired = counts_of(sweep, ("retired",))["retired"]
        ledger.count(
            label.RETIRED, retired, held_by("eviction_sweeps", sweep["sweep"]), material=bool(retired)
        )  # fmt: skip


def _categories(ledger: Ledger, found: Counted, shown: Shown) -> None:
    """The categories with most rules that were not remediated."""
    known = [each for each in found.summary["categories"] if each["rules_remediated"]["n"]]
    if len(known) < 2:
        return
    left = sorted(
        known,
        key=lambda each: (
            each["rules_remediated"]["hits"] - each["rules_remediated"]["n"], each["category"],
        ),
    )  # fmt: skip
    for each in left[:CATEGORIES]:
        if not ledger.has_room:
            return
        name = shown.name("category", each["category"])
        rate = each["rules_remediated"]
        path = found.at(f"categories.{name}.rules_remediated")
        part = ledger.count(label.REMEDIATED_IN.of(name), rate["hits"], *path)
        whole = ledger.count(label.RULES_IN.of(name), rate["n"], *path)
        ledger.share(label.REMEDIATED_SHARE_IN.of(name), part, whole)
