"""Checks adkweb's own database, files and settings for `adkweb doctor`."""

import json
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from django.conf import settings
from django.db import DatabaseError

from ...access import oidc, private_files, sign_in
from ...artifacts.buckets import SCHEME, Bucket
from ...artifacts.storages import Fault, Unreadable
from ...models import Answer, Dismissal, Job, Report
from ...running.servers import RUN
from ...sources import versions
from ._rows import some

OK, NOTE, BAD = "✓", "!", "✗"
_REDIS_SECONDS: Final = 3
_BUCKET_FAULTS: Final[dict[Fault, str]] = {
    "no_library": 'but the library that reads buckets is missing: pip install "adkweb[gcs]"',
    "no_bucket": "and there is no such bucket. Check its name.",
    "denied": "which adkweb may not read. Sign in (gcloud auth application-default login, or a service account), and give "
    "that account the role Storage Object Viewer on the bucket.",
    "away": "which does not answer. Check the network of this machine.",
}


class Finding(NamedTuple):
    """The result of a check: a grade, and a sentence with what to do."""

    grade: str
    text: str


def own() -> Iterator[Finding]:
    """Checks adkweb's own database, files and settings. It creates nothing that is missing."""
    (database,) = _database()
    yield database
    yield from _files()
    outside = [host for host in settings.ALLOWED_HOSTS if not sign_in.is_loopback(host)]
    if database.grade != BAD:
        yield from _accounts(outside, ready=database.grade == OK)
    if database.grade == OK:
        yield from _runs()
    yield from _provider()
    yield from _hosts(outside)
    yield from _numbers()
    yield from _redis()
    yield from _artifacts()
    if settings.DEBUG:
        yield Finding(
            BAD if outside else NOTE,
            "ADKWEB_DEBUG is on: error pages show adkweb's settings and what it holds in memory. Unset it.",
        )


def _database() -> Iterator[Finding]:
    configured = settings.DATABASES["default"]
    where, sqlite = str(configured["NAME"]), configured["ENGINE"].endswith("sqlite3")
    if sqlite and not Path(where).exists():  # connecting would create it
        yield Finding(NOTE, f"adkweb's own database {where} doesn't exist yet: the first start of adkweb creates it.")
        return
    try:
        waiting, why = versions.missing(), versions.why_refused(versions.applied())
    except DatabaseError as error:
        yield Finding(BAD, f"adkweb's own database (ADKWEB_DATABASE_URL) cannot be used: {str(error).strip()}")
        return
    if why:
        yield Finding(BAD, f"adkweb's own database {where} {why}")
    elif waiting:
        yield Finding(
            NOTE,
            f"adkweb's own database {where} lacks {len(waiting)} migrations: `adkweb migrate`, and every start of adkweb, "
            "applies them; other servers need that first.",
        )
    elif sqlite and not os.access(where, os.W_OK):
        yield Finding(BAD, f"adkweb's own database {where} can't be written by this user: no one could sign in.")
    else:
        yield Finding(OK, f"adkweb's own database answers and is up to date: {where}")


def _files() -> Iterator[Finding]:
    folder = Path(settings.DATA_DIR)
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        yield Finding(BAD, f"The data directory {folder} cannot be written. Name another folder in ADKWEB_DATA_DIR.")
    else:
        yield Finding(OK, f"The data directory can be written: {folder}")
    paths = [folder, *private_files.own_files(folder)]
    own = settings.DATABASES["default"]
    if own["ENGINE"].endswith("sqlite3"):
        paths += {Path(own["NAME"])} - {*paths}
    problems = [
        Finding(
            NOTE,
            f"{path} is open to others of this machine (mode {mode:o}), who could read adkweb's secrets: "
            f"chmod {'700' if path.is_dir() else '600'} {path}",
        )
        for path, mode in private_files.open_to_others(paths)
    ]
    yield from problems or [Finding(OK, "adkweb's own files are readable by their owner only")]


def _accounts(outside: list[str], *, ready: bool) -> Iterator[Finding]:
    if ready and sign_in.admin_exists():
        yield Finding(OK, "An account with a password exists")
    elif settings.OIDC_ISSUER:
        yield Finding(NOTE, "No admin has a password: while the identity provider is down, no one can sign in")
    elif outside:
        yield Finding(
            BAD,
            f"ADKWEB_ALLOWED_HOSTS names {', '.join(outside)}, but no one could sign in there: adkweb createsuperuser",
        )
    else:
        yield Finding(OK, "No account has a password, and this machine needs none: adkweb prints a link that signs in")


def _runs() -> Iterator[Finding]:
    """Counts what is stored about runs of agents. It goes when their sessions and users do."""
    unknown = Answer.objects.filter(state="unknown")
    counted = {
        "runs": Job.objects.filter(kind=RUN).count(),
        "answers": Answer.objects.count(),
        "being sent": Answer.objects.filter(state="open").count(),
        "proposed answers": Job.objects.of_agents().exclude(kind=RUN).count(),
        "dismissed calls": Dismissal.objects.count(),
        "reports of what ran": Report.objects.count(),
    }
    shown = ", ".join(f"{what}: {n:,}" for what, n in counted.items() if n)
    yield Finding(OK, f"Stored about runs of agents: {shown or 'nothing'}")
    if unknown.exists():
        sessions = some("/".join(json.loads(names)) for names in unknown.values_list("names", flat=True).distinct())
        yield Finding(
            NOTE,
            f"It is unknown whether these sessions' agents got an answer: {sessions}. If a call still waits there, answer "
            "it again.",
        )


def _provider() -> Iterator[Finding]:
    if settings.OIDC_ISSUER and (fault := oidc.fault()):
        yield Finding(BAD, f"The identity provider {settings.OIDC_ISSUER} cannot be used: {fault}")
    elif settings.OIDC_ISSUER:
        yield Finding(OK, f"The identity provider {settings.OIDC_ISSUER} answers")


def _hosts(outside: list[str]) -> Iterator[Finding]:
    problems = [
        Finding(BAD, f"ADKWEB_ALLOWED_HOSTS: “{host}” matches no request. Use host names: adkweb.example.com")
        for host in settings.ALLOWED_HOSTS
        if "/" in host or (":" in host and not host.startswith("["))
    ]
    if "*" in outside:
        problems.append(
            Finding(NOTE, "ADKWEB_ALLOWED_HOSTS is “*”: requests for any host name are answered. Name yours.")
        )
    for origin in settings.CSRF_TRUSTED_ORIGINS:
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            problems.append(
                Finding(BAD, f"ADKWEB_TRUSTED_ORIGINS: “{origin}” needs its scheme: https://adkweb.example.com")
            )
        elif not _allowed(parts.hostname or ""):
            problems.append(
                Finding(
                    BAD,
                    f"ADKWEB_TRUSTED_ORIGINS has {origin}, and ADKWEB_ALLOWED_HOSTS lacks {parts.hostname}: add it.",
                )
            )
    yield from problems or [Finding(OK, f"Host names that are answered: {', '.join(settings.ALLOWED_HOSTS)}")]


def _allowed(host: str) -> bool:
    return any(
        pattern in ("*", host) or (pattern.startswith(".") and f".{host}".endswith(pattern))
        for pattern in settings.ALLOWED_HOSTS
    )


def _numbers() -> Iterator[Finding]:
    silence, settle = settings.SILENCE_SECONDS, settings.SETTLE_SECONDS
    if silence <= 0:
        yield Finding(BAD, f"ADKWEB_SILENCE_SECONDS is {silence}: it must be a number above 0.")
    elif silence < 30:
        yield Finding(
            NOTE,
            f"ADKWEB_SILENCE_SECONDS is {silence:g}: a model that thinks longer counts as ended, and an edit then ends "
            "its run. 300 is the default.",
        )
    if settle < 0:
        yield Finding(BAD, f"ADKWEB_SETTLE_SECONDS is {settle}: it must be a number from 0 on.")
    elif settle > silence:
        yield Finding(NOTE, "ADKWEB_SETTLE_SECONDS is larger than ADKWEB_SILENCE_SECONDS: queued edits wait very long.")
    if settings.POOL_SIZE < 1:
        yield Finding(BAD, f"ADKWEB_POOL_SIZE is {settings.POOL_SIZE}: PostgreSQL sources need at least 1 connection.")


def _redis() -> Iterator[Finding]:
    if not settings.REDIS_URL:
        return
    if find_spec("channels_redis") is None:
        yield Finding(BAD, 'ADKWEB_REDIS_URL is set, but its library is missing: pip install "adkweb[redis]"')
        return
    from redis import Redis, RedisError

    try:
        with Redis.from_url(
            settings.REDIS_URL, socket_timeout=_REDIS_SECONDS, socket_connect_timeout=_REDIS_SECONDS
        ) as server:
            server.ping()
    except (RedisError, ValueError, OSError) as error:
        yield Finding(
            BAD,
            f"The Redis of ADKWEB_REDIS_URL does not answer: {error} Until it does, processes find each other's changes "
            "only by looking.",
        )
    else:
        yield Finding(OK, "The Redis of ADKWEB_REDIS_URL answers")


def _artifacts() -> Iterator[Finding]:
    """Checks the places in ADKWEB_ARTIFACTS. google-adk's FileArtifactService creates `apps` in a folder when it saves
    a file."""
    for folder in sorted(set(settings.ARTIFACTS.values())):
        if folder.startswith(SCHEME):
            yield _bucket(Bucket(folder.removeprefix(SCHEME)))
            continue
        path = Path(folder)
        if not path.is_dir():
            yield Finding(BAD, f"ADKWEB_ARTIFACTS names {folder}, which isn't a folder on this machine.")
        elif not os.access(path, os.R_OK | os.X_OK):
            yield Finding(BAD, f"ADKWEB_ARTIFACTS names {folder}, which this user can't read.")
        elif not (path / "apps").is_dir():
            yield Finding(
                NOTE,
                f"ADKWEB_ARTIFACTS names {folder}, which has no folder `apps`: no agent has saved an artifact there yet, "
                "or it is not the folder that google-adk's FileArtifactService was given.",
            )
        else:
            yield Finding(OK, f"Artifacts are read from {folder}")


def _bucket(bucket: Bucket) -> Finding:
    try:
        filled = bucket.look()
    except Unreadable as error:
        said = f" Google says: {error.reason}" if error.reason else ""
        words = _BUCKET_FAULTS.get(error.fault, "which cannot be read.")
        return Finding(BAD, f"ADKWEB_ARTIFACTS names {bucket.address}, {words}{said}")
    if not filled:
        return Finding(
            NOTE, f"ADKWEB_ARTIFACTS names {bucket.address}, which is empty: no agent has saved an artifact there."
        )
    return Finding(OK, f"Artifacts are read from {bucket.address}")
