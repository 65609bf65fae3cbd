"""What a judge may say, a guard that boolean and reason agree with it, and a mark for redacted rows.

Reverses: codes that the older vocabulary lacks become judge_error, as they were before there were labels.
"""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0003_combined_attribution"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="retrieval",
            name="retrieval_reason_known",
        ),
        migrations.RunSQL(
            migrations.RunSQL.noop,
            "UPDATE tip_retrievals SET llm_reason = 'judge_error', llm_label = '' "
            "WHERE llm_reason IN ('not_applicable', 'unclear', 'quote_unverified')",
        ),
        migrations.AddField(
            model_name="retrieval",
            name="llm_redacted",
            field=models.BooleanField(
                default=False, help_text="secrets were taken out before the judge saw it"
            ),
        ),
        migrations.AlterField(
            model_name="retrieval",
            name="llm_label",
            field=models.CharField(
                blank=True,
                choices=[
                    ("followed", "the script did what the tip says"),
                    ("contradicted", "the script did the opposite"),
                    ("not_followed", "the script did not do it"),
                    ("not_applicable", "the tip is about something else"),
                    ("unclear", "cannot be told, or not proved by a quote"),
                ],
                help_text="the judge's label, of which the boolean is derived",
                max_length=20,
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("llm_label", ""),
                    models.Q(
                        ("tip_followed_llm__isnull", False),
                        ("llm_label", "followed"),
                        ("tip_followed_llm", True),
                    ),
                    models.Q(
                        ("tip_followed_llm__isnull", False),
                        ("llm_label__in", ["contradicted", "not_followed"]),
                        ("tip_followed_llm", False),
                    ),
                    models.Q(
                        ("llm_label", "not_applicable"),
                        ("llm_reason", "not_applicable"),
                        ("tip_followed_llm__isnull", True),
                    ),
                    models.Q(
                        ("llm_label", "unclear"),
                        ("llm_reason__in", ["unclear", "quote_unverified"]),
                        ("tip_followed_llm__isnull", True),
                    ),
                    _connector="OR",
                ),
                name="retrieval_label_agrees",
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("llm_label", ""),
                    models.Q(("shown", True), models.Q(("llm_source", ""), _negated=True)),
                    _connector="OR",
                ),
                name="retrieval_label_has_source",
            ),
        ),
        migrations.AddConstraint(
            model_name="retrieval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "llm_reason__in",
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
                    ),
                    (
                        "emb_reason__in",
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
                    ),
                    (
                        "trace_reason__in",
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
                    ),
                ),
                name="retrieval_reason_known",
            ),
        ),
    ]
