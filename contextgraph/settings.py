"""Django, Celery and product settings, in one flat file. Everything has a working default.

Guarantees: with no environment at all, everything points at the embedded pair of this checkout. With
DATABASE_URL, CELERY_BROKER_URL and CELERY_RESULT_BACKEND it points there. A setting that would lose
work is refused by contextgraph/checks.py when a process starts.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import dj_database_url

from contextgraph import embedded
from contextgraph.embedded.location import make_state_dir, state_dir_of
from contextgraph.env import (
    env_bool,
    env_float,
    env_int,
    env_list,
    env_prices,
    env_secret,
    env_str,
)
from contextgraph.secret_key import load_secret_key

BASE_DIR = Path(__file__).resolve().parent.parent
STATE_DIR = state_dir_of(BASE_DIR)

with suppress(OSError):  # on services it holds small files only; what needs it says so
    make_state_dir(STATE_DIR)

# --- Where the servers are ------------------------------------------------------------------------

DATABASE_URL = env_secret("DATABASE_URL")
CELERY_BROKER_URL = env_secret("CELERY_BROKER_URL")
CELERY_RESULT_BACKEND = env_secret("CELERY_RESULT_BACKEND")
USES_EMBEDDED_DATABASE = not DATABASE_URL
USES_EMBEDDED = not (DATABASE_URL and CELERY_BROKER_URL and CELERY_RESULT_BACKEND)
if USES_EMBEDDED:
    _pair = embedded.endpoints(BASE_DIR)  # where they will listen; starts nothing
    DATABASE_URL = DATABASE_URL or _pair.database_url
    CELERY_BROKER_URL = CELERY_BROKER_URL or _pair.broker_url
    CELERY_RESULT_BACKEND = CELERY_RESULT_BACKEND or _pair.result_backend

DATABASES: dict[str, Any] = {"default": dj_database_url.parse(DATABASE_URL)}
# A socket folder arrives as an option; dbshell wants it as the host.
for _name in ("host", "port"):
    if _name in DATABASES["default"].get("OPTIONS", {}):
        DATABASES["default"][_name.upper()] = DATABASES["default"]["OPTIONS"].pop(_name)
# Prefork closes connections per task anyway; a web or consumer process reconnects after a restart.
DATABASES["default"]["CONN_MAX_AGE"] = 0
DATABASES["default"].setdefault("OPTIONS", {})["application_name"] = "contextgraph"

# --- Django ---------------------------------------------------------------------------------------

DEBUG = env_bool("DJANGO_DEBUG")
SECRET_KEY = env_secret("DJANGO_SECRET_KEY") or load_secret_key(STATE_DIR)
ALLOWED_HOSTS = env_list("DJANGO_ALLOWED_HOSTS", "127.0.0.1,localhost,[::1]")
CSRF_TRUSTED_ORIGINS = env_list("DJANGO_CSRF_TRUSTED_ORIGINS")

INSTALLED_APPS = [
    "admin_interface",  # must precede django.contrib.admin: it overrides its templates
    "colorfield",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "contextgraph.apps.ContextgraphConfig",
    "memory.apps.MemoryConfig",
    "scoring.apps.ScoringConfig",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "contextgraph.urls"
WSGI_APPLICATION = "contextgraph.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
# admin_interface pickles its theme into the cache: in memory only, never on a shared server (#356).
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "admin_interface": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
}
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("MinimumLengthValidator", "CommonPasswordValidator", "NumericPasswordValidator")
]
X_FRAME_OPTIONS = "SAMEORIGIN"  # admin_interface opens its own dialogs in frames of this origin
SILENCED_SYSTEM_CHECKS = ["security.W019"]  # the line above, on purpose
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = env_bool("DJANGO_HTTPS")
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
if env_bool("DJANGO_HTTPS"):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

LANGUAGE_CODE = "en-gb"
LANGUAGES = [("en-gb", "English")]  # the theme offers a chooser, and warns, when there are more
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "static/"
WHITENOISE_USE_FINDERS = True  # served from the packages: no collectstatic step, no STATIC_ROOT
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}

# The admin listens here; loopback unless told.
WEB_HOST = env_str("CONTEXTGRAPH_WEB_HOST", "127.0.0.1")
WEB_PORT = env_int("CONTEXTGRAPH_WEB_PORT", 8765, low=1, high=65535)
WEB_PORT_IS_CHOSEN = bool(env_str("CONTEXTGRAPH_WEB_PORT"))  # else `up` takes the next free one

LOG_LEVEL = env_str("CONTEXTGRAPH_LOG_LEVEL", "INFO")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"()": "contextgraph.logs.FactsFormatter"},
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        name: {"level": LOG_LEVEL} for name in ("contextgraph", "memory", "scoring", "celery")
    },
}

# --- Celery: each setting followed by its reason --------------------------------------------------

CELERY_TASK_SERIALIZER = CELERY_RESULT_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = CELERY_RESULT_ACCEPT_CONTENT = ["json"]  # pickle is code execution
CELERY_TASK_ACKS_LATE = True  # a killed worker's task comes back; every task is safe to run twice
CELERY_TASK_REJECT_ON_WORKER_LOST = True  # with acks_late alone a SIGKILLed child's task is acked
CELERY_WORKER_PREFETCH_MULTIPLIER = 1  # hoarded tasks would wait behind a slow judge call
CELERY_TASK_CREATE_MISSING_QUEUES = False  # a typo in a route must fail, not make a queue
CELERY_TASK_DEFAULT_QUEUE = "control"
CELERY_TASK_IGNORE_RESULT = False  # chords count results; tasks outside chords opt out by name
CELERY_TASK_TRACK_STARTED = False  # our rows say more
CELERY_TASK_ALLOW_ERROR_CB_ON_CHORD_HEADER = False  # one errback per chord, on its body
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 3, "interval_max": 2}  # then rows + reaper
CELERY_RESULT_EXPIRES = 24 * 3600  # results are only needed while a chord is open
CELERY_RESULT_CHORD_EXPIRES = 7 * 24 * 3600  # an expired chord loses its body silently (#10827)
CELERY_RESULT_BACKEND_ALWAYS_RETRY = True  # BusyLoadingError must not fail a finished header
CELERY_RESULT_BACKEND_MAX_RETRIES = 10  # the default is for ever, which hangs a worker
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = True  # else each blip runs them twice
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 10.0
CELERY_TIMEZONE = "UTC"

# A message is redelivered when it stays unacknowledged this long: longer than the longest task.
VISIBILITY_TIMEOUT = env_int("CONTEXTGRAPH_VISIBILITY_TIMEOUT_S", 1800, low=2)
TASK_TIME_LIMIT = env_int("CONTEXTGRAPH_TASK_TIME_LIMIT_S", 900, low=2)
CELERY_TASK_TIME_LIMIT = TASK_TIME_LIMIT  # prefork only; threads have the client's own deadlines
if CELERY_BROKER_URL.startswith("redis"):
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "visibility_timeout": VISIBILITY_TIMEOUT,
        # kombu's defaults sweep every 100 s: redelivery would look broken
        "unacked_restore_interval": 5,
        "unacked_restore_throttle": 1,
    }
else:
    CELERY_BROKER_TRANSPORT_OPTIONS = {"confirm_publish": True}  # or a lost publish returns OK
CELERY_VISIBILITY_TIMEOUT = VISIBILITY_TIMEOUT
CELERY_RESULT_BACKEND_TRANSPORT_OPTIONS = {
    "visibility_timeout": VISIBILITY_TIMEOUT,
    # else a dispatch waits 19 s for a result backend that is away; the reaper sends it again
    "retry_policy": {
        "max_retries": 3,
        "interval_start": 0,
        "interval_step": 0.5,
        "interval_max": 1,
    },
}

REAP_EVERY_S = env_float("CONTEXTGRAPH_REAP_EVERY_S", 10.0, low=0.5)
CELERY_BEAT_SCHEDULE_FILENAME = str(STATE_DIR / "beat-schedule")
CELERY_BEAT_SYNC_EVERY = 1  # written at every sweep: its age is the scheduler's health
CELERY_BEAT_SCHEDULE = {
    "reap-runs": {
        "task": "contextgraph.reap_runs",
        "schedule": REAP_EVERY_S,
        # a reaper that waited in the queue is of no use: the next one sees the same rows
        "options": {"queue": "control", "expires": REAP_EVERY_S},
    },
}

# --- Intake ---------------------------------------------------------------------------------------

INTAKE_QUEUE = env_str("CONTEXTGRAPH_INTAKE_QUEUE", "contextgraph.runs")
MAX_MESSAGE_BYTES = 1024 * 1024  # larger runs travel in parts or by claim check
MAX_DOCUMENT_BYTES = env_int("CONTEXTGRAPH_MAX_DOCUMENT_BYTES", 512 * 1024 * 1024, low=1024)
# On Redis, a message that a killed consumer held comes back after this long (AMQP: at once).
INTAKE_REDELIVER_AFTER_S = env_int("CONTEXTGRAPH_INTAKE_REDELIVER_AFTER_S", 60, low=1)
# A claim check may only name files below these folders; none by default.
CLAIM_ROOTS = env_list("CONTEXTGRAPH_CLAIM_ROOTS")

# --- Scoring --------------------------------------------------------------------------------------

PROMPTS_DIR = Path(env_str("CONTEXTGRAPH_PROMPTS_DIR", str(BASE_DIR / "prompts")))
CREDIT_POLICY = env_str("CONTEXTGRAPH_CREDIT_POLICY", "adr0019")
# With it the coins of the hold-out can be recomputed (audit_holdout). Change it between experiments only:
# coins that were tossed under another one no longer verify.
HOLDOUT_SEED = env_str("CONTEXTGRAPH_HOLDOUT_SEED", "contextgraph")

# Signals to compute; one that is left out is marked "skipped" on every row.
SIGNALS = env_list("CONTEXTGRAPH_SIGNALS", "trace,embed,judge")

JUDGE_BASE_URL = env_str("JUDGE_BASE_URL")  # empty: the judge is skipped, and the rows say so
JUDGE_MODEL = env_str("JUDGE_MODEL")
JUDGE_API_KEY = env_secret("JUDGE_API_KEY")
# "openai" leaves out the request fields that only vLLM and its kin know.
JUDGE_DIALECT = env_str("JUDGE_DIALECT", "vllm")
JUDGE_THINKING = env_bool("JUDGE_THINKING")  # costs tokens; a reply that never ends it is unusable
# One call for the tips of an attempt (verdicts by random id), or one call a tip ("per_tip"). The first is
# the default for its cost alone (benchmarks/bench_judge.py, a stand-in at 200 ms a call: 5.1 times less
# wall time for 7,405 retrievals). Which of them judges better was not measured, as no capable model was
# at hand, and depends on the model. Measure yours: calibrate_judge --pairs under either value; it fills a
# question up with tips of other pairs, as production asks about several, so that the two do differ.
JUDGE_MODE = env_str("JUDGE_MODE", "per_attempt")
JUDGE_TIPS_PER_CALL = env_int("JUDGE_TIPS_PER_CALL", 12, low=1, high=20)
# Calls at once, over all workers; fewer while the server is overloaded.
JUDGE_CONCURRENCY = env_int("JUDGE_CONCURRENCY", 8, low=1, high=256)
JUDGE_CONNECT_TIMEOUT_S = env_float("JUDGE_CONNECT_TIMEOUT_S", 5.0, low=0.1)
JUDGE_READ_TIMEOUT_S = env_float("JUDGE_READ_TIMEOUT_S", 60.0, low=0.1)
JUDGE_DEADLINE_S = env_float("JUDGE_DEADLINE_S", 120.0, low=0.1)
JUDGE_HTTP_TRIES = env_int("JUDGE_HTTP_TRIES", 3, low=1, high=10)
JUDGE_MAX_TOKENS = env_int("JUDGE_MAX_TOKENS", 600, low=16)  # of the verdict about one tip
# A failed call is asked again by the reaper: first after this long, doubled each time.
JUDGE_RETRY_AFTER_S = env_float("JUDGE_RETRY_AFTER_S", 60.0, low=0.1)
JUDGE_MAX_TRIES = env_int("JUDGE_MAX_TRIES", 4, low=1, high=20)
# After an error that an operator must mend (key, model, bill), one call tries again this often.
JUDGE_PAUSE_S = env_float("JUDGE_PAUSE_S", 300.0, low=0.1)
# False: no verdict is taken from the cache, and identical pairs are each asked about.
JUDGE_CACHE = env_bool("JUDGE_CACHE", default=True)
# A stronger judge for verdicts that matter; empty: there is none. It may live elsewhere.
JUDGE_HIGH_STAKES_MODEL = env_str("JUDGE_HIGH_STAKES_MODEL")
JUDGE_HIGH_STAKES_BASE_URL = env_str("JUDGE_HIGH_STAKES_BASE_URL", JUDGE_BASE_URL)
JUDGE_HIGH_STAKES_API_KEY = env_secret("JUDGE_HIGH_STAKES_API_KEY") or (
    JUDGE_API_KEY if JUDGE_HIGH_STAKES_BASE_URL == JUDGE_BASE_URL else ""  # never to another server
)
JUDGE_ESCALATIONS_PER_RUN = env_int("JUDGE_ESCALATIONS_PER_RUN", 50)
# For judge_report and show_run: {"model": [per million tokens in, per million tokens out]}.
JUDGE_PRICES = env_prices("JUDGE_PRICES")

# The memo of a run after its dream pass: by the "writer" (no inference), by the "model" (its calls hold
# up the worker that finishes runs) or "off". On demand (manage.py memo) a model is asked if there is one.
MEMOS = env_str("CONTEXTGRAPH_MEMOS", "writer")
# One that is older is written anew though no fact has changed.
MEMO_MAX_AGE_H = env_float("MEMO_MAX_AGE_H", 168.0, low=0.0)
# With a model: "single" asks once, "debate" has both sides written first. Without one a writer does it.
MEMO_VARIANT = env_str("MEMO_VARIANT", "single")

# Longer than one step of work on a batch (a judge call with its retries): the delay after a crash.
SCORE_LEASE_S = env_float("CONTEXTGRAPH_SCORE_LEASE_S", 180.0, low=1.0)
SCORE_BATCH_MAX_TRIES = env_int("CONTEXTGRAPH_SCORE_BATCH_MAX_TRIES", 6, low=1, high=100)
# The reaper sends a waiting batch again when its run has made no progress for this long.
REDISPATCH_AFTER_S = env_float("CONTEXTGRAPH_REDISPATCH_AFTER_S", 60.0, low=0.5)
# A run that an agent records itself (memory.store) counts as dead after this long without a sign of life.
RECORDING_TIMEOUT_H = env_float("CONTEXTGRAPH_RECORDING_TIMEOUT_H", 24.0, low=0.01)
EMBED_THREADS = env_int("CONTEXTGRAPH_EMBED_THREADS", 2, low=1, high=64)
