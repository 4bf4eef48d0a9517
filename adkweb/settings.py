"""Makes Django's settings from the environment."""

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

from csp.constants import NONCE, NONE, SELF

from adkweb import environment
from adkweb.environment import *  # noqa: F403 - each of them is a setting, too

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = Path(__file__).resolve().parent
# In a checkout, templates and static files are in the top folder; an installed package has them inside.
FILES = CHECKOUT if (CHECKOUT / "templates").is_dir() else PACKAGE
DEMO = PACKAGE / "demo.db" if FILES is PACKAGE else CHECKOUT / "examples" / "demo.db"

# --- adkweb's own data; sessions_app.sources adds the sources ---------------------------------------------------------

DATABASES: dict[str, dict[str, Any]] = {"default": environment.env.db_url_config(environment.DATABASE_URL)}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    DATABASES["default"]["ENGINE"] = "adkweb.sqlite3"
    DATABASES["default"]["OPTIONS"] = {
        "timeout": 20,
        "transaction_mode": "IMMEDIATE",
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
    }
else:
    DATABASES["default"]["ENGINE"] = "adkweb.postgresql"
    DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = True  # a pooler would lose their rows
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# A single process needs no layer; several processes tell each other through Redis.
REDIS_LAYER = {
    "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
    "CONFIG": {"hosts": [environment.REDIS_URL], "prefix": "adkweb"},
}
CHANNEL_LAYERS = {"default": REDIS_LAYER} if environment.REDIS_URL else {}

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
    # Only parts of allauth are used: its pages have no addresses here, and its templates are not found.
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
]
MIDDLEWARE = [
    "sessions_app.http.asking.AddressKnown",
    "sessions_app.http.reader.ReaderKnown",
    "sessions_app.http.measured.Measured",
    "sessions_app.http.headers.Compressed",
    "django.middleware.security.SecurityMiddleware",
    "sessions_app.http.headers.SecureCookies",
    "csp.middleware.CSPMiddleware",
    "sessions_app.http.sign_ins.SignIns",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "sessions_app.http.limits.Rated",
    "sessions_app.web.session.page.Panes",
    "sessions_app.web.access.signin.SignInRequired",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "sessions_app.web.errors.ErrorPages",
    "sessions_app.web.access.signin.LoopbackUntilAdmin",
    "sessions_app.web.naming.UsersNamed",
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
                "sessions_app.web.templatetags.tags",
                "sessions_app.web.templatetags.times",
                "sessions_app.web.templatetags.links",
                "sessions_app.web.templatetags.row_ends",
                "sessions_app.web.artifacts",
                "sessions_app.web.templatetags.terms",
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
CSRF_TRUSTED_ORIGINS = environment.TRUSTED_ORIGINS
LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "home"
SOCIALACCOUNT_ADAPTER = "sessions_app.web.access.provider.Accounts"
ACCOUNT_EMAIL_VERIFICATION = "none"  # adkweb sends no e-mail
MFA_ADAPTER = "sessions_app.access.at_rest.Adapter"
MFA_TOTP_ISSUER = "adkweb"
SESSION_ENGINE = "sessions_app.access.sign_ins"
# A browser sends cookies to every port of a host, so adkwebs on one machine with different data need different names.
# Processes that share their data share the key, and so the names.
_COOKIE = "adkweb_{}_" + hashlib.sha256(f"cookies\n{environment.SECRET_KEY}".encode()).hexdigest()[:8]
_COOKIE = f"__Host-{_COOKIE}" if environment.HTTPS else _COOKIE
SESSION_COOKIE_NAME = _COOKIE.format("session")
SESSION_COOKIE_SAMESITE = "Lax"  # a stricter one would not come along from the identity provider
SESSION_COOKIE_AGE = max(1, int(environment.SIGN_IN_SECONDS))
CSRF_COOKIE_NAME = _COOKIE.format("csrf")
CSRF_COOKIE_HTTPONLY = True
CSRF_FAILURE_VIEW = "sessions_app.web.errors.forged"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = LANGUAGE_COOKIE_SECURE = environment.HTTPS
SECURE_HSTS_SECONDS = 60 * 60 * 24 * 365 if environment.HTTPS else 0
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = environment.MAX_BODY
DATA_UPLOAD_MAX_NUMBER_FIELDS = 5000
SINGLE_FILE = "sessions_app.web.transfer.single_file.page"  # what renders a session as one page
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
        "require-trusted-types-for": ["'script'"],
        "trusted-types": ["default"],  # trusted.js
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
    "staticfiles": {"BACKEND": "sessions_app.http.bundles.VersionedStaticFiles"},
}
SERVESTATIC_USE_FINDERS = True  # a checkout needs no collectstatic step
SERVESTATIC_AUTOREFRESH = environment.DEBUG

USE_TZ = True
MACHINE_ZONE = os.environ.get("TZ")  # for times in the terminal; Django sets that of the process to TIME_ZONE
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("es", "Español"), ("ko", "한국어")]
LOCALE_PATHS = [CHECKOUT / "sessions_app" / "locale"]
LANGUAGE_COOKIE_NAME = "adkweb_language"
LANGUAGE_COOKIE_HTTPONLY = True

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "adkweb.logs.Line", "as_json": not sys.stderr.isatty()}},
    # A database that does not answer, or a source that is still being indexed, isn't an error of adkweb's. The code
    # that notices it logs it.
    "filters": {
        "mistakes": {
            "()": "django.utils.log.CallbackFilter",
            "callback": lambda record: getattr(record, "status_code", 0) != 503,
        }
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "stream": sys.stderr, "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        # In a terminal a command speaks for itself; serve logs everything once it is ready.
        "adkweb": {"level": "ERROR" if sys.stderr.isatty() else "INFO"},
        "channels_redis": {"level": "CRITICAL"},  # broadcast.py logs a warning, instead of a traceback every second
        "django.request": {"level": "ERROR", "filters": ["mistakes"]},
        "django.security.DisallowedHost": {"level": "CRITICAL"},
    },
}
