"""What a dream pass changed: against the run's last pass, and against the skill's run before it.

Guarantees: `changes` compares stored summaries and nothing else, as plain JSON, so that it can be kept
with the pass; it names the passes that it compares. `markdown` is a function of the stored pass and of
texts that never change, so that the same pass always gives the same document; what strangers wrote
stands in it as code (``memory.markdown``). Tips and categories are sorted by what changed most.

Does not say why something changed: a label, a review, a grade and a policy all move the same figures.

Shaped by: a report that counted categories as lessons, and said nothing about following, misleading tips
or what was evicted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memory.flags import TOLD_APART, Flag
from memory.markdown import cell, code, table
from memory.models import DreamPass, DreamStage, Run, Tip
from memory.rates import rounded

if TYPE_CHECKING:
    from collections.abc import Iterator

REPORT_VERSION: Final = 1
"""Of the report's shape; stored with it."""

LISTED: Final = 20
"""Tips per list of the document; the JSON has them all."""

TEXT_LENGTH: Final = 160
"""Characters of a tip's text that the document quotes."""

COUNTED: Final = ("retrievals", "present", "judged", "followed", "ignored", "unknown")
NOTHING: Final = "–"


def changes(kept: DreamPass, *, run: Run, evict: DreamStage) -> dict[str, Any]:
    """What *kept*, the pass of *run*, says that was not said before.

    ``since_last_pass`` (None for the first pass) and ``since_last_run`` (None for the skill's first):
    ``totals`` as before and after, ``flags`` of tips that changed their word, ``credit`` of tips and
    ``categories`` whose figure moved. ``sweep`` is what the evict stage did, or why it did nothing.
    """
    last = DreamPass.objects.filter(run=run, number__lt=kept.number).order_by("-number").first()
    return {
        "version": REPORT_VERSION,
        "since_last_pass": _since(last, kept),
        "since_last_run": _since(_pass_of_the_run_before(run), kept),
        **sweep_told(evict),
    }


def sweep_told(evict: DreamStage) -> dict[str, Any]:
    """The part of a report that tells of the evict stage."""
    return {
        "sweep": dict(evict.detail) if evict.state == DreamStage.State.DONE else None,
        "sweep_error": evict.error,
    }


def misses_sweep(report: dict[str, Any], evict: DreamStage) -> bool:
    """Whether *report* is older than the run's sweep: the stage had failed when it was written."""
    told = (report["sweep"] or {}).get("sweep") is not None
    return not told and evict.detail.get("sweep") is not None


def _pass_of_the_run_before(run: Run) -> DreamPass | None:
    earlier = Run.objects.current().filter(
        skill=run.skill, status=Run.Status.DONE, started_at__lt=run.started_at
    )
    before = earlier.exclude(external_id=run.external_id).order_by("-started_at", "-pk").first()
    if before is None:
        return None
    return DreamPass.objects.filter(run=before).order_by("-number").first()


def _since(before: DreamPass | None, after: DreamPass) -> dict[str, Any] | None:
    if before is None:
        return None
    old, new = before.summary, after.summary
    run = old["run"]
    return {
        "run": {"id": run["id"], "external_id": run["external_id"]},
        "pass": before.number,
        "policy": before.policy,
        "totals": {
            name: {"before": old["totals"][name], "after": new["totals"][name]} for name in COUNTED
        },
        "flags": _flags(old, new),
        "credit": _credit(old, new),
        "categories": _categories(old, new),
    }


def _flags(old: dict[str, Any], new: dict[str, Any]) -> list[dict[str, Any]]:
    """Tips whose word changed; an older version of the summary knew none, and says nothing."""
    before = {tip["tip_id"]: tip.get("flag") for tip in old["tips"]}
    moved = [
        {"tip": tip["tip"], "tip_id": tip["tip_id"], "before": was, "after": tip["flag"]}
        for tip in new["tips"]
        if (was := before.get(tip["tip_id"])) is not None and was != tip["flag"]
    ]
    order = {str(flag): place for place, flag in enumerate(Flag)}
    return sorted(moved, key=lambda tip: (order[tip["after"]], tip["tip_id"]))


def _credit(old: dict[str, Any], new: dict[str, Any]) -> list[dict[str, Any]]:
    before = {tip["tip_id"]: tip["credit"]["mean"] for tip in old["tips"]}
    found = [
        {"tip": tip["tip"], "tip_id": tip["tip_id"], **moved}
        for tip in new["tips"]
        if tip["tip_id"] in before
        and (moved := _moved(before[tip["tip_id"]], tip["credit"]["mean"]))
    ]
    return sorted(found, key=lambda tip: (-abs(tip["change"] or 0.0), tip["tip_id"]))


def _categories(old: dict[str, Any], new: dict[str, Any]) -> list[dict[str, Any]]:
    before = {category["category"]: signal_of(category) for category in old["categories"]}
    found = [
        {"category": category["category"], **moved}
        for category in new["categories"]
        if category["category"] in before
        and (moved := _moved(before[category["category"]], signal_of(category)))
    ]
    return sorted(found, key=lambda each: (-abs(each["change"] or 0.0), each["category"]))


def signal_of(category: dict[str, Any]) -> float | None:
    """The signal of a summary's category that counts: follow-aware, or the legacy one."""
    signal: float | None = category[f"{category['basis']}_signal"]
    return signal


def _moved(before: float | None, after: float | None) -> dict[str, float | None]:
    """Empty when nothing moved; ``change`` is None when one of the two is not known."""
    if before == after:
        return {}
    known = before is not None and after is not None
    return {
        "before": before,
        "after": after,
        "change": rounded(after - before) if known else None,  # type: ignore[operator]
    }


# --- The document ---------------------------------------------------------------------------------


def markdown(kept: DreamPass) -> str:
    """The pass as a document for people."""
    summary, report = kept.summary, kept.report
    run = summary["run"]
    lines = [
        f"# Dream pass {kept.number} of run {code(run['external_id'], limit=TEXT_LENGTH)}",
        "",
        f"Skill {code(run['skill'])}, revision {run['revision']}, primary key {run['id']}. "
        f"Credit policy {code(kept.policy)}.",
        *_totals(summary["totals"]),
        *_flagged(summary["tips"]),
        *_category_table(summary["categories"]),
    ]
    for key, title in (
        ("since_last_pass", "Since the last pass of this run"),
        ("since_last_run", "Since the run before"),
    ):
        if report.get(key):
            lines += _since_lines(title, report[key])
    lines += _sweep(report)
    return "\n".join(lines) + "\n"


def _totals(totals: dict[str, Any]) -> Iterator[str]:
    yield from ("", "## What was counted", "")
    yield (
        f"{totals['retrievals']} retrievals, {totals['present']} of them shown: "
        f"{totals['followed']} followed, {totals['ignored']} ignored, "
        f"{totals['unknown']} of which nobody knows."
    )
    yield ""
    rows = [
        (name.replace("_", " "), rate_text(totals[name]))
        for name in ("follow_rate", "helpful_when_present", "helpful_when_followed")
    ]
    rows += [
        (f"quadrant: {name.replace('_', ' ')}", str(n)) for name, n in totals["quadrants"].items()
    ]
    yield from table(("figure", "value"), rows)


def _flagged(tips: list[dict[str, Any]]) -> Iterator[str]:
    counts = {flag: sum(tip.get("flag") == flag for tip in tips) for flag in Flag}
    yield from ("", "## Tips", "")
    yield from table(
        ("record", "tips"), [(_word(flag), str(number)) for flag, number in counts.items()]
    )
    for flag in TOLD_APART:
        named = [tip for tip in tips if tip.get("flag") == flag]
        if not named:
            continue
        yield from ("", f"## {_word(flag).capitalize()}", "")
        worst = sorted(named, key=lambda tip: (-_weight(tip, flag), tip["tip_id"]))[:LISTED]
        yield from table(
            ("tip", "when followed it helped", "when present it helped", "credit (shrunk)"),
            [
                (
                    cell(tip["tip"], limit=TEXT_LENGTH),
                    rate_text(tip["helpful_when_followed"]),
                    rate_text(tip["helpful_when_present"]),
                    mean_text(tip["visits"]["credit"]),
                )
                for tip in worst
            ],
        )
        if flag in (Flag.MISLEADING, Flag.LUCKY_NEIGHBOUR):
            yield from ("", *_texts(worst))


def _weight(tip: dict[str, Any], flag: Flag) -> int:
    rows: int = tip["quadrants"][str(flag)]
    return rows


def _texts(tips: list[dict[str, Any]]) -> Iterator[str]:
    """What the tips say."""
    stored = Tip.objects.only("text").in_bulk([tip["tip_id"] for tip in tips])
    for tip in tips:
        text = stored[tip["tip_id"]].text if tip["tip_id"] in stored else ""
        yield (f"- Tip {code(tip['tip'], limit=TEXT_LENGTH)} says {code(text, limit=TEXT_LENGTH)}")


def _category_table(categories: list[dict[str, Any]]) -> Iterator[str]:
    yield from ("", "## Categories", "")
    if not categories:
        yield "None."
        return
    yield from table(
        ("category", "rules remediated", "legacy signal", "follow-aware signal", "counts"),
        [
            (
                cell(each["category"], limit=TEXT_LENGTH),
                rate_text(each["rules_remediated"]),
                number_text(each["legacy_signal"]),
                f"{number_text(each['follow_aware_signal'])} (n {each['follow_aware_n']})",
                each["basis"].replace("_", "-"),
            )
            for each in categories
        ],
    )


def _since_lines(title: str, since: dict[str, Any]) -> Iterator[str]:
    yield from ("", f"## {title}", "")
    yield (
        f"Compared with pass {since['pass']} of run "
        f"{code(since['run']['external_id'], limit=TEXT_LENGTH)} under {code(since['policy'])}."
    )
    yield ""
    moved = [
        f"- {name}: {of['before']}, now {of['after']}"
        for name, of in since["totals"].items()
        if of["before"] != of["after"]
    ]
    moved += [
        f"- tip {code(tip['tip'], limit=TEXT_LENGTH)} was {_word(tip['before'])}, "
        f"now {_word(tip['after'])}"
        for tip in since["flags"][:LISTED]
    ]
    for kind, name in (("credit", "tip"), ("categories", "category")):
        moved += [
            f"- {'credit of tip' if kind == 'credit' else 'signal of category'} "
            f"{code(each[name], limit=TEXT_LENGTH)}: {number_text(each['before'])}, "
            f"now {number_text(each['after'])}"
            for each in since[kind][:LISTED]
        ]
    left = sum(max(0, len(since[kind]) - LISTED) for kind in ("flags", "credit", "categories"))
    if left:
        moved.append(f"- and {left} smaller changes, which the JSON has")
    yield from moved or ["Nothing changed."]


def _sweep(report: dict[str, Any]) -> Iterator[str]:
    yield from ("", "## Eviction", "")
    swept = report.get("sweep")
    if swept is None:
        error = report.get("sweep_error")
        yield f"Not done: {code(error, limit=500)}" if error else "Not done."
    elif swept.get("sweep") is None:
        yield f"No sweep: {code(swept.get('note', ''))}"
    else:
        yield (
            f"Sweep {swept['sweep']} retired {swept['retired']} tips of {swept['caught']} that the gate "
            f"caught ({swept['active']} active). `manage.py sweep --undo {swept['sweep']}` gives them "
            "back."
        )


def _word(flag: str) -> str:
    return flag.replace("_", " ")


def rate_text(rate: dict[str, Any]) -> str:
    """``3 of 5`` with its share and the ends of the interval, in percent; a rate of nothing is a dash."""
    if rate["rate"] is None:
        return NOTHING
    return (
        f"{rate['hits']} of {rate['n']} ({rate['rate']:.0%}, "
        f"{100 * rate['low']:.0f}–{100 * rate['high']:.0f})"
    )


def mean_text(mean: dict[str, Any]) -> str:
    """``+0.25 (-0.10 to +0.60, n 4)``; a mean of nothing is a dash."""
    if mean["mean"] is None:
        return NOTHING
    low, high = number_text(mean["low"]), number_text(mean["high"])
    return f"{number_text(mean['mean'])} ({low} to {high}, n {mean['n']})"


def number_text(number: float | None) -> str:
    """``+0.25``; what is not known is a dash."""
    return NOTHING if number is None else f"{round(number, 2) + 0.0:+.2f}"
