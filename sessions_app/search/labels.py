"""Gives sessions titles and tags, and takes them away. They are adkweb's own data: no event tells of them, and a fork does
not inherit them.
"""

import json
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..access.shown import check_unmasked, shown_words, typed_words
from ..domain.errors import Invalid, NotFound
from ..domain.mask_patterns import DOTS
from ..domain.masks import has_dots
from ..domain.session_ref import SessionRef, digest_of
from ..domain.shorten import words
from ..models import SearchSession, SessionTag, SessionTitle
from ..models.pages import in_pages
from ..reads.labels import Labels, batches, labels_of
from ..reads.lists import title_of
from ..sources import database, registry
from ..sources.dialect import is_wanted, wanted
from . import masked
from .index.read import rows_of, state_of
from .index.tables import names_of
from .lines import clean
from .selecting import all_listed, sessions_in_seen_apps
from .sql import rows
from .titling import LENGTH, retitle
from .words import folded

TAG_LENGTH: Final = 50
MOST_TAGS: Final = 50  # of a session
_SOME: Final = 200  # rows of a statement


def rename(ref: SessionRef, title: str, *, actor: Actor) -> str:
    """Gives a session a title. An empty one takes away what somebody gave it. Returns what the actor may see of the title
    that somebody gave before.

    Raises Invalid, NotAllowed, NotFound and SourceError."""
    actor.check_may("append", ref.source, ref.app_name)
    line = _one_line(title)
    if len(line) > LENGTH:
        raise Invalid(_("A title can have up to %(n)s characters.") % {"n": LENGTH}, field="title")
    own = _own_title(ref)
    names: dict[str, Any] = {"where": registry.identity(ref.source), "digest": digest_of(*ref[1:])}
    with transaction.atomic():
        given = SessionTitle.objects.select_for_update().filter(**names)
        before = given.values_list("title", flat=True).first() or ""
        line = typed_words(line, before, actor, ref.app_name)
        if line:
            SessionTitle.objects.update_or_create(**names, defaults={"title": line, "names": names_of(ref)})
        else:
            given.delete()
        retitle(ref, line or own)
    return shown_words(before, actor, ref.app_name)


def change(ref: SessionRef, *, title: str | None, tags: Collection[str] | None, actor: Actor) -> Labels:
    """Gives a session a title and these tags, all or nothing; None leaves them. Returns both as they are then.

    Raises what `rename` and `tag` do."""
    actor.check_may("append", ref.source, ref.app_name)
    if not list(_existing([ref])):
        raise NotFound(_("There's no session “%(id)s”.") % {"id": ref.session_id})
    with transaction.atomic():
        if title is not None:
            rename(ref, title, actor=actor)
        if tags is not None:
            keys = {_tag(each)[1] for each in tags}
            if len(keys) > MOST_TAGS:
                raise _too_many(ref)
            has = {folded(each): each for each in labels_of([ref], actor=actor).get(ref, Labels()).tags}
            for key, each in has.items():
                if key not in keys:
                    untag([ref], each, actor=actor)
            for each in tags:
                if folded(each) not in has:
                    tag([ref], each, actor=actor)
    return labels_of([ref], actor=actor).get(ref, Labels())


def tag(refs: Collection[SessionRef], tag: str, *, actor: Actor) -> list[SessionRef]:
    """Tags sessions, all or none. Returns those that did not have the tag; sessions that are gone are left out.

    Raises Invalid for a tag that is none or if a session has MOST_TAGS, NotAllowed, NotFound if all are gone, SourceError.
    """
    line, key = _tag(tag)
    for source, app in {(ref.source, ref.app_name) for ref in refs}:
        actor.check_may("append", source, app)
        check_unmasked(line, actor, app)
    there = list(_existing(refs))
    if refs and not there:
        raise NotFound(_("There's no session “%(id)s”.") % {"id": next(iter(refs)).session_id})
    with transaction.atomic():
        tagged: list[SessionRef] = []
        for where, digests in batches(there):
            have = SessionTag.objects.filter(where=where, digest__in=digests).values_list("digest", "folded")
            tags = list(have)
            without = {each: ref for each, ref in digests.items() if (each, key) not in tags}
            _check_room(Counter(digest for digest, _folded in tags), without)
            new = [
                SessionTag(
                    where=where,
                    digest=digest,
                    names=names_of(ref),
                    tag=line,
                    folded=key,
                    seen=_seen(line, ref.app_name),
                )
                for digest, ref in without.items()
            ]
            SessionTag.objects.bulk_create(new, batch_size=_SOME, ignore_conflicts=True)
            tagged += without.values()
    return tagged


def untag(refs: Collection[SessionRef], tag: str, *, actor: Actor) -> list[SessionRef]:
    """Takes a tag away from sessions, all or none. Returns those that had it. Who sees dots takes away all tags that look
    so. Raises Invalid and NotAllowed."""
    _line, key = _tag(tag)
    for source, app in {(ref.source, ref.app_name) for ref in refs}:
        actor.check_may("append", source, app)
    with transaction.atomic():
        untagged: list[SessionRef] = []
        for where, digests in batches(refs):
            is_it = Q(folded=key) | Q(seen=key) if has_dots(key) else Q(folded=key)
            having = SessionTag.objects.filter(is_it, where=where, digest__in=digests)
            untagged += [digests[digest] for digest in having.values_list("digest", flat=True)]
            having.delete()
    return untagged


def known_tags(wanted: str, limit: int, *, actor: Actor) -> list[str]:
    """Returns tags that contain some words, in alphabetical order, of sessions in apps that the actor may see. Those of
    which something is hidden are left out: nobody could give them again."""
    condition: str = "TRUE"
    values: list[str] = []
    if not (actor.sees_all and all_listed()):
        condition = f"""EXISTS (SELECT 1 FROM sessions_app_sessiontag AS t
            JOIN sessions_app_searchsource AS w ON w."where" = t."where"
            JOIN sessions_app_searchsession AS s ON s.source_id = w.id AND s.digest = t.digest
            WHERE t.seen = each.seen AND {sessions_in_seen_apps(actor, values)})"""
    # Steps from tag to tag through the index, however many sessions have each.
    return [
        row[0]
        for row in rows(
            f"""WITH RECURSIVE each (seen) AS (SELECT min(seen) FROM sessions_app_sessiontag UNION ALL
                SELECT (SELECT min(t.seen) FROM sessions_app_sessiontag AS t WHERE t.seen > each.seen)
                FROM each WHERE each.seen IS NOT NULL)
            SELECT (SELECT t.tag FROM sessions_app_sessiontag AS t WHERE t.seen = each.seen LIMIT 1) FROM each
            WHERE each.seen LIKE %s ESCAPE '!' AND each.seen NOT LIKE %s AND {condition}
            ORDER BY each.seen LIMIT %s""",
            [f"%{_escaped(folded(wanted))}%", f"%{DOTS}%", *values, limit],
        )
    ]


def mask_again() -> None:
    """Has sessions found by what everybody sees of their tags now, after a rule was made or deleted."""
    changed = []
    for row in in_pages(SessionTag.objects.only("names", "tag", "seen")):
        if (seen := _seen(row.tag, json.loads(row.names)[0])) != row.seen:
            row.seen = seen
            changed.append(row)
    SessionTag.objects.bulk_update(changed, ["seen"], batch_size=_SOME)


def _seen(tag: str, app_name: str) -> str:
    return folded(masked.words(tag, app_name))


def _escaped(text: str) -> str:
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")


def _tag(text: str) -> tuple[str, str]:
    """Returns a tag on one line, and as it is compared: “VIP” and “vip” are one tag. Raises Invalid."""
    line = _one_line(text)
    key = folded(line)
    if not key:
        raise Invalid(_("Enter one or more words for the tag."), field="tag")
    if len(line) > TAG_LENGTH or len(key) > 2 * TAG_LENGTH:
        raise Invalid(_("A tag can have up to %(n)s characters.") % {"n": TAG_LENGTH}, field="tag")
    return line, key


def _one_line(text: str) -> str:
    visible = "".join(" " if unicodedata.category(sign) in ("Cc", "Zl", "Zp") else sign for sign in text)
    return " ".join(clean(visible, len(visible)).split())


def _check_room(count: Counter[str], without: dict[str, SessionRef]) -> None:
    for digest, ref in without.items():
        if count[digest] >= MOST_TAGS:
            raise _too_many(ref)


def _too_many(ref: SessionRef) -> Invalid:
    said = _("%(id)s: a session can have up to %(n)s tags.")
    return Invalid(said % {"id": words(ref.session_id, 60), "n": MOST_TAGS}, field="tag")


def _existing(refs: Collection[SessionRef]) -> Iterator[SessionRef]:
    """Yields those of these sessions that exist, with one small query for many."""
    every = list(dict.fromkeys(refs))
    for source in {ref.source for ref in every}:
        some = [ref for ref in every if ref.source == source]
        for start in range(0, len(some), _SOME):
            yield from _existing_in(source, some[start : start + _SOME])


def _existing_in(source: str, refs: Sequence[SessionRef]) -> list[SessionRef]:
    names = ("app_name", "user_id", "id")
    with database.using(source) as db, db.cursor() as cursor:
        cursor.execute(
            f"""{wanted(names, len(refs))}
            SELECT s.app_name, s.user_id, s.id FROM wanted CROSS JOIN sessions AS s WHERE {is_wanted("s", names)}""",
            [name for ref in refs for name in ref[1:]],
        )
        there = {SessionRef(source, *row) for row in cursor.fetchall()}
    return [ref for ref in refs if ref in there]


def _own_title(ref: SessionRef) -> str:
    """Returns the title that a session has of itself, as everybody sees it. Raises NotFound, SourceError."""
    with database.using(ref.source) as db:
        row = rows_of(db, [ref[1:]]).get(ref[1:])
        if row is None:
            raise NotFound(_("There's no session “%(id)s”.") % {"id": ref.session_id})
        state = masked.state(state_of(db, row), ref.app_name)
    stored = SearchSession.objects.filter(source__where=registry.identity(ref.source), digest=digest_of(*ref[1:]))
    summary = stored.values_list("summary", flat=True).first()
    return title_of(state) or (json.loads(summary).get("opening", "") if summary else "")
