"""How tables of sessions show a session's status: its shape and its word."""

from typing import NamedTuple

from django.utils.translation import pgettext

from ...search.results import Row


class Shape(NamedTuple):
    """The classes of a .status, and the status in words."""

    name: str
    words: str


def shape_of(row: Row) -> Shape:
    """Returns how a status is shown. A session that is done may have had errors, and one without turns isn't done."""
    names = {
        "failed": pgettext("status", "failed"),
        "waiting": pgettext("status", "waiting for an answer"),
        "running": pgettext("status", "running"),
        "stuck": pgettext("status", "stuck"),
    }
    if row.status in names:
        return Shape(row.status, names[row.status])
    if not row.turns:
        return Shape("none", pgettext("status", "no turns yet"))
    if row.error:
        return Shape("idle erred", pgettext("status", "done, with errors"))
    return Shape("idle", pgettext("status", "done"))
