"""A history of runs for the benchmarks of the memory, made in the database by INSERT … SELECT.

Guarantees: the shape of a settled memory of one skill: 593 rules in 20 families and 12 categories,
20,000 tips (30 % of them bad advice, 1 % for a whole environment, every tenth with the text of another
one), runs of 1,481 attempts (3 and 2 per rule) with five tips each = 7,405 retrievals, and signals and
outcomes on them as the pipeline leaves them. Of five tips three were born of the rule itself, one of a
sister of its family, one of its category; a run sees a tip of a rule again at the next attempt. Every
constraint of the tables holds, and is checked by the server; evidence is made by ``memory.evidence``.
The same rows come out each time: chance is a hash.

Does not have long scripts: no query that is measured reads one. Does not go through intake.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

SKILL: Final = "stig"
RULES: Final = 593
TIPS: Final = 20_000
ATTEMPTS: Final = 1_481
TIPS_PER_ATTEMPT: Final = 5
RUN_ROWS: Final = ATTEMPTS * TIPS_PER_ATTEMPT
"""7,405, as in the run that the numbers of ADR-0019 come from."""
RUNS_AT_ONCE: Final = 5


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as an agent would name it."""

    rule_id: str
    category: str
    title: str


_PREPARE: Final = """
CREATE FUNCTION bench_u(n bigint, salt bigint) RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
  'SELECT (hashint8extended($1, $2) & 9007199254740991)::float8 / 9007199254740992';

CREATE TABLE bench_rules AS
SELECT j, j %% 20 AS family, (j / 20) %% 12 AS category_number,
  'xccdf_org.ssgproject.content_rule_' || (ARRAY['audit','sshd','accounts','file','package','service',
    'sysctl','kernel','grub','mount','partition','auditd','rsyslog','firewalld','selinux','sudo','dconf',
    'aide','configure','chronyd'])[1 + j %% 20]
  || '_' || (ARRAY['rules','set','enable','disable','remove'])[1 + (j / 20) %% 5]
  || '_' || (ARRAY['login','permissions','timeout','module','policy','key','banner'])[1 + j %% 7]
  || '_item' || j AS rule_id,
  (ARRAY['audit','ssh','accounts','files','packages','services','kernel','boot','mounts','logging',
    'firewall','crypto'])[1 + (j / 20) %% 12] AS category
FROM generate_series(0, %(rules)s - 1) AS j;
ALTER TABLE bench_rules ADD PRIMARY KEY (j);
ALTER TABLE bench_rules ADD COLUMN title text;
UPDATE bench_rules SET title = 'Make sure that ' || replace(split_part(rule_id, '_rule_', 2), '_', ' ')
  || ' is configured as the ' || category || ' guide asks';

INSERT INTO tips (skill, external_id, text, text_sha256, tip_type, category, mechanism, source_rule_id,
  source_run_id, outcome_at_source_value, outcome_at_source_confidence, environment_tag, extra,
  text_repaired, created_at, retired_reason, scope, protected, holdout_exempt)
SELECT %(skill)s, 'tip-' || k, text, encode(sha256(text::bytea), 'hex'),
  (ARRAY['strategy','recovery','optimization','warning'])[1 + k %% 4], category, '', rule_id,
  'run-' || k %% 100, CASE WHEN k %% 10 < 7 THEN 1.0 ELSE 0.0 END, 1.0,
  CASE WHEN k %% 100 = 50 THEN 'rhel9' ELSE '' END, '{}', false, '2025-01-01Z', '',
  CASE WHEN k %% 100 = 50 THEN 'environment' ELSE 'rule' END, false, false
FROM (
  SELECT k, rule_id, category, 'For ' || title || ', write the setting number '
    || CASE WHEN k / %(rules)s %% 10 = 9 THEN k - %(rules)s ELSE k END
    || ' into a drop-in file of its own below the configuration folder, check it with the tool that the'
    || ' service brings along, and reload the service; do not edit the main file in place, because the'
    || ' next update of the package writes it anew.' AS text
  FROM generate_series(0, %(tips)s - 1) AS k JOIN bench_rules ON j = k %% %(rules)s
) AS made ORDER BY k;

CREATE TABLE bench_tips AS
SELECT substr(external_id, 5)::bigint AS k, id, text, text_sha256,
  CASE WHEN bench_u(id, 2) < 0.3 THEN 0.15 ELSE 0.55 + 0.4 * bench_u(id, 3) END AS followed
FROM tips WHERE skill = %(skill)s;
ALTER TABLE bench_tips ADD PRIMARY KEY (k);
ANALYZE bench_rules, bench_tips;
"""

_RUNS: Final = """
INSERT INTO runs (skill, external_id, source, revision, digest, started_at, ended_at, model,
  environment_tag, log_path, log_sha256, log_format, hazards, extra, text_repaired, ingested_at, status,
  scoring_round, state_changed_at, done_at, dream_number)
SELECT %(skill)s, %(prefix)s || n, 'bench', 1, encode(sha256((%(prefix)s || n)::bytea), 'hex'),
  began, began + interval '90 minutes', 'agent-model', 'rhel9', '', '', '', '{}', '{}', false, began,
  %(status)s, 1, began, CASE WHEN %(status)s = 'done' THEN began + interval '100 minutes' END, 0
FROM (SELECT n, timestamptz '2025-01-08Z' + n * interval '2 hours' AS began
      FROM generate_series(%(first)s, %(last)s) AS n) AS made
ORDER BY n RETURNING id
"""

_ATTEMPTS: Final = """
INSERT INTO attempts (run_id, skill, rule_id, number, sender_number, category, title, started_at,
  ended_at, script, script_sha256, script_truncated, narrative, evaluator_error, passed,
  failure_mode, apply_failed, deferred, hazards, extra, text_repaired, outcome_value,
  outcome_confidence, outcome_reason, outcome_grader)
SELECT run, %(skill)s, rule_id, number, number, category, title, at, at + interval '3 seconds', script,
  encode(sha256(script::bytea), 'hex'), false, '', '',
  CASE WHEN luck >= 0.03 THEN passed END, CASE WHEN passed THEN '' WHEN sick THEN 'health_failure' ELSE
  'rule_still_failing' END, false, false, '[]', '{}', false,
  CASE WHEN luck < 0.03 THEN NULL WHEN passed AND number = 1 THEN 1.0 WHEN passed THEN 0.8
    WHEN sick THEN -0.2 ELSE 0.0 END,
  CASE WHEN luck >= 0.03 THEN 1.0 END, CASE WHEN luck < 0.03 THEN 'no_outcome' ELSE '' END, 'stig@1'
FROM (
  SELECT run, j, number, rule_id, category, title, bench_u(key, 10) AS luck, bench_u(key, 11) < 0.6 AS
    passed, bench_u(key, 12) < 0.1 AS sick, began + i * interval '3 seconds' AS at,
    'set -eu' || chr(10) || 'printf ''option %%s\n'' ' || j || ' >/etc/app.d/' || number || '.conf'
    AS script
  FROM (
    SELECT runs.id AS run, started_at AS began, i, i / 5 * 2 + (i %% 5 >= 3)::integer AS j,
      CASE WHEN i %% 5 < 3 THEN i %% 5 + 1 ELSE i %% 5 - 2 END AS number,
      runs.id * 10007 + i AS key
    FROM runs CROSS JOIN generate_series(0, %(attempts)s - 1) AS i WHERE runs.id = ANY(%(runs)s)
  ) AS numbered JOIN bench_rules USING (j)
) AS made
"""

# Who is drawn: slot 0, 1 and 2 a tip of the rule (of eleven each), 3 one of a sister rule, 4 one of the
# category; small numbers come up more often. 0 and 1 are the same at each attempt of a run at a rule.
_RETRIEVALS: Final = """
INSERT INTO tip_retrievals (run_id, attempt_id, tip_id, rule_id, rank, similarity_score, outcome_value,
  outcome_confidence, retrieved_at, skill, category, model, environment_tag, superseded, extra, shown,
  shown_text, shown_sha256, shown_cut, withheld, propensity, canary, ranker,
  tip_followed_emb_max_chunk, tip_followed_emb_truncated, tip_followed_trace, tip_followed_trace_verdict,
  tip_followed_trace_evidence, tip_followed_trace_version, tip_followed_review_by, tip_followed_p,
  tip_followed_p_version, llm_source, llm_label, llm_redacted, llm_reason, llm_tries, emb_source,
  emb_reason, emb_tries, trace_reason, trace_tries, tip_followed_llm, tip_followed_emb,
  tip_followed_computed_at)
SELECT run_id, id, tip, rule_id, slot + 1, 1.9 - 0.3 * slot, outcome_value, outcome_confidence,
  started_at, %(skill)s, category, 'agent-model', 'rhel9', false, '{}', shown,
  CASE WHEN shown THEN text ELSE '' END, CASE WHEN shown THEN text_sha256 ELSE '' END, false, false, 1.0,
  false, '', cosine, CASE WHEN shown THEN false END,
  CASE WHEN trace IN ('followed', 'not_followed') THEN (trace = 'followed')::integer END, trace,
  CASE WHEN trace = 'followed' THEN '["line 2: printf"]'::jsonb ELSE '[]' END,
  CASE WHEN trace <> '' THEN '1' ELSE '' END, '',
  CASE WHEN shown AND %(with_p)s THEN CASE WHEN obeyed THEN 0.9 ELSE 0.1 END END,
  CASE WHEN shown AND %(with_p)s THEN 'bench' ELSE '' END,
  CASE WHEN label <> '' THEN 'judge@0' ELSE '' END, label, false,
  CASE WHEN NOT shown THEN 'not_shown' WHEN outcome_value IS NULL THEN 'no_outcome'
    WHEN label = 'unclear' THEN 'unclear' WHEN label = '' THEN 'skipped' ELSE '' END,
  0, CASE WHEN shown THEN 'encoder' ELSE '' END, CASE WHEN shown THEN '' ELSE 'not_shown' END, 0,
  CASE WHEN NOT shown THEN 'not_shown' WHEN trace = 'abstained' THEN 'trace_abstained' ELSE '' END, 0,
  CASE label WHEN 'followed' THEN true WHEN 'not_followed' THEN false END, cosine,
  CASE WHEN shown THEN started_at + interval '1 day' END
FROM (
  SELECT drawn.*, bench_tips.id AS tip, text, text_sha256, obeyed,
    CASE WHEN shown THEN CASE WHEN obeyed THEN 0.5 + 0.4 * bench_u(key, 21) ELSE 0.2 + 0.5 *
      bench_u(key, 21) END END AS cosine,
    CASE WHEN NOT shown THEN '' WHEN bench_u(key, 22) < 0.4 THEN 'abstained'
      WHEN obeyed THEN 'followed' ELSE 'not_followed' END AS trace,
    CASE WHEN NOT shown OR outcome_value IS NULL OR bench_u(key, 23) < 0.04 THEN ''
      WHEN bench_u(key, 23) < 0.12 THEN 'unclear' WHEN obeyed THEN 'followed' ELSE 'not_followed' END
      AS label
  FROM (
    SELECT a.run_id, a.id, a.rule_id, a.category, a.outcome_value, a.outcome_confidence, a.started_at,
      slot, a.id * 5 + slot AS key, bench_u(a.id * 5 + slot, 20) >= 0.03 AS shown,
      CASE WHEN slot < 3 THEN j + %(rules)s * (3 * floor(11 * power(chance, 2))::bigint + slot)
        WHEN slot = 3 THEN (j / 20 + 1 + floor(4 * power(other, 2))::bigint) %% 29 * 20 + j %% 20
          + %(rules)s * floor(33 * power(chance, 2))::bigint
        ELSE neighbour - CASE WHEN neighbour >= %(rules)s THEN 240 ELSE 0 END
          + %(rules)s * floor(33 * power(chance, 2))::bigint END AS k
    FROM attempts AS a JOIN bench_rules AS r USING (rule_id)
    CROSS JOIN generate_series(0, 4) AS slot
    CROSS JOIN LATERAL (SELECT bench_u(a.run_id * 1000003 + j * 50
      + slot * 10 + CASE WHEN slot < 2 THEN 0 ELSE a.number END, 30) AS chance,
      bench_u(a.run_id * 1000003 + j * 50 + slot * 10 + a.number, 31) AS other) AS luck
    CROSS JOIN LATERAL (SELECT j / 20 * 20 + (j %% 20 + 1 + floor(4 * power(other, 2))::bigint) %% 20
      AS neighbour) AS beside
    WHERE a.run_id = ANY(%(runs)s)
  ) AS drawn JOIN bench_tips USING (k)
  CROSS JOIN LATERAL (SELECT bench_u(key, 24) < followed AS obeyed) AS act
) AS made ORDER BY id, slot
"""


def prepare() -> None:
    """Rules and tips, if they are not there yet."""
    from django.db import connection

    if "bench_rules" not in connection.introspection.table_names():
        _execute(_PREPARE)


def rules() -> list[Rule]:
    """All rules, in the order of their numbers."""
    return [
        Rule(*row)
        for row in _execute("SELECT rule_id, category, title FROM bench_rules ORDER BY j")
    ]


def size() -> int:
    """Retrieval rows that there are."""
    ((rows,),) = _execute("SELECT count(*) FROM tip_retrievals")
    return int(rows)


def grow(rows: int, say: Callable[[str], None]) -> int:
    """Add final runs until there are *rows* retrievals, the last one perhaps shorter; rows added."""
    there = size()
    began = there
    while there < rows:
        whole = min((rows - there) // RUN_ROWS, RUNS_AT_ONCE)
        attempts = ATTEMPTS if whole else (rows - there) // TIPS_PER_ATTEMPT
        if not attempts:
            break
        add_runs(whole or 1, attempts=attempts)
        there += (whole or 1) * attempts * TIPS_PER_ATTEMPT
        say(f"history: {there:,} of {rows:,} retrievals")
    if there > began:
        _execute("VACUUM (ANALYZE)")
    return there - began


def add_runs(
    number: int, *, prefix: str = "run-", status: str = "done", attempts: int = ATTEMPTS
) -> list[int]:
    """Primary keys of *number* new runs. One that is not final has no p(followed) yet: it is counted
    as the pipeline leaves it before its dream pass."""
    from django.db import transaction

    with transaction.atomic():
        ((there,),) = _execute("SELECT count(*) FROM runs")
        names = {"prefix": prefix, "status": status, "first": there, "last": there + number - 1}
        runs = [pk for (pk,) in _execute(_RUNS, **names)]
        _execute(_ATTEMPTS, runs=runs, attempts=attempts)
        _execute(_RETRIEVALS, runs=runs, with_p=status == "done")
    return runs


def count_evidence(say: Callable[[str], None]) -> None:
    """RunEvidence and TipEvidence of what there is, through the product's own recount."""
    from memory import evidence

    evidence.recount(
        skill=SKILL, progress=lambda done, total: say(f"evidence: {done} of {total} runs")
    )
    _execute("VACUUM (ANALYZE)")


def fill_vectors() -> None:
    """A vector for each tip: that of its rule's title, by the real encoder, and noise of its own.

    Raises scoring.vectors.EmbeddingError: the model is not there.
    """
    import numpy as np

    from memory.models import TipVector
    from scoring.embed_step import ENCODER_SHA256
    from scoring.embedding import load_encoder

    if TipVector.objects.exists():
        return
    titles = np.array(
        [one.vector for one in load_encoder().encode([rule.title for rule in rules()])]
    )
    rows = _execute("SELECT k, id, text_sha256 FROM bench_tips ORDER BY k")
    noise = np.random.default_rng(0).normal(size=(len(rows), titles.shape[1])).astype(np.float32)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    vectors = titles[[k % RULES for k, *_ in rows]] + 0.5 * noise
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    _copy(
        "COPY tip_vectors (tip_id, skill, encoder, text_sha256, values) FROM STDIN",
        (
            (pk, SKILL, ENCODER_SHA256, sha256, vector.tolist())
            for (_, pk, sha256), vector in zip(rows, vectors, strict=True)
        ),
    )
    _execute("VACUUM (ANALYZE) tip_vectors")


def _copy(statement: str, rows: Any) -> None:
    from django.db import connection

    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)


def _execute(statement: str, **more: Any) -> list[Any]:
    from django.db import connection

    known: dict[str, Any] = {"skill": SKILL, "rules": RULES, "tips": TIPS}
    with connection.cursor() as cursor:
        cursor.execute(statement, (known | more) if "%(" in statement else None)
        return cursor.fetchall() if cursor.description else []
