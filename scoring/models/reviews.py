"""Review: what a person says about one retrieval.

Guarantees, by the database and not by convention: a review is never changed or deleted (a trigger made
by migration 0004 refuses it); the reviews of a retrieval form one line, each naming the one that it
supersedes, so that the last of them stands and nothing is silently overwritten; each has an author.

Does not copy itself to the retrieval row, which is what credit reads: ``scoring.reviews`` is the door.

Shaped by: labels typed into a table by hand, of which nobody could say whose they were.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.db.models import F, Q


class Review(models.Model):
    """A person's answer to "did the script follow this tip?". Appended; the latest one stands."""

    retrieval = models.ForeignKey("memory.Retrieval", models.PROTECT, related_name="reviews")
    supersedes = models.OneToOneField(
        "self", models.PROTECT, related_name="superseded_by", null=True, blank=True
    )
    followed = models.BooleanField(
        null=True, blank=True, help_text="empty: cannot be told, or what stood before is withdrawn"
    )
    by = models.CharField(max_length=150, help_text="user name of the reviewer")
    note = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("id",)
        constraints: ClassVar[list[Any]] = [
            # with the uniqueness of `supersedes`: one line of reviews per retrieval, without branches
            models.UniqueConstraint(
                fields=["retrieval"], condition=Q(supersedes__isnull=True), name="review_first_once"
            ),
            models.CheckConstraint(
                condition=Q(supersedes__isnull=True) | Q(supersedes__lt=F("id")),
                name="review_supersedes_earlier",
            ),
            models.CheckConstraint(condition=~Q(by=""), name="review_has_author"),
        ]

    def __str__(self) -> str:
        return f"review {self.pk} of retrieval {self.retrieval_id}"
