"""Opens the contents of artifacts, where adkweb can read them, and describes them. Nothing is read whole."""

import codecs
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from django.conf import settings
from django.db import connections
from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..access.shown import shown, shown_words
from ..domain.errors import NotFound, SourceError
from ..domain.json_values import as_object
from ..domain.session_ref import SessionRef
from ..sources import database, demo, registry
from . import saved
from .buckets import SCHEME, Bucket
from .folders import Folder
from .storages import Fault, File, Storage, Unreadable

State = Fault | Literal["here", "taken_back", "nowhere", "reference", "unasked"]
EXCERPT: Final = 100_000  # bytes of a text that are shown
LARGEST_IMAGE: Final = 20_000_000  # bytes of an image that is shown
_FIRST: Final = 4_096  # bytes by which a content is recognised
_IMAGES: Final = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
_TYPE_LENGTH: Final = 100
_NAME_LENGTH: Final = 200
_REFERENCE_LENGTH: Final = 500


@dataclass(frozen=True, slots=True)
class Content:
    """Facts about an artifact's version.

    It is `here`, or why it is not: a rewind has `taken_back` the artifact with this version; adkweb knows `nowhere` to
    look; the storage was not asked (`unasked`); the agent saved a `reference` instead; or there is a Fault. `storage`
    is where adkweb looked. `mime_type` is from the agent. `image` is the type of an image that browsers show without
    running anything, by its bytes, and empty for any other content. `checksum` is that of storages.File.
    """

    state: State
    size: int = 0
    mime_type: str = ""
    image: str = ""
    is_text: bool = False
    changed: float = 0.0  # when someone wrote to the file after it was saved
    file_name: str = ""
    storage: str = ""
    checksum: str | None = None
    reference: str = ""

    @property
    def in_bucket(self) -> bool:
        """Returns whether the storage is a bucket."""
        return self.storage.startswith(SCHEME)


def about(ref: SessionRef, name: str, version: int | None, *, actor: Actor) -> Content:
    """Returns the facts about a version of an artifact."""
    try:
        with opened(ref, name, version, actor=actor) as (content, _file):
            return content
    except Unavailable as error:
        return error.content


def glance(ref: SessionRef, name: str, version: int | None, *, actor: Actor) -> Content:
    """Returns the facts about a version of an artifact, for a list. A bucket isn't asked: each row would cost a
    request."""
    actor.check_sees(ref)
    if any(storage.far for storage in storages_of(ref.source)):
        return Content("unasked")
    return about(ref, name, version, actor=actor)


class Unavailable(NotFound):
    """This content cannot be read here."""

    def __init__(self, content: Content) -> None:
        away = content.state == "away"
        super().__init__(_("The bucket isn't answering") if away else _("This artifact's content can't be read here."))
        self.content = content


class Silent(SourceError, Unavailable):
    """A bucket does not answer: this content may be read later."""


@contextmanager
def opened(ref: SessionRef, name: str, version: int | None, *, actor: Actor) -> Iterator[tuple[Content, File]]:
    """Opens a version of an artifact. Raises Unavailable, with the known facts."""
    actor.check_sees(ref)
    fault: Fault = "missing"
    searched = storages_of(ref.source)
    if not _may_see(ref, name, version, actor):
        searched = []
    for storage in searched:
        if version is None:
            break
        try:
            _check_own(storage, ref, name, actor)
            with storage.opened(ref, name, version) as file:
                content = _content(file, name, storage.address)
                if content.state != "here":  # an address that an agent keeps instead of a file may name the user
                    words = shown_words(content.reference, actor, ref.app_name)
                    raise Unavailable(replace(content, reference=words))
                yield content, file
                return
        except Unreadable as error:
            fault = error.fault if fault == "missing" else fault
    content = Content(fault, storage=searched[0].address) if searched else Content("nowhere")
    raise Silent(content) if fault == "away" else Unavailable(content)


def excerpt(ref: SessionRef, name: str, version: int, *, actor: Actor) -> tuple[Content, str, bool]:
    """Returns the facts about a version. For a text, also returns its start, EXCERPT bytes at most, and whether it
    continues."""
    try:
        with opened(ref, name, version, actor=actor) as (content, file):
            if not content.is_text:
                return content, "", False
            cut = content.size > EXCERPT
            decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")  # it leaves out the half of a last character
            return content, decoder.decode(file.read(0, EXCERPT), final=not cut), cut
    except Unavailable as error:
        return error.content, "", False


def pieces(ref: SessionRef, name: str, version: int, first: int, end: int, *, actor: Actor) -> Iterator[bytes]:
    """Yields the bytes of a version from `first` to before `end`, piece by piece. Raises Unavailable."""
    with opened(ref, name, version, actor=actor) as (_content, file):
        while first < end and (piece := file.read(first, min(file.piece, end - first))):
            first += len(piece)
            yield piece


def stored_versions(ref: SessionRef, name: str, *, actor: Actor) -> list[int]:
    """Returns the versions that are kept, the newest first, no matter which session saved them."""
    actor.check_sees(ref)
    for storage in storages_of(ref.source) if _may_see(ref, name, 0, actor) else ():
        try:
            _check_own(storage, ref, name, actor)
            return storage.versions(ref, name)
        except Unreadable:
            continue
    return []


def storages_of(source: str) -> list[Storage]:
    """Returns where the artifacts of a source are: what ADKWEB_ARTIFACTS names; otherwise, beside the database that
    `adk web` writes, and beside the demo."""
    database.get(source)
    named = settings.ARTIFACTS.get(source) or settings.ARTIFACTS.get("*")
    if named:
        return [Bucket(named.removeprefix(SCHEME)) if named.startswith(SCHEME) else Folder(Path(named))]
    if demo.is_demo(source):
        return [Folder(demo.artifacts())]
    file = connections.databases[source].get("ADKWEB", {}).get("path")
    if not file or Path(file).parent.name != ".adk":
        return []
    beside, agents = Path(file).parent, Path(file).parent.parent.parent
    # Where `adk web` kept artifacts of all agents before each had its own folder, if a person named all of it.
    shared = any(agents.is_relative_to(folder.resolve()) for folder in registry.searched_folders)
    return [Folder(beside, ("artifacts",), own=True), *([Folder(agents, (".adk", "artifacts"))] if shared else [])]


def _may_see(ref: SessionRef, name: str, version: int | None, actor: Actor) -> bool:
    """Returns whether an actor may see that an event saved this artifact."""
    seen = shown({"actions": {"artifact_delta": {name: version}}}, actor, ref.app_name, "event")
    return name in as_object(as_object(seen.get("actions")).get("artifact_delta"))


def _check_own(storage: Storage, ref: SessionRef, name: str, actor: Actor) -> None:
    """Refuses a name with a slash unless an event of the session has it: in a bucket, it may be another session's
    file."""
    if storage.far and "/" in name and not saved.versions(ref, name, actor=actor):
        raise Unreadable("missing")


def _content(file: File, name: str, storage: str) -> Content:
    mime_type, display_name = (_text(file.metadata.get(key)) for key in ("mimeType", "displayName"))
    if file.reference:
        return Content("reference", storage=storage, reference=file.reference[:_REFERENCE_LENGTH])
    if file.size == 0 and mime_type == "application/octet-stream":
        return Content("taken_back", storage=storage)  # so google-adk's rewind marks it
    first = file.read(0, _FIRST)
    image = _image(first)
    return Content(
        "here",
        file.size,
        mime_type[:_TYPE_LENGTH] or "text/plain",
        image if file.size <= LARGEST_IMAGE else "",
        not image and _is_text(first),
        file.modified if file.changed else 0.0,
        _file_name(display_name) or _file_name(name) or "artifact",
        storage,
        file.checksum,
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _image(first: bytes) -> str:
    if first[:4] == b"RIFF" and first[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for begins, kind in _IMAGES if first.startswith(begins)), "")


def _is_text(first: bytes) -> bool:
    """Returns whether the first bytes of a content are text. The last character may be cut."""
    if b"\0" in first:
        return False
    try:
        first.decode()
    except UnicodeDecodeError as error:
        return error.start > len(first) - 4 and len(first) == _FIRST
    return True


def _file_name(name: str) -> str:
    """Returns a file name for a header, without folders and control characters. Empty for a name of only dots."""
    last = name.replace("\\", "/").rpartition("/")[2].removeprefix("user:")
    safe = "".join(character for character in last if character.isprintable())[:_NAME_LENGTH]
    return safe if safe.strip(". ") else ""
