"""`calibrate_judge`: figures of every signal on the same labels, stored with what they are about."""

from __future__ import annotations

import json
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command

from scoring.attribution import StoredCoefficients
from scoring.calibrating import Judge, calibrate, gather_pairs
from scoring.following_model import HAND_SET, coefficients_from
from scoring.judge.cache import Served
from scoring.judge.pair_asking import PairVerdict
from scoring.judge.verdict import Label
from scoring.labelled_pairs import read_pairs
from scoring.models import Calibration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from scoring.labelled_pairs import LabelledPair


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """48 pairs of 12 rules: install the package, or not; the trace errs on none of them."""
    rows = []
    for number in range(12):
        for followed, script in (
            (True, f"dnf -y install pkg{number}"),
            (True, f"#!/bin/bash\ndnf install pkg{number}"),
            (False, f"dnf -y remove pkg{number}"),
            (False, "systemctl restart sshd"),
        ):
            rows.append(
                {
                    "tip": f"Install it with `dnf install pkg{number}`.",
                    "script": script,
                    "followed": followed,
                    "kind": "opposite" if "remove" in script else "plain",
                    "rule_id": f"rule{number}",
                }
            )
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def run(*args: Any, **options: Any) -> str:
    out = StringIO()
    call_command("calibrate_judge", *args, stdout=out, **options)
    return out.getvalue()


@pytest.mark.django_db
def test_it_measures_every_kind_and_stores_a_row_per_signal(pairs: Path, tmp_path: Path) -> None:
    report = json.loads(
        run("--pairs", str(pairs), "--signals", "trace,judge,combined", "--json",
            "--out", str(tmp_path / "out"))
    )  # fmt: skip
    trace, combined = report["signals"]
    assert [kind["kind"] for kind in trace["kinds"]] == ["all", "opposite", "plain"]
    assert (trace["kinds"][0]["n"], trace["kinds"][0]["rules"]) == (48, 12)
    assert trace["kinds"][0]["tnr"]["value"] == 1.0
    assert combined["kinds"][0]["accuracy"]["value"] == 1.0
    assert any("judge: left out" in note for note in report["notes"])
    assert json.loads((tmp_path / "out" / "calibration.json").read_text()) == report
    assert "opposite" in (tmp_path / "out" / "calibration.md").read_text()
    stored = {row.signal: row for row in Calibration.objects.all()}
    assert set(stored) == {"trace", "combined"}
    assert stored["trace"].pairs_sha256 == read_pairs(pairs).sha256
    assert stored["trace"].coefficients is None
    fitted = coefficients_from(stored["combined"].coefficients)
    assert stored["combined"].version == fitted.version == report["attribution"]["version"]


@pytest.mark.django_db
def test_the_markdown_shows_intervals_and_n_and_hides_no_hostile_kind(pairs: Path) -> None:
    hostile = {"tip": "x", "script": "y", "followed": True, "kind": "a|b\x1b[2J<script>"}
    with pairs.open("a") as file:
        file.write(json.dumps(hostile) + "\n")
    text = run("--pairs", str(pairs), "--signals", "trace")
    assert "a\\|b\\\\x1b[2J\\<script>" in text
    assert "\x1b" not in text
    assert "| TNR (not followed found) | 1.00 [" in text
    assert "n=24" in text


@pytest.mark.django_db
def test_a_judge_is_measured_with_its_silences_and_its_failures(pairs: Path) -> None:
    steps: list[int] = []

    def ask(
        asked: Sequence[LabelledPair], advance: Callable[[int], None]
    ) -> list[PairVerdict | None]:
        answers = {"remove": "contradicted", "install": "followed", "restart": "unclear"}
        said = [next(a for word, a in answers.items() if word in p.script) for p in asked]
        advance(len(asked))
        return [
            None
            if p.tip.endswith("pkg0`.")
            else PairVerdict(Label(label), Served("weights-1", "fp" if number < 4 else "fq"))
            for number, (p, label) in enumerate(zip(asked, said, strict=True))
        ]

    names = ("trace", "judge", "combined")
    gathered = gather_pairs(
        read_pairs(pairs), names, judge=Judge(model="judge-7b", prompt_sha256="f" * 64),
        ask=ask, advance=steps.append,
    )  # fmt: skip
    found = calibrate(gathered, names, resamples=0)
    judge = found.reports[1].overall.figures
    assert (judge["accuracy"].value, judge["accuracy"].n) == (1.0, 33)
    assert judge["failed"].value == pytest.approx(4 / 48)
    assert judge["abstained"].value == pytest.approx(11 / 48)
    assert judge["ece"].value is None
    assert found.fitted is not None
    assert "judge_followed" not in found.fitted.coefficients.hand_set
    assert sum(steps) == 48
    assert [(one.fingerprint, one.decided) for one in gathered.judge.served] == [("fq", 33)]


@pytest.mark.django_db
def test_answers_that_do_not_fit_the_questions_are_refused(pairs: Path) -> None:
    judge = Judge(model="judge-7b", prompt_sha256="0")
    with pytest.raises(ValueError, match="asked about 48 pairs, got 0"):
        gather_pairs(read_pairs(pairs), ("judge",), judge=judge, ask=lambda *_: [])


@pytest.mark.django_db
@pytest.mark.parametrize("how", ["--model", "setting"])
def test_a_model_below_a_billion_is_refused_before_it_is_asked(
    pairs: Path, settings: Any, how: str
) -> None:
    settings.JUDGE_BASE_URL = "http://127.0.0.1:9"
    settings.JUDGE_MODEL = "judge-7b" if how == "--model" else "Qwen2.5-0.5B-Instruct"
    named = ("--model", "SmolLM2-135M") if how == "--model" else ()
    with pytest.raises(CommandError, match="below 1B") as refused:
        run("--pairs", str(pairs), *named)
    assert refused.value.returncode == 2
    assert not Calibration.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    "args", [(), ("--pairs", "x", "--against", "human"), ("--pairs", "/absent")]
)
def test_bad_input_has_its_own_exit_code(args: tuple[str, ...]) -> None:
    with pytest.raises(CommandError) as refused:
        run(*args)
    assert refused.value.returncode == 2


def test_an_unknown_signal_is_refused(pairs: Path) -> None:
    with pytest.raises(CommandError, match="--signals"):
        run("--pairs", str(pairs), "--signals", "trace,moon")


# --- The fit --------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_fit_is_stored_and_used_only_once_it_is_adopted(pairs: Path) -> None:
    signals = ("--pairs", str(pairs), "--signals", "trace,combined")
    text = run(*signals)
    assert "Not adopted: p(followed) goes on with the numbers in use; --adopt" in text
    assert f"{HAND_SET.version} for rows without one" in text
    assert [row.adopted for row in Calibration.objects.filter(signal="combined")] == [False]
    assert StoredCoefficients().of("") == HAND_SET
    text = run(*signals, "--adopt")
    assert "Adopted: p(followed) is computed with this fit" in text
    stored = Calibration.objects.filter(signal="combined").order_by("pk")
    assert [row.adopted for row in stored] == [False, True]
    assert StoredCoefficients().of("").version == stored[1].version
    report = json.loads(run(*signals, "--json"))["fit"]
    assert report["in_use_before"]["without_label"] == stored[1].version
    # the fit in use was made with these very pairs: on unseen rules it cannot look better
    assert report["held_out_log_loss"] >= report["log_loss_of_those_in_use"] > 0


@pytest.mark.django_db
def test_a_dry_run_stores_nothing(pairs: Path) -> None:
    assert "## p(followed)" in run(
        "--pairs", str(pairs), "--signals", "trace,combined", "--dry-run"
    )
    assert not Calibration.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("args", [("--dry-run",), ("--signals", "trace")])
def test_to_adopt_what_is_not_stored_or_not_fitted_is_refused(
    pairs: Path, args: tuple[str, ...]
) -> None:
    with pytest.raises(CommandError, match="--adopt") as refused:
        run("--pairs", str(pairs), *args, "--adopt")
    assert refused.value.returncode == 2


@pytest.mark.django_db
def test_there_is_nothing_to_adopt_where_the_pairs_are_too_few(pairs: Path) -> None:
    few = pairs.read_text().splitlines(keepends=True)[:8]
    pairs.write_text("".join(few))
    with pytest.raises(CommandError, match="no fit to adopt"):
        run("--pairs", str(pairs), "--signals", "trace,combined", "--adopt")


@pytest.mark.django_db
def test_a_signal_that_decided_nothing_is_not_stored(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    pair = {"tip": "Be tidy.", "script": "true", "followed": True, "kind": "k"}
    path.write_text(json.dumps(pair) + "\n")
    run("--pairs", str(path), "--signals", "trace")
    assert not Calibration.objects.exists()


# --- The report -----------------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_report_that_failed_leaves_the_one_before(pairs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    args = ("--signals", "trace", "--out", str(out))
    run("--pairs", str(pairs), *args)
    before = {path.name: path.read_text() for path in out.iterdir()}
    assert set(before) == {"calibration.json", "calibration.md"}
    with pytest.raises(CommandError):
        run("--pairs", str(tmp_path / "absent"), *args)
    assert {path.name: path.read_text() for path in out.iterdir()} == before
