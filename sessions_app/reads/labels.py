"""Reads the titles and tags that people gave to sessions, which are adkweb's own data."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..access.actor import Actor
from ..access.shown import shown_words
from ..domain.session_ref import SessionRef, digest_of
from ..models import SearchSession, SessionTag, SessionTitle
from ..sources import registry

SOME: Final = 500  # sessions that are asked for at once


@dataclass(frozen=True, slots=True)
class Labels:
    """The title and the tags that people gave to a session. Without a title, `title` is empty. Tags are sorted by
    name."""

    title: str = ""
    tags: tuple[str, ...] = ()


def labels_of(refs: Collection[SessionRef], *, actor: Actor) -> dict[SessionRef, Labels]:
    """Returns the labels of those of these sessions that have any, and whose apps the actor may see."""
    titles, tags = _given(refs, actor), defaultdict[SessionRef, list[str]](list)
    for where, digests in batches([ref for ref in refs if actor.may_see(ref.source, ref.app_name)]):
        rows = SessionTag.objects.filter(where=where, digest__in=digests).order_by("folded")
        for digest, tag in rows.values_list("digest", "tag"):
            seen = shown_words(tag, actor, digests[digest].app_name)
            if seen not in tags[digests[digest]]:  # two that are hidden look alike
                tags[digests[digest]].append(seen)
    return {ref: Labels(titles.get(ref, ""), tuple(tags.get(ref, ()))) for ref in {*titles, *tags}}


def called(frameworks: Mapping[SessionRef, str], actor: Actor) -> dict[SessionRef, str]:
    """Returns the titles of sessions, given those that their frameworks keep, which may be empty.

    A title that a person gave comes first, then the framework's, then what the index took from the first message. It is
    empty if there is none."""
    given = _given(frameworks, actor)
    names = {ref: given.get(ref) or title for ref, title in frameworks.items()}
    for where, digests in batches([ref for ref, title in names.items() if not title]):
        rows = SearchSession.objects.filter(source__where=where, digest__in=digests).values_list("digest", "title")
        names |= {digests[digest]: said(title, digests[digest], actor) for digest, title in rows}
    return names


def said(text: str, ref: SessionRef, actor: Actor) -> str:
    """Returns what an actor may see of words about a session, by an event or by a person."""
    return shown_words(text, actor, ref.app_name)


def batches(refs: Collection[SessionRef]) -> Iterator[tuple[str, dict[str, SessionRef]]]:
    """Yields sessions as adkweb's own tables name them: the source, and SOME sessions by the digest of their names."""
    of_source = defaultdict[str, list[SessionRef]](list)
    for ref in dict.fromkeys(refs):
        of_source[ref.source].append(ref)
    for source, some in of_source.items():
        for start in range(0, len(some), SOME):
            part: Sequence[SessionRef] = some[start : start + SOME]
            yield registry.identity(source), {digest_of(*ref[1:]): ref for ref in part}


def _given(refs: Collection[SessionRef], actor: Actor) -> dict[SessionRef, str]:
    titles: dict[SessionRef, str] = {}
    for where, digests in batches([ref for ref in refs if actor.may_see(ref.source, ref.app_name)]):
        rows = SessionTitle.objects.filter(where=where, digest__in=digests).values_list("digest", "title")
        titles |= {digests[digest]: said(title, digests[digest], actor) for digest, title in rows}
    return titles
