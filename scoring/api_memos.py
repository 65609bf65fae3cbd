"""``GET /api/memos/PRODUCT/IDENTIFIER``: a memo with its facts and all that was found out, as JSON.

Guarantees: for staff who may view memos, and nobody else; no model is asked (``scoring.memos.on_hand``),
so that a GET may be repeated at will; an unknown subject is a 404 whose message names it. The ETag is the
facts' fingerprint with a digest of text and verdict, because a text that a judge rejected later must not
be confirmed with a 304 on account of unchanged facts. Errors are JSON too, ``{"error": message}``.

Query: ``skill`` where several skills use the name, ``mode`` human (default) or agent. Logging in is the
admin's: there are no tokens. Source: issue 5 (item 9).
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

from django.http import HttpResponse, JsonResponse
from django.utils.cache import get_conditional_response, patch_cache_control
from django.views.decorators.http import require_safe

from scoring.memos.on_hand import memo_on_hand
from scoring.memos.products import UnknownProduct, UnknownSubject
from scoring.memos.service import MODES

if TYPE_CHECKING:
    from django.http import HttpRequest

    from scoring.memos.memo_result import MemoResult

MAY_READ: Final = "scoring.view_memo"


@require_safe
def memo_json(request: HttpRequest, product: str, identifier: str) -> HttpResponse:
    """The memo about a run, a tip or a category; 400, 403 or 404 with a message."""
    user = request.user
    if not (user.is_active and user.is_staff and user.has_perm(MAY_READ)):
        return _error(
            403, "memos are for staff with the permission to view them: log in to the admin"
        )
    mode = request.GET.get("mode") or "human"
    if mode not in MODES:
        return _error(400, f"mode is one of {', '.join(MODES)}")
    try:
        made = memo_on_hand(product, identifier, skill=request.GET.get("skill") or None, mode=mode)
    except (UnknownProduct, UnknownSubject) as error:
        return _error(404, str(error))
    etag = etag_of(made)
    answer = JsonResponse(made.as_dict(), headers={"ETag": etag})
    return _private(get_conditional_response(request, etag=etag, response=answer) or answer)


def etag_of(made: MemoResult) -> str:
    """Return a weak validator: what counts hits differs in texts that are one memo."""
    verdict = made.verdict.as_dict() if made.verdict is not None else None
    said = json.dumps([made.text, made.reason, verdict], sort_keys=True)
    digest = hashlib.sha256(said.encode("ascii")).hexdigest()
    return f'W/"{made.snapshot.fingerprint()}-{digest[:16]}"'


def _error(status: int, message: str) -> HttpResponse:
    return _private(JsonResponse({"error": message}, status=status))


def _private(answer: HttpResponse) -> HttpResponse:
    patch_cache_control(answer, private=True, no_cache=True)
    return answer
