from __future__ import annotations
import time, random
import pytest
from django.db import connection
from django.urls import reverse
from memory.models import *
from tests.factories import *
pytestmark = pytest.mark.django_db

def test_scale(admin_client, capsys):
    tips = Tip.objects.bulk_create([Tip(skill="stig", external_id=str(n), text=f"tip {n}") for n in range(20000)], batch_size=2000)
    rnd = random.Random(1)
    def sums():
        m, e, l, b = (rnd.randrange(12) for _ in range(4))
        v = m + e
        return NO_SUMS | {"rows": m+e+l+b, "shown": m+e+l+b, "misleading": m, "earned": e, "lucky_neighbour": l, "bystander": b, "visits": v, "visit_total": e-m, "visit_squares": v}
    TipEvidence.objects.bulk_create([TipEvidence(tip=t, skill="stig", policy=p, level=lv, key=k, **sums()) for t in tips for p in ("adr0019","adr0020","combined","outcome_only","quadrant") for lv,k in (("tip",""),("rule","r"))], batch_size=2000)
    with connection.cursor() as c:
        runs = [make_run(status="done") for _ in range(40)]
        tmpl = make_retrieval(attempt=make_attempt(run=runs[0]), tip=tips[0], llm=True, emb=0.7, trace="violated", tip_followed_p=0.6, tip_followed_p_version="x@0")
        cols = [f.column for f in Retrieval._meta.concrete_fields if not f.primary_key]
        for run in runs:
            c.execute("INSERT INTO attempts (run_id, skill, rule_id, number, sender_number, category, title, script_sha256, script_truncated, narrative, evaluator_error, failure_mode, apply_failed, deferred, hazards, extra, text_repaired, outcome_reason, outcome_grader) SELECT %s, 'stig', 'rule' || n, 1, 1, '', '', '', false, '', '', '', false, false, '[]', '{}', false, 'no_outcome', 'x' FROM generate_series(1, 1480) n", [run.pk])
            sel = ", ".join({"run_id": "a.run_id", "attempt_id": "a.id", "tip_id": f"{tips[0].pk} + (a.id * 5 + n) %% 20000", "rule_id": "a.rule_id", "tip_followed_trace_verdict": "CASE WHEN n = 1 AND a.id %% 5 = 0 THEN 'violated' ELSE 'followed' END", "shown_text":"repeat('x', 400)"}.get(col, f"t.{col}") for col in cols)
            c.execute(f"INSERT INTO tip_retrievals ({', '.join(cols)}) SELECT {sel} FROM attempts a, generate_series(1,5) n, tip_retrievals t WHERE a.run_id = %s AND a.rule_id LIKE 'rule%%' AND a.number = 1 AND t.id = %s AND a.outcome_grader = 'x'", [run.pk, tmpl.pk])
        for t in ("tips","tip_evidence","tip_retrievals","runs","attempts"): c.execute(f"ANALYZE {t}")
    with capsys.disabled():
        print(Retrieval.objects.count())
        for name, q in (("admin:memory_tip_misleading", {}), ("admin:memory_tip_misleading", {"page": 300}), ("admin:scoring_review_disagreements", {}), ("admin:scoring_review_disagreements", {"window": 20})):
            for _ in range(2):
                s = time.perf_counter(); r = admin_client.get(reverse(name), q); took = time.perf_counter()-s
            print(name, q, r.status_code, round(took*1000), "ms", r.context["page"].paginator.count)
        row = Retrieval.objects.order_by("-pk")[0]
        s = time.perf_counter(); admin_client.get(reverse("admin:scoring_review_row", args=[row.pk])); print("row", time.perf_counter()-s)
        s = time.perf_counter(); admin_client.get(reverse("admin:memory_tip_record", args=[tips[5].pk])); print("record", time.perf_counter()-s)
