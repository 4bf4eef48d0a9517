"""Turns what is in a file, and what its import did, into the JSON that a job keeps, and back."""

import json
from dataclasses import asdict
from typing import Any, Final

from ..access.actor import Actor
from ..access.shown import shown_change
from ..domain.json_values import dumps
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, Change
from .importing import Counts, Differing, Report, Skipped
from .uploads import Preview

_SHOWN: Final = 100  # of anything that is listed one by one
_VALUE_LENGTH: Final = 10_000  # characters of a value


def text_of(preview: Preview) -> str:
    """Returns a preview as JSON. Absent values are left out, and very long ones are cut."""
    report = preview.report
    differing = [
        {"app": each.app, "user": each.user, "changes": [_stored_change(c) for c in each.changes[:_SHOWN]]}
        for each in report.differing[:_SHOWN]
    ]
    return json.dumps(
        {
            "format": preview.format,
            "counts": asdict(preview.counts),
            "report": {name: value for name, value in asdict(report).items() if isinstance(value, int)},
            "skipped": [[*each.ref[1:], each.why] for each in report.skipped[:_SHOWN]],
            "differing": differing,
            "sessions": [ref[1:] for ref in preview.sessions],
        }
    )


def preview_of(text: str, source: str, actor: Actor) -> Preview:
    """Returns a preview for an actor from the JSON that `text_of` made. `source` is the alias that the source has
    now."""
    told = json.loads(text)
    report = Report(**told["report"])
    report.skipped = [Skipped(SessionRef(source, *names), why) for *names, why in told["skipped"]]
    report.differing = [
        Differing(each["app"], each["user"], [_change(stored, actor, each["app"]) for stored in each["changes"]])
        for each in told["differing"]
    ]
    sessions = [SessionRef(source, *names) for names in told["sessions"]]
    return Preview(told["format"], Counts(**told["counts"]), report, sessions)


def _stored_change(change: Change) -> dict[str, Any]:
    values = {"old": change.old, "new": change.new}
    texts = {name: dumps(value) for name, value in values.items() if value is not ABSENT}
    cut = {name: text if len(text) <= _VALUE_LENGTH else dumps(text[:_VALUE_LENGTH]) for name, text in texts.items()}
    return {"key": change.key, **cut}


def _change(stored: dict[str, Any], actor: Actor, app_name: str) -> Change:
    old, new = (json.loads(stored[name]) if name in stored else ABSENT for name in ("old", "new"))
    return shown_change(Change(stored["key"], old, new), actor, app_name)
