"""Reads every setting from the environment, once. docs/settings.md explains those that begin with ADKWEB_."""

import hashlib
import json
import os
import re
import secrets
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import environ
import platformdirs
from csp.constants import NONCE, NONE, SELF

from sessions_app.access import private_files

env = environ.Env()

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = Path(__file__).resolve().parent
# In a checkout, templates and static files are in the top folder; an installed package has them inside.
FILES = CHECKOUT if (CHECKOUT / "templates").is_dir() else PACKAGE
DEMO = PACKAGE / "demo.db" if FILES is PACKAGE else CHECKOUT / "examples" / "demo.db"


def _sources(text: str) -> list[str]:
    try:
        named = json.loads(text)
    except json.JSONDecodeError as error:
        raise SystemExit(f'ADKWEB_SOURCES is not a JSON list like ["./agents", "other.db"]: {error}') from error
    return [str(name) for name in named] if isinstance(named, list) else [str(named)]


def _prices(text: str) -> dict[str, tuple[float, float]]:
    """Reads ADKWEB_PRICES: JSON, or the name of a file with it."""
    try:
        given = text if text.lstrip()[:1] in ("{", "") else Path(text).read_text("utf-8")
        return {str(model): (float(each[0]), float(each[1])) for model, each in json.loads(given or "{}").items()}
    except (OSError, ValueError, TypeError, AttributeError, LookupError) as error:
        raise SystemExit(
            f'ADKWEB_PRICES is neither JSON like {{"gemini-2.5-flash": [0.30, 2.50]}} nor a file with it: {error}'
        ) from error


def artifacts_in(text: str) -> dict[str, str]:
    """Reads ADKWEB_ARTIFACTS: a folder or bucket for all sources, which is then named `*`, or JSON with one for each."""
    try:
        given = json.loads(text) if text.lstrip()[:1] == "{" else {"*": text} if text else {}
        named = {str(source): _storage(named) for source, named in given.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise SystemExit(
            f'ADKWEB_ARTIFACTS is neither a folder, a bucket nor JSON like {{"prod": "/srv/artifacts"}}: {error}'
        ) from error
    return named


def _storage(text: str) -> str:
    """Returns a bucket as gs://name, or the absolute path of a folder, which may be a URL: google-adk takes file:///srv."""
    scheme, separator, path = text.partition("://")
    if scheme == "gs" and re.fullmatch(r"[a-z0-9][a-z0-9._-]+/?", path):
        return f"gs://{path.rstrip('/')}"
    if scheme == "gs":
        raise ValueError(f"{text} is no bucket; gs://name is, without a folder in it")
    if separator and scheme != "file":
        raise ValueError(f"{scheme}:// cannot be read; a folder, file:// or gs:// can")
    return str(Path(unquote(path) if separator else text).expanduser().absolute())


def _one_of(name: str, *values: str) -> str:
    """Reads a setting that is one of these words, by default the first."""
    value = env.str(name, default=values[0])
    if value not in values:
        raise SystemExit(f"{name} is {value!r}; it may be {', '.join(values)}.")
    return str(value)


DATA_DIR = Path(env.str("ADKWEB_DATA_DIR", default=platformdirs.user_data_dir("adkweb")))
DATABASE_URL = env.str("ADKWEB_DATABASE_URL", default=f"sqlite:///{DATA_DIR / 'adkweb.db'}")
SOURCES = _sources(env.str("ADKWEB_SOURCES", default="[]"))
READ_ONLY = env.bool("ADKWEB_READ_ONLY", default=False)
POOL_SIZE = env.int("ADKWEB_POOL_SIZE", default=20)
PREPARED_STATEMENTS = env.bool("ADKWEB_PREPARED_STATEMENTS", default=True)
SILENCE_SECONDS = env.float("ADKWEB_SILENCE_SECONDS", default=300.0)
SQLITE_STATE = _one_of("ADKWEB_SQLITE_STATE", "auto", "merged", "replaced")
PRICES = _prices(env.str("ADKWEB_PRICES", default=""))
ARTIFACTS = artifacts_in(env.str("ADKWEB_ARTIFACTS", default=""))
SETTLE_SECONDS = env.float("ADKWEB_SETTLE_SECONDS", default=2.0)
REDIS_URL = env.str("ADKWEB_REDIS_URL", default="")
MAX_UPLOAD = env.int("ADKWEB_MAX_UPLOAD", default=1024 * 1024 * 1024)
IDLE_SECONDS = env.float("ADKWEB_IDLE_HOURS", default=14 * 24.0) * 3600
DEBUG = env.bool("ADKWEB_DEBUG", default=False)
ALLOWED_HOSTS = env.list("ADKWEB_ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]"])
HTTPS = env.bool("ADKWEB_HTTPS", default=False)
# Hosts that webhooks may be sent to although they are not public, or without https.
WEBHOOK_HOSTS = env.list("ADKWEB_WEBHOOK_HOSTS", default=[])
CSRF_TRUSTED_ORIGINS = env.list("ADKWEB_TRUSTED_ORIGINS", default=[])


def _secret_key() -> str:
    """Returns the key that signs cookies: the one given, or one that is made once and kept beside adkweb's own data."""
    given: str = env.str("ADKWEB_SECRET_KEY", default="")
    if given:
        return given
    file = DATA_DIR / "secret-key"
    try:
        return file.read_text()
    except FileNotFoundError:
        pass
    try:
        private_files.new_file(file)
        file.write_text(secrets.token_urlsafe(48))
    except FileExistsError:  # another process was faster
        pass
    except OSError as error:
        raise SystemExit(
            f"adkweb cannot keep its own files in {DATA_DIR}: {error}. Name another: ADKWEB_DATA_DIR"
        ) from error
    return file.read_text()


with suppress(OSError):  # whatever needs the folder reports what is wrong with it
    private_files.keep_folder(DATA_DIR)
SECRET_KEY = _secret_key()

# --- adkweb's own data; sessions_app.sources adds the sources ---------------------------------------------------------

DATABASES: dict[str, dict[str, Any]] = {"default": env.db_url_config(DATABASE_URL)}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    DATABASES["default"]["ENGINE"] = "adkweb.sqlite3"
    DATABASES["default"]["OPTIONS"] = {
        "timeout": 20,
        "transaction_mode": "IMMEDIATE",
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# A single process needs no layer; several processes tell each other through Redis.
REDIS_LAYER = {
    "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
    "CONFIG": {"hosts": [REDIS_URL], "prefix": "adkweb"},
}
CHANNEL_LAYERS = {"default": REDIS_LAYER} if REDIS_URL else {}

# --- Django -----------------------------------------------------------------------------------------------------------

ROOT_URLCONF = "adkweb.urls"
ASGI_APPLICATION = "adkweb.asgi.application"
INSTALLED_APPS = [
    "sessions_app.apps.SessionsConfig",  # first, so that its createsuperuser replaces Django's
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "csp",
    "django_htmx",
]
MIDDLEWARE = [
    "sessions_app.http.compressed.Compressed",
    "django.middleware.security.SecurityMiddleware",
    "sessions_app.http.headers.SecureCookies",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "sessions_app.web.session.panes.Panes",
    "sessions_app.web.account.signin.SignInRequired",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "sessions_app.web.errors.ErrorPages",
    "sessions_app.web.account.signin.LoopbackUntilAdmin",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [FILES / "templates"],
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.i18n",
                "django.contrib.auth.context_processors.auth",
                "sessions_app.web.context.page",
            ],
            "builtins": [
                "sessions_app.web.html.tags",
                "sessions_app.web.html.times",
                "sessions_app.web.html.numbers",
                "sessions_app.web.html.links",
                "sessions_app.web.html.artifacts",
                "sessions_app.web.html.terms",
                "django.templatetags.i18n",
                "django.templatetags.static",
            ],
        },
    }
]

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "home"
SESSION_ENGINE = "sessions_app.access.sign_ins"
# A browser sends cookies to every port of a host, so adkwebs on one machine with different data need different names.
# Processes that share their data share the key, and so the names.
_COOKIE = "adkweb_{}_" + hashlib.sha256(f"cookies\n{SECRET_KEY}".encode()).hexdigest()[:8]
_COOKIE = f"__Host-{_COOKIE}" if HTTPS else _COOKIE
SESSION_COOKIE_NAME = _COOKIE.format("session")
SESSION_COOKIE_AGE = 60 * 60 * 24 * 30
CSRF_COOKIE_NAME = _COOKIE.format("csrf")
CSRF_COOKIE_HTTPONLY = True
CSRF_FAILURE_VIEW = "sessions_app.web.errors.forged"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = LANGUAGE_COOKIE_SECURE = HTTPS
SECURE_HSTS_SECONDS = 60 * 60 * 24 * 365 if HTTPS else 0
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
# An event may be large. The limit keeps a request from filling the memory.
DATA_UPLOAD_MAX_MEMORY_SIZE = env.int("ADKWEB_MAX_BODY", default=16 * 1024 * 1024)
DATA_UPLOAD_MAX_NUMBER_FIELDS = 5000
SINGLE_FILE = "sessions_app.web.session.single_file.page"  # what renders a session as one page
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF, NONCE],
        "style-src": [SELF, NONCE],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}

STATIC_URL = "/static/"
STATICFILES_DIRS = [FILES / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "sessions_app.http.bundles.Bundles",
]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "sessions_app.http.static.VersionedStaticFiles"},
}
SERVESTATIC_USE_FINDERS = True  # a checkout needs no collectstatic step
SERVESTATIC_AUTOREFRESH = DEBUG

USE_TZ = True
MACHINE_ZONE = os.environ.get("TZ")  # for times in the terminal; Django sets that of the process to TIME_ZONE
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("es", "Español"), ("ko", "한국어")]
LOCALE_PATHS = [CHECKOUT / "sessions_app" / "locale"]
LANGUAGE_COOKIE_NAME = "adkweb_language"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"class": "adkweb.logs.Line", "format": "{asctime} {levelname} {name}: {message}", "style": "{"}
    },
    # A database that does not answer, or a source that is still being indexed, is not a mistake. Whoever notices logs
    # it.
    "filters": {
        "mistakes": {
            "()": "django.utils.log.CallbackFilter",
            "callback": lambda record: getattr(record, "status_code", 0) != 503,
        }
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "stream": sys.stderr, "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        "adkweb": {"level": "INFO"},
        "channels_redis": {"level": "CRITICAL"},  # broadcast.py logs a warning, instead of a traceback every second
        "django.request": {"level": "ERROR", "filters": ["mistakes"]},
        "django.security.DisallowedHost": {"level": "CRITICAL"},
    },
}
