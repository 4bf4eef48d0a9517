"""The files that go to an agent with a message, inside it: google-adk's inline data."""

import base64
import re
from collections.abc import Sequence
from typing import Any, Final

from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _

from ..domain.errors import Invalid
from ..domain.event import ID_LENGTH
from ..domain.json_values import as_object

MOST: Final = 5  # of a message
BYTES: Final = 5 * 1024 * 1024  # of all files of a message; each call of a model sends them again
_TYPE: Final = re.compile(r"[\w.+-]{1,100}/[\w.+-]{1,100}", re.ASCII)


def part(name: str, data: bytes, mime_type: str = "") -> dict[str, Any]:
    """Returns a file as a part of a message."""
    known = mime_type if _TYPE.fullmatch(mime_type or "") else "application/octet-stream"
    name = name.replace("\0", "")[:ID_LENGTH]
    return {"inlineData": {"displayName": name, "mimeType": known, "data": base64.b64encode(data).decode()}}


def check(sizes: Sequence[int]) -> None:
    """Raises Invalid for more files than a message may have, or larger ones, by their bytes."""
    if len(sizes) > MOST:
        raise Invalid(_("A message can have up to %(n)s files.") % {"n": MOST}, field="files")
    if sum(sizes) > BYTES:
        raise Invalid(
            _("The files of a message can have up to %(size)s together.") % {"size": filesizeformat(BYTES)},
            field="files",
        )


def name_of(part: dict[str, Any]) -> str:
    """Returns the name of a file."""
    return str(as_object(part.get("inlineData")).get("displayName") or "")


def size_of(part: dict[str, Any]) -> int:
    """Returns the bytes of a file."""
    data = str(as_object(part.get("inlineData")).get("data") or "")
    return len(data) * 3 // 4 - data[-2:].count("=")
