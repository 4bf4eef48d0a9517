"""Reads the sources on which a model based an answer, as links (pure)."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from .json_values import as_object
from .shorten import words

MOST: Final = 20  # of an event
_TITLE: Final = 120
_LONGEST: Final = 2_000  # characters of an address


class Source(NamedTuple):
    """A page on the web: its title, or its host if it has none, and its address."""

    title: str
    address: str


def sources(event: Mapping[str, Any]) -> list[Source]:
    """Returns the sources that an event names, each once, at most MOST.

    Only addresses that a browser can open safely, whatever is in the event: http or https, with a host.
    """
    named = {each.address: each for each in _sources(event)}
    return list(islice(named.values(), MOST))


def _sources(event: Mapping[str, Any]) -> Iterator[Source]:
    for chunk in _listed(event, "grounding_metadata", "grounding_chunks"):
        for kind in ("web", "retrieved_context", "maps"):
            yield from _source(as_object(chunk.get(kind)))
    for citation in _listed(event, "citation_metadata", "citations"):
        yield from _source(citation)


def _listed(event: Mapping[str, Any], field: str, name: str) -> list[dict[str, Any]]:
    given = as_object(event.get(field)).get(name)
    return [as_object(each) for each in given] if isinstance(given, list) else []


def _source(said: Mapping[str, Any]) -> Iterator[Source]:
    address = said.get("uri")
    if not isinstance(address, str) or len(address) > _LONGEST or not address.isprintable() or " " in address:
        return
    try:
        parts = urlsplit(address)
        host = parts.hostname
    except ValueError:  # such as an IPv6 address without its end
        return
    if parts.scheme in ("http", "https") and host:
        title = said.get("title")
        yield Source(words(title, _TITLE) if isinstance(title, str) and title.strip() else host, address)
