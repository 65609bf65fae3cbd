"""Calls get a table of their own, because one call may answer for several tips; caches and pauses.

What a judgement knew about its call moves there, and back when this is reversed.
"""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models

MOVE_TO_CALLS = """
    INSERT INTO scoring_judgecall (
        id, run_id, tier, requested_model, served_model, system_fingerprint, prompt_sha256, tips,
        again, http_tries, seconds, latency_s, prompt_tokens, completion_tokens, error_class, error,
        raw_reply, created_at
    )
    SELECT
        j.id, r.run_id, j.tier, j.requested_model, j.served_model, j.system_fingerprint,
        j.prompt_sha256, 1, false, j.http_tries, coalesce(j.latency_s, 0), j.latency_s,
        j.prompt_tokens, j.completion_tokens, left(split_part(j.error, ':', 1), 60), j.error,
        j.raw_reply, j.created_at
    FROM scoring_judgement j JOIN tip_retrievals r ON r.id = j.retrieval_id
    WHERE j.http_tries > 0;
    UPDATE scoring_judgement SET call_id = id WHERE http_tries > 0;
    SELECT setval(
        pg_get_serial_sequence('scoring_judgecall', 'id'), max(id)
    ) FROM scoring_judgecall HAVING max(id) IS NOT NULL;
    SET CONSTRAINTS ALL IMMEDIATE;
"""
MOVE_BACK = """
    UPDATE scoring_judgement j SET
        http_tries = c.http_tries, latency_s = c.latency_s, prompt_tokens = c.prompt_tokens,
        completion_tokens = c.completion_tokens, raw_reply = c.raw_reply
    FROM scoring_judgecall c WHERE c.id = j.call_id;
    SET CONSTRAINTS ALL IMMEDIATE;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0001_graph"),
        ("scoring", "0002_calibration"),
    ]

    operations = [
        migrations.CreateModel(
            name="JudgeCall",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("tier", models.CharField(default="default", max_length=20)),
                ("requested_model", models.CharField(max_length=200)),
                ("served_model", models.CharField(blank=True, max_length=200)),
                ("system_fingerprint", models.CharField(blank=True, max_length=200)),
                ("prompt_sha256", models.CharField(max_length=64)),
                (
                    "tips",
                    models.PositiveSmallIntegerField(help_text="tips asked about, at least 1"),
                ),
                (
                    "again",
                    models.BooleanField(
                        default=False, help_text="asked a second time within one step"
                    ),
                ),
                ("http_tries", models.PositiveSmallIntegerField(help_text="requests sent")),
                (
                    "seconds",
                    models.FloatField(
                        help_text="wall time, waiting for its turn and retries included"
                    ),
                ),
                (
                    "latency_s",
                    models.FloatField(
                        blank=True, help_text="of the request that answered", null=True
                    ),
                ),
                ("prompt_tokens", models.PositiveIntegerField(blank=True, null=True)),
                (
                    "cached_tokens",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="those of the prompt that the server had in its cache",
                        null=True,
                    ),
                ),
                ("completion_tokens", models.PositiveIntegerField(blank=True, null=True)),
                ("reasoning_tokens", models.PositiveIntegerField(blank=True, null=True)),
                (
                    "error_class",
                    models.CharField(
                        blank=True, help_text="empty: the reply was read", max_length=60
                    ),
                ),
                ("error", models.CharField(blank=True, max_length=500)),
                ("raw_reply", models.TextField(blank=True, help_text="capped")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="judge_calls",
                        to="memory.run",
                    ),
                ),
            ],
            options={
                "ordering": ("id",),
            },
        ),
        migrations.AddField(
            model_name="judgement",
            name="call",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="judgements",
                to="scoring.judgecall",
            ),
        ),
        migrations.RunSQL(MOVE_TO_CALLS, MOVE_BACK),
        migrations.RemoveField(
            model_name="judgement",
            name="completion_tokens",
        ),
        migrations.RemoveField(
            model_name="judgement",
            name="http_tries",
        ),
        migrations.RemoveField(
            model_name="judgement",
            name="latency_s",
        ),
        migrations.RemoveField(
            model_name="judgement",
            name="prompt_tokens",
        ),
        migrations.RemoveField(
            model_name="judgement",
            name="raw_reply",
        ),
        migrations.CreateModel(
            name="EscalationBudget",
            fields=[
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        serialize=False,
                        to="memory.run",
                    ),
                ),
                ("spent", models.PositiveIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="JudgePause",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("tier", models.CharField(default="default", max_length=20)),
                ("since", models.DateTimeField()),
                (
                    "until",
                    models.DateTimeField(help_text="nobody asks before; then one worker does"),
                ),
                ("cause", models.CharField(max_length=500)),
                ("error_class", models.CharField(max_length=60)),
                (
                    "failures",
                    models.PositiveIntegerField(
                        default=1, help_text="calls that failed into this pause"
                    ),
                ),
                ("cleared_at", models.DateTimeField(blank=True, null=True)),
                ("cleared_by", models.CharField(blank=True, max_length=150)),
            ],
            options={
                "ordering": ("-id",),
            },
        ),
        migrations.CreateModel(
            name="VerdictCache",
            fields=[
                (
                    "key",
                    models.CharField(
                        help_text="sha256, see judge/cache.py",
                        max_length=64,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "label",
                    models.CharField(
                        choices=[
                            ("followed", "the script did what the tip says"),
                            ("contradicted", "the script did the opposite"),
                            ("not_followed", "the script did not do it"),
                            ("not_applicable", "the tip is about something else"),
                            ("unclear", "cannot be told, or not proved by a quote"),
                        ],
                        max_length=20,
                    ),
                ),
                ("said", models.CharField(max_length=20)),
                ("reasoning", models.TextField(blank=True)),
                ("evidence", models.JSONField(default=list)),
                ("requested_model", models.CharField(max_length=200)),
                ("served_model", models.CharField(blank=True, max_length=200)),
                ("system_fingerprint", models.CharField(blank=True, max_length=200)),
                ("prompt_sha256", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.AddField(
            model_name="judgement",
            name="cached",
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name="judgement",
            name="cross_skill",
            field=models.BooleanField(
                default=False,
                help_text="the tip belongs to another skill than its run, whose prompt it is",
            ),
        ),
        migrations.AddField(
            model_name="judgement",
            name="label",
            field=models.CharField(
                blank=True,
                choices=[
                    ("followed", "the script did what the tip says"),
                    ("contradicted", "the script did the opposite"),
                    ("not_followed", "the script did not do it"),
                    ("not_applicable", "the tip is about something else"),
                    ("unclear", "cannot be told, or not proved by a quote"),
                ],
                max_length=20,
            ),
        ),
        migrations.AddField(
            model_name="judgement",
            name="position",
            field=models.PositiveSmallIntegerField(
                blank=True, help_text="place among the tips of the call, from 1", null=True
            ),
        ),
        migrations.AddField(
            model_name="judgement",
            name="prompt_id",
            field=models.CharField(blank=True, max_length=64),
        ),
        migrations.AddField(
            model_name="judgement",
            name="prompt_skill",
            field=models.CharField(blank=True, help_text="folder of the prompt", max_length=64),
        ),
        migrations.AddField(
            model_name="judgement",
            name="prompt_version",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="judgement",
            name="redactions",
            field=models.JSONField(
                blank=True,
                default=dict,
                help_text="secrets taken out before sending, per text and kind",
            ),
        ),
        migrations.AddField(
            model_name="judgement",
            name="request_key",
            field=models.CharField(
                blank=True,
                help_text="sha256 of the canonical request; key of the cache",
                max_length=64,
            ),
        ),
        migrations.AddField(
            model_name="judgement",
            name="said",
            field=models.CharField(
                blank=True, help_text="the label before its quotes were verified", max_length=20
            ),
        ),
        migrations.AddField(
            model_name="judgement",
            name="stakes",
            field=models.JSONField(
                blank=True, default=list, help_text="why the stronger judge was asked"
            ),
        ),
        migrations.AddField(
            model_name="judgement",
            name="supersedes",
            field=models.OneToOneField(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="superseded_by",
                to="scoring.judgement",
            ),
        ),
        migrations.AlterField(
            model_name="judgement",
            name="evidence",
            field=models.JSONField(
                blank=True,
                default=list,
                help_text="a line per claim, and where its quote was found",
            ),
        ),
        migrations.AlterField(
            model_name="judgement",
            name="reason",
            field=models.CharField(
                blank=True, help_text="why there is no yes or no", max_length=20
            ),
        ),
        migrations.AddConstraint(
            model_name="judgement",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("label", ""),
                    models.Q(
                        ("followed__isnull", False), ("followed", True), ("label", "followed")
                    ),
                    models.Q(
                        ("followed__isnull", False),
                        ("followed", False),
                        ("label__in", ["contradicted", "not_followed"]),
                    ),
                    models.Q(
                        ("followed__isnull", True),
                        ("label", "not_applicable"),
                        ("reason", "not_applicable"),
                    ),
                    models.Q(
                        ("followed__isnull", True),
                        ("label", "unclear"),
                        ("reason__in", ["unclear", "quote_unverified"]),
                    ),
                    _connector="OR",
                ),
                name="judgement_label_agrees",
            ),
        ),
        migrations.AddConstraint(
            model_name="judgement",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("cached", False),
                    models.Q(("call__isnull", True), models.Q(("request_key", ""), _negated=True)),
                    _connector="OR",
                ),
                name="judgement_cached_has_no_call",
            ),
        ),
        migrations.AddConstraint(
            model_name="judgepause",
            constraint=models.UniqueConstraint(
                condition=models.Q(("cleared_at__isnull", True)),
                fields=("tier",),
                name="judge_pause_open_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="verdictcache",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("label__in", ["followed", "contradicted", "not_followed", "not_applicable"])
                ),
                name="verdict_cache_holds_good_ones",
            ),
        ),
        migrations.AddIndex(
            model_name="judgecall",
            index=models.Index(fields=["requested_model", "-id"], name="judge_call_latest"),
        ),
        migrations.RemoveConstraint(
            model_name="judgement",
            name="judgement_reason_known",
        ),
        migrations.AddConstraint(
            model_name="judgement",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "reason__in",
                        [
                            "",
                            "not_shown",
                            "no_script",
                            "script_truncated",
                            "tip_text_unknown",
                            "no_outcome",
                            "skipped",
                            "too_long",
                            "judge_unavailable",
                            "judge_error",
                            "not_applicable",
                            "unclear",
                            "quote_unverified",
                            "embedding_error",
                            "trace_error",
                            "trace_abstained",
                        ],
                    )
                ),
                name="judgement_reason_known",
            ),
        ),
    ]
