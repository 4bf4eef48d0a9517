"""Stores what can be looked for in adkweb's own database: sessions in numbers, their words, facts and state."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from django.db import connection, transaction
from django.db.models import F

from ...domain.session_ref import SessionRef, digest_of
from ...models import (
    DriftedSession,
    SearchDoc,
    SearchFact,
    SearchKey,
    SearchName,
    SearchOwner,
    SearchPending,
    SearchSession,
    SearchSource,
    SearchSpan,
    SearchValue,
    SearchWrite,
)
from ...sources import dialect
from ...sources.dialect import Either
from .. import learning, masked, vocabulary
from ..folding import Summary
from ..learning import forget_users
from ..lines import clean
from ..sql import rows
from ..titling import fields as titled
from ..titling import given, insert
from ..values import Value
from ..word_tables import PIECES, delete_pieces, delete_rows, empty, insert_words
from ..words import folded, marked
from .read import Owner, Reading

_SOME: Final = 200  # rows of a statement
REMEMBERED: Final = 50_000  # names, owners and words that are known to be stored
NAME_LENGTH: Final = 400  # with 200 of a value, so many of four bytes each fit into an index of PostgreSQL
_SHOWN_LENGTH: Final = 200  # so that it fits into an index beside the name of an app
# Whoever stores sessions now is waited for, and then finds that their source is gone. On SQLite one writes at a time.
_NO_MORE: Final = Either(
    sqlite="SELECT 1", postgresql="LOCK TABLE sessions_app_searchsession IN SHARE ROW EXCLUSIVE MODE"
)
# Those that refer to others come first.
_ALL: Final = (
    *(
        "searchfact",
        "searchvalue",
        "searchdoc",
        "searchtitle",
        "searchspan",
        "searchpending",
        "searchwrite",
        "searchkey",
    ),
    *("searchname", "driftedsession", "searchsession", "searchowner", "searchsource", "waiting"),
)
SUMMARY: Final = tuple(each.name for each in fields(Summary))
_FIELDS: Final = ("title", "folded_title", "created", "updated", "phase", "listed")
_SUMMED: Final = (
    *("first", "last", "took", "sign", "turns", "events", "tokens", "errors", "error", "error_seq", "failed", "edited"),
)
_NAMES: Final = (
    "source_id",
    "digest",
    "names",
    "app_name",
    "folded_id",
    "folded_user",
    "user_owner_id",
    "app_owner_id",
)
_CHANGING: Final = (*_FIELDS, *_SUMMED, "summary")
_UPSERT: Final = f"""INSERT INTO sessions_app_searchsession ({", ".join([*_NAMES, *_CHANGING])})
    VALUES ({", ".join(["%s"] * (len(_NAMES) + len(_CHANGING)))}) ON CONFLICT (source_id, digest)
    DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _CHANGING)}"""
_UPSERT_SPAN: Final = """INSERT INTO sessions_app_searchspan
    (session_id, app_owner_id, name_id, kind, number, at, took, failed, tokens, seq, prompt, output, first_event, sign)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (session_id, kind, number)
    DO UPDATE SET name_id = excluded.name_id, took = excluded.took, failed = excluded.failed, tokens = excluded.tokens,
        prompt = excluded.prompt, output = excluded.output, sign = excluded.sign"""
_WRITES: Final = "INSERT INTO sessions_app_searchwrite (session_id, name_id, seq, writer_id, changed, kind, text)"
_INSERT_WRITES: Final = Either(
    sqlite=f"{_WRITES} VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
    postgresql=f"""{_WRITES} SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[],
        %s::boolean[], %s::text[], %s::text[]) ON CONFLICT DO NOTHING""",
)
# By kind of span, the kind of its name.
_NAMED: Final = {"c": "tool", "f": "failure", "t": "model", "m": "model", "a": "artifact"}


def _owners_of(ref: SessionRef) -> tuple[Owner, Owner]:
    return (ref.app_name, ref.user_id), (ref.app_name, "")


def _owner_row(app: str, user: str) -> tuple[Any, ...]:
    name, seen = clean(user, NAME_LENGTH), clean(masked.user(app, user), NAME_LENGTH)
    hidden = marked(name) if seen != name else ""
    return clean(app, NAME_LENGTH), name, seen[:_SHOWN_LENGTH], marked(seen), hidden, 0


def names_of(ref: SessionRef) -> str:
    """Returns the names of a session as JSON, which any database can hold."""
    return json.dumps(ref[1:])


def ref_of(source: str, names: str) -> SessionRef:
    """Returns the session with these names."""
    return SessionRef(source, *json.loads(names))


class Keeper:
    """Stores readings of one source. It remembers names and words that are stored, so that it need not ask for them."""

    def __init__(self, source: SearchSource) -> None:
        self.source = source
        self._names: dict[tuple[str, str, str], int] = {}
        self._words: set[str] = set()
        self._owners: dict[Owner, int] = {}
        self._shared: dict[int, int] = {}  # by owner, a hash of the state that is stored

    def keep(self, readings: Sequence[Reading], shared: dict[Owner, dict[str, Value]]) -> None:
        """Stores what was read of sessions, and the state of their users and apps."""
        if len(self._owners) > REMEMBERED:  # never in between: each step relies on what those before it remembered
            self._owners.clear()
            self._shared.clear()
        with transaction.atomic():
            numbers = self._keep_rows(readings)
            self._keep_given_titles(readings, numbers)
            self._keep_words(readings, numbers)
            self._keep_facts(readings, numbers)
            self._keep_spans(readings, numbers)
            self._keep_pending(readings, numbers)
            self._keep_states(readings, numbers, shared)
            self._keep_writes(readings, numbers)
            learning.keep([(*self._numbers_of(reading.ref), reading.learnt) for reading in readings])

    # --- Rows ---

    def _keep_rows(self, readings: Sequence[Reading]) -> list[int]:
        owners = self._owned({owner for reading in readings for owner in _owners_of(reading.ref)})
        rows = [self._row(reading, *(owners[owner] for owner in _owners_of(reading.ref))) for reading in readings]
        with connection.cursor() as cursor:
            cursor.executemany(_UPSERT, rows)
        listed = Counter[int]()
        for reading in readings:
            before = reading.stored is not None and reading.stored.listed
            listed[owners[reading.ref.app_name, ""]] += reading.fields["listed"] - before
        add_listed(listed)
        digests = [row[1] for row in rows]
        numbers = SearchSession.objects.filter(source=self.source, digest__in=digests).values_list("digest", "pk")
        return [dict(numbers)[digest] for digest in digests]

    def _row(self, reading: Reading, user_owner: int, app_owner: int) -> list[Any]:
        ref, summary, seen = reading.ref, reading.summary, masked.user(*reading.ref[1:3])
        known = [clean(name, NAME_LENGTH) for name in (ref.app_name, folded(ref.session_id), folded(seen))]
        also = [reading.fields[name] for name in _FIELDS]
        told = {name: getattr(summary, name) for name in SUMMARY}
        summed = [getattr(summary, name) for name in _SUMMED]
        names = [self.source.pk, digest_of(*ref[1:]), names_of(ref), *known, user_owner, app_owner]
        return [*names, *also, *summed, json.dumps({name: value for name, value in told.items() if value})]

    def _owned(self, owners: set[Owner]) -> dict[Owner, int]:
        """Returns the number of each owner."""
        new = {digest_of(*owner): owner for owner in owners if owner not in self._owners}
        rows = [(self.source.pk, digest, *_owner_row(*owner)) for digest, owner in new.items()]
        columns = (*("source_id", "digest", "app_name", "user_id", "shown", "folded", "folded_id", "sessions"),)
        _insert("owner", columns, rows, "ON CONFLICT DO NOTHING")
        stored = SearchOwner.objects.filter(source=self.source, digest__in=new).values_list("digest", "pk")
        self._owners.update((new[digest], number) for digest, number in stored)
        return {owner: self._owners[owner] for owner in owners}

    def _numbers_of(self, ref: SessionRef) -> tuple[int, int]:
        """Returns the numbers of the app and the user, which are known since the session's row was stored."""
        user, app = (self._owners[owner] for owner in _owners_of(ref))
        return app, user

    def _keep_given_titles(self, readings: Sequence[Reading], numbers: Sequence[int]) -> None:
        """Puts the titles that people gave in place of those that were read.

        They are asked for once the rows are written: who gives one now waits for this, and writes it afterwards."""
        titles = given(self.source.where, [digest_of(*reading.ref[1:]) for reading in readings])
        for reading, number in zip(readings, numbers, strict=True):
            if title := masked.words(titles.get(digest_of(*reading.ref[1:]), ""), reading.ref.app_name):
                reading.fields |= titled(title)
                SearchSession.objects.filter(pk=number).update(**titled(title))

    # --- Words ---

    def _keep_words(self, readings: Sequence[Reading], numbers: Sequence[int]) -> None:
        """The words of a title that an event says are there already."""
        docs, texts, titles, words = [], [], [], set()
        for reading, number in zip(readings, numbers, strict=True):
            first = (number << PIECES) + reading.summary.segments - len(reading.pieces)
            for doc, piece in enumerate(reading.pieces, first):
                docs.append((doc, piece.first, piece.last))
                texts.append((doc, piece.words))
                words.update(piece.words)
            title, before = reading.fields["title"], reading.stored.title if reading.stored else reading.summary.opening
            if title != before:
                titles.append((number, "" if title == reading.summary.opening else title))
        _insert("doc", ("id", "first_seq", "last_seq"), docs)
        insert_words("text", texts)
        self._keep_vocabulary(words | insert(titles))

    def _keep_vocabulary(self, words: set[str]) -> None:
        new = words - self._words
        if len(self._words) > REMEMBERED:
            self._words.clear()
        self._words |= new
        vocabulary.add(new)

    def _keep_pending(self, readings: Sequence[Reading], numbers: Sequence[int]) -> None:
        changed = [
            (number, reading, reading.pending)
            for number, reading in zip(numbers, readings, strict=True)
            if reading.pending is not None
        ]
        SearchPending.objects.filter(session_id__in=[number for number, *_rest in changed]).delete()
        waits = [(number, reading.ref.app_name, *each) for number, reading, some in changed for each in enumerate(some)]
        named = self._named({("tool", clean(each.tool), app) for _number, app, _count, each in waits})
        rows = [
            (
                *(session, number, each.kind, named["tool", clean(each.tool), app], each.since, each.passed_over),
                *(each.seq, clean(each.event_id, NAME_LENGTH), clean(each.call_id, NAME_LENGTH)),
                digest_of(each.event_id, each.call_id),
            )
            for session, app, number, each in waits
        ]
        columns = ("session_id", "number", "kind", "name_id", "at", "passed_over", "seq", "event", "call", "asked")
        _insert("pending", columns, rows)

    # --- Facts and state ---

    def _keep_facts(self, readings: Sequence[Reading], numbers: Sequence[int]) -> None:
        of_app = [{(fact.kind, fact.value, reading.ref.app_name) for fact in reading.facts} for reading in readings]
        named = self._named({name for names in of_app for name in names})
        facts = {(named[name], number) for names, number in zip(of_app, numbers, strict=True) for name in names}
        _insert("fact", ("name_id", "session_id"), sorted(facts), "ON CONFLICT DO NOTHING")

    def _keep_spans(self, readings: Sequence[Reading], numbers: Sequence[int]) -> None:
        wanted = {
            (_NAMED[span.kind], span.name, reading.ref.app_name)
            for reading in readings
            for span in reading.spans.values()
            if span.name or span.kind in "cfa"
        }
        named = self._named(wanted)
        rows = []
        for number, reading in zip(numbers, readings, strict=True):
            app = self._owners[reading.ref.app_name, ""]
            for span in reading.spans.values():
                name = named.get((_NAMED[span.kind], span.name, reading.ref.app_name), 0)
                rows.append([number, app, name, span.kind, *span[1:2], *span[3:]])
        with connection.cursor() as cursor:
            cursor.executemany(_UPSERT_SPAN, rows)

    def _named(self, names: set[tuple[str, str, str]]) -> dict[tuple[str, str, str], int]:
        """Returns the number of each name: kind, value, app."""
        new = sorted(names - self._names.keys())
        if len(self._names) > REMEMBERED:
            self._names = {name: self._names[name] for name in names - set(new)}
        for start in range(0, len(new), _SOME):
            some = new[start : start + _SOME]
            rows = SearchName.objects.bulk_create(
                [
                    SearchName(kind=kind, value=value, app_name=clean(app, NAME_LENGTH), folded=marked(clean(value)))
                    for kind, value, app in some
                ],
                update_conflicts=True,
                unique_fields=["kind", "value", "app_name"],
                update_fields=["kind"],
            )
            self._names.update(zip(some, (row.pk for row in rows), strict=True))
        return {name: self._names[name] for name in names}

    def _keep_states(
        self, readings: Sequence[Reading], numbers: Sequence[int], shared: dict[Owner, dict[str, Value]]
    ) -> None:
        states = [
            (number, reading.ref.app_name, "", reading.state) for number, reading in zip(numbers, readings, strict=True)
        ]
        owners = self._owned(set(shared))
        for owner, values in shared.items():
            number, now = owners[owner], hash(tuple(sorted(values)) + tuple(map(repr, values.values())))
            if self._shared.get(number) != now:
                self._shared[number] = now
                states.append((-number, owner[0], "user:" if owner[1] else "app:", values))
        before: dict[int, dict[int, Value]] = {number: {} for number, *_ in states}
        stored = {number for number, reading in zip(numbers, readings, strict=True) if reading.stored is None}
        for row in SearchValue.objects.filter(owner_id__in=[number for number in before if number not in stored]):
            before[row.owner_id][row.name_id] = Value(row.kind, row.text)
        named = self._named({("key", prefix + path, app) for _n, app, prefix, values in states for path in values})
        gone, new = [], []
        for number, app, prefix, values in states:
            after = {named["key", prefix + path, app]: value for path, value in values.items()}
            gone += [(name, number) for name, value in before[number].items() if after.get(name) != value]
            new += [(name, number, value) for name, value in after.items() if before[number].get(name) != value]
        with connection.cursor() as cursor:
            cursor.executemany("DELETE FROM sessions_app_searchvalue WHERE name_id = %s AND owner_id = %s", gone)
        inserted = [
            (name, number, value.kind, value.text) for name, number, value in sorted(new, key=lambda each: each[:2])
        ]
        _insert("value", ("name_id", "owner_id", "kind", "text"), inserted)

    def _keep_writes(self, readings: Sequence[Reading], numbers: Sequence[int]) -> None:
        """Adds what events wrote after what is stored of it."""
        wanted: set[tuple[str, str, str]] = set()
        for reading in readings:
            app = reading.ref.app_name
            wanted |= {("key", path, app) for path in reading.writes}
            wanted |= {(*each.by, app) for writes in reading.writes.values() for each in writes if each.by}
        named = self._named(wanted)
        of_path = [
            (number, named["key", path, reading.ref.app_name], reading, path, writes)
            for number, reading in zip(numbers, readings, strict=True)
            for path, writes in reading.writes.items()
        ]
        last = _last_writes([(number, name) for number, name, reading, *_rest in of_path if reading.stored])
        kept: list[tuple[Any, ...]] = []
        for number, name, reading, path, writes in of_path:
            before, writer = last.get((number, name), (None, 0))
            if before is None and (before := reading.began.get(path)):
                kept.append((number, name, 0, 0, False, before.kind, before.text))
            for seq, value, by in writes:
                now = named[(*by, reading.ref.app_name)] if by else 0
                if (value, now) != (before, writer):
                    kept.append((number, name, seq, now, value != before, value.kind, value.text))
                before, writer = value, now
        if kept:
            with connection.cursor() as cursor:
                dialect.of(connection).insert(cursor, _INSERT_WRITES.on(connection), sorted(kept))


def _last_writes(wanted: Sequence[tuple[int, int]]) -> dict[tuple[int, int], tuple[Value, int]]:
    """Returns the last value that was written of keys, and the writer, by the numbers of the session and the key."""
    last: dict[tuple[int, int], tuple[Value, int]] = {}
    for start in range(0, len(wanted), _SOME):
        some = wanted[start : start + _SOME]
        stored = rows(
            f"""WITH wanted (session, name) AS (VALUES {", ".join(["(%s, %s)"] * len(some))})
            SELECT w.session_id, w.name_id, w.kind, w.text, w.writer_id
            FROM wanted CROSS JOIN sessions_app_searchwrite AS w
            WHERE w.session_id = session AND w.name_id = name AND w.seq = (SELECT max(m.seq)
                FROM sessions_app_searchwrite AS m WHERE m.session_id = session AND m.name_id = name)""",
            [number for each in some for number in each],
        )
        last |= {(session, name): (Value(kind, text), writer) for session, name, kind, text, writer in stored}
    return last


def _insert(table: str, columns: Sequence[str], values: Sequence[Sequence[Any]], on_conflict: str = "") -> None:
    """Inserts rows. Objects of Django's would take ten times as long."""
    row = f"({', '.join(['%s'] * len(columns))})"
    insert = f"INSERT INTO sessions_app_search{table} ({', '.join(columns)}) VALUES"
    with connection.cursor() as cursor:
        for start in range(0, len(values), _SOME):
            some = values[start : start + _SOME]
            rows = ", ".join([row] * len(some))
            cursor.execute(f"{insert} {rows} {on_conflict}", [each for one in some for each in one])


# --- Forgetting sessions ----------------------------------------------------------------------------------------------


def forget(numbers: Sequence[int]) -> None:
    """Forgets sessions, by the numbers of their rows. Their words stay on SQLite, where nothing leads to them any more."""
    if not numbers:
        return
    with transaction.atomic():
        sessions = SearchSession.objects.filter(pk__in=numbers)
        owners = {*sessions.values_list("app_owner", "user_owner")}
        gone = Counter(sessions.filter(listed=True).values_list("app_owner", flat=True))
        sessions.delete()  # first, as whoever stores or forgets others begins with them: nobody waits in a circle
        add_listed({app: -count for app, count in gone.items()})
        SearchFact.objects.filter(session_id__in=numbers).delete()
        SearchValue.objects.filter(owner_id__in=numbers).delete()
        for first, last in _runs(numbers):
            SearchDoc.objects.filter(id__gte=first << PIECES, id__lt=(last + 1) << PIECES).delete()
        delete_rows("title", numbers)
        SearchSpan.objects.filter(session_id__in=numbers).delete()
        SearchPending.objects.filter(session_id__in=numbers).delete()
        SearchWrite.objects.filter(session_id__in=numbers).delete()
        DriftedSession.objects.filter(session_id__in=numbers).delete()
        delete_pieces(numbers)
        _forget_learnt(owners)


def forget_all() -> None:
    """Forgets every source by one statement for each table, which takes a small part of the time that `forget` does."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_NO_MORE.on(connection))
        for table in _ALL:
            cursor.execute(f"DELETE FROM sessions_app_{table}")
        empty()


def _runs(numbers: Sequence[int]) -> list[list[int]]:
    """Returns the first and the last of the numbers that follow each other: a statement for each session would take long."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs


def _forget_learnt(owners: Collection[tuple[int, int]]) -> None:
    """Forgets the schemas of apps that have no session left; and of others the strings that only users wrote who have none.

    `owners` are the numbers of apps and their users."""
    there = SearchSession.objects.filter(user_owner__in={user for _app, user in owners})
    users = {user for _app, user in owners} - {*there.values_list("user_owner", flat=True).distinct()}
    for number in {app for app, user in owners if user in users}:
        if SearchSession.objects.filter(app_owner=number).exists():
            forget_users(number, users)
        else:
            SearchKey.objects.filter(app_owner_id=number).delete()


def forget_keys(source: SearchSource) -> None:
    """Forgets what was learnt of the keys of a source."""
    apps = SearchOwner.objects.filter(source=source, user_id="").values("pk")
    SearchKey.objects.filter(app_owner_id__in=apps).delete()


def forget_writes(source: SearchSource) -> None:
    """Forgets what events of a source wrote."""
    sessions, last = SearchSession.objects.filter(source=source).order_by("pk"), 0
    while numbers := list(sessions.filter(pk__gt=last).values_list("pk", flat=True)[:_SOME]):
        SearchWrite.objects.filter(session_id__in=numbers).delete()
        last = numbers[-1]


def forget_owners(source: SearchSource) -> None:
    """Forgets the apps and users of a source that has no session left, with their state."""
    owners = SearchOwner.objects.filter(source=source)
    SearchValue.objects.filter(owner_id__in=owners.values(number=-F("pk"))).delete()
    apps = set(owners.values_list("app_name", flat=True))
    owners.delete()
    forget_names(apps)


def forget_names(apps: Collection[str]) -> None:
    """Forgets the names that were seen in apps that no source has any more. Those of other apps, a process may remember."""
    gone = set(apps) - set(SearchOwner.objects.filter(app_name__in=apps).values_list("app_name", flat=True))
    SearchName.objects.filter(app_name__in=gone).delete()


def add_listed(more: Mapping[int, int]) -> None:
    """Counts more sessions of apps, or fewer of them, by the apps' numbers. A page cannot count them all."""
    for app, count in more.items():
        if count:
            SearchOwner.objects.filter(pk=app).update(sessions=F("sessions") + count)
