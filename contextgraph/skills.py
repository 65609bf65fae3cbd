"""What a skill is made of: one folder under ``prompts/``, read once, checked as a whole.

Guarantees: a skill without a file of its own gets that of ``default``, file by file: a folder that holds
a judge prompt and no ``skill.toml`` is graded by the defaults, and one that holds neither is no skill;
a file that does not make sense is refused with its path, key and cause before any run is graded by it;
nothing in the database shadows a file.
No Django: readers, graders and the ranker all sit above this room.
"""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from pathlib import Path  # noqa: TC003 - pydantic and lru_cache callers need it at run time
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

DEFAULT = "default"
FILE_NAME = "skill.toml"
FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Skills that may have a folder. The name comes from a sender: it must not leave the prompts' folder."""

Grade = Annotated[float, Field(ge=-1.0, le=1.0)]
Weight = Annotated[float, Field(ge=-1_000.0, le=1_000.0)]
"""Far beyond any use, and far from where sums of them overflow in the database."""


class SkillError(ValueError):
    """A skill file that cannot be used; names the file, the key and the cause."""


class Part(BaseModel):
    """Strict: a misspelt key in a skill file is an error, not a silent default; TOML's nan and inf, too.

    Nothing can be ordered by a weight that is no number.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Rung(Part):
    """From this attempt on (1-based), a pass is worth this much."""

    from_attempt: int = Field(ge=1)
    value: Grade


class RawField(Part):
    """A raw evaluator field whose exact token outranks the sender's own reading of it.

    A ``bad`` token proves the failure mode; an ``undecided`` one, without a ``good`` one beside it,
    proves that nothing was checked. Tokens are compared whole and without regard to case.
    """

    field: str
    position: Literal["first", "result"] = Field(
        description="first: the first line that starts with a token of this rule decides. result: "
        "the last Result line; without one, a token that a line starts with (FAIL: ...), ends with "
        "(... = FAIL) or consists of."
    )
    good: tuple[str, ...] = ()
    bad: tuple[str, ...] = Field(min_length=1)
    undecided: tuple[str, ...] = ()
    failure_mode: str = Field(min_length=1)


class Grading(Part):
    """The grading ladder. ``version`` is stored with every outcome that it gave."""

    version: str = Field(min_length=1, max_length=20)
    kind: Literal["ladder", "binary", "sender"]
    passed: Grade = 1.0
    failed: Grade = 0.0
    confidence: float = Field(default=1.0, ge=0.0, le=1.0)
    ladder: tuple[Rung, ...] = ()
    failure_modes: dict[str, Grade] = Field(default_factory=dict)
    error_prefixes: tuple[str, ...] = ()
    error_modes: tuple[str, ...] = ()
    pending_modes: tuple[str, ...] = ()
    raw: tuple[RawField, ...] = ()

    @model_validator(mode="after")
    def _ladder_climbs(self) -> Grading:
        steps = [rung.from_attempt for rung in self.ladder]
        if self.kind == "ladder" and (not steps or steps[0] != 1 or sorted(set(steps)) != steps):
            msg = "a ladder starts at attempt 1 and its attempts increase"
            raise ValueError(msg)
        return self


class Eviction(Part):
    """The gate below which a tip is worth retiring. All conditions must hold (ADR-0019, issue 4).

    ``threshold`` stands on the scale of ``policy`` ("": the deployment's CREDIT_POLICY): a policy in
    which ignored rows earn nothing and one in which they leave the denominator need different ones.
    """

    min_retrievals: int = Field(default=10, ge=1, description="visits with credit, at least")
    threshold: Grade = 0.5
    policy: str = ""
    interval_below: bool = Field(
        default=True, description="the whole 95 % interval must lie below, not the mean alone"
    )
    min_age_days: int = Field(default=7, ge=0)
    protected_types: tuple[str, ...] = ()
    cap: int = Field(default=50, ge=0, description="tips retired per sweep, at most")
    cap_share: float = Field(
        default=0.1,
        ge=0.0,
        le=1.0,
        description="of the active tips, at most; one is always allowed",
    )
    automatic: bool = Field(default=True, description="a run applies its sweep before it is final")
    canary_rate: float = Field(
        default=0.0, ge=0.0, lt=1.0, description="how often a retired tip is shown again to test it"
    )


class Ranking(Part):
    """Constants of the ranker's composite, and how candidates are found (ADR-0019, issue 4).

    composite = prefix x shared leading tokens + category x [same category] + helpfulness x credit
    + source_prior x (value x confidence at source) + similarity x cosine; x same_run when the tip was
    born in the run that asks.
    """

    k: int = Field(default=5, ge=1, le=100, description="tips per attempt")
    prefix: Weight = 1.0
    category: Weight = 0.30
    helpfulness: Weight = 0.50
    source_prior: Weight = 0.15
    similarity: Weight = 0.0
    same_run: float = Field(default=0.5, ge=0.0, le=1.0)
    policy: str = Field(default="", description="'': the deployment's CREDIT_POLICY")
    unit: Literal["visit", "retrieval"] = Field(
        default="visit", description="visit: a run's attempts at one rule count once"
    )
    shrinkage: float = Field(
        default=2.0, ge=0.0, le=1e6, description="pseudo-visits of the prior; 0: none, as upstream"
    )
    back_off: bool = Field(default=True, description="rule, then category, then tip, then skill")
    prior_mean: Grade | None = Field(
        default=None, description="credit of a tip that nothing is known of; none: the skill's mean"
    )
    text_candidates: int = Field(
        default=50, ge=0, le=100_000, description="nearest texts; 0: do not look"
    )
    candidates: int = Field(
        default=2000, ge=1, le=100_000, description="per way of finding them, at most"
    )
    duplicate_similarity: float = Field(
        default=0.97,
        gt=0.0,
        le=1.0,
        description="cosine from which two tips are one advice; 1: off",
    )
    environment_slots: int = Field(
        default=3, ge=0, le=100, description="tips of the whole environment, beside the k"
    )


class Holdout(Part):
    """The coin that withholds a tip that would have been shown, so that effects can be learned."""

    rate: float = Field(default=0.0, ge=0.0, lt=1.0)
    exempt_types: tuple[str, ...] = ()


class Skill(Part):
    """One skill file. ``name`` is the folder that served it (``default`` for an unknown skill)."""

    name: str
    grading: Grading
    eviction: Eviction = Eviction()
    ranking: Ranking = Ranking()
    holdout: Holdout = Holdout()
    actions: dict[str, Any] = Field(
        default_factory=dict, description="vocabulary of the action trace"
    )


def folder_for(root: Path, skill: str, file: str) -> str:
    """The folder below *root* whose *file* serves *skill*: its own if that has one, else ``default``."""
    own = FOLDER_NAME.fullmatch(skill) and (root / skill / file).is_file()
    return skill if own else DEFAULT


@lru_cache(maxsize=256)
def load_skill(root: Path, skill: str) -> Skill:
    """The settings of *skill* below *root*, or those of ``default``.

    Raises:
        SkillError: the file cannot be read (that of ``default`` must be there), is not TOML, or does
            not fit.
    """
    name = folder_for(root, skill, FILE_NAME)
    path = root / name / FILE_NAME
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        return Skill.model_validate({"name": name} | data)
    except FileNotFoundError:
        msg = f"{path} is missing: skills without a file of their own are graded by it"
        raise SkillError(msg) from None
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}"
        raise SkillError(msg) from error
    except UnicodeDecodeError as error:
        msg = f"{path} is not UTF-8 (byte {error.start})"
        raise SkillError(msg) from error
    except tomllib.TOMLDecodeError as error:
        msg = f"{path} is not TOML: {error}"
        raise SkillError(msg) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        msg = f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise SkillError(msg) from error
