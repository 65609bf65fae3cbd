"""Three doors: the admin, memos as JSON, and a health endpoint for load balancers and probes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin
from django.db import connection
from django.http import JsonResponse
from django.urls import path
from django.views.generic import RedirectView

from scoring.api_memos import memo_json

if TYPE_CHECKING:
    from django.http import HttpRequest


def healthz(_request: HttpRequest) -> JsonResponse:
    """200 when the database answers; raises (500) otherwise. Tells nothing else to a stranger."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return JsonResponse({"status": "ok"})


urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index"), name="home"),
    path("healthz", healthz, name="healthz"),
    path("api/memos/<str:product>/<path:identifier>", memo_json, name="memo_json"),
    path("admin/", admin.site.urls),
]
