"""Acts on the sessions that are chosen on the page “Sessions”, or on all that its query selects."""

import time
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import content_disposition_header, url_has_allowed_host_and_scheme, urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from ...access.actor import Actor
from ...batches import batch
from ...batches.reading import ActName
from ...batches.working import asked_for
from ...domain.errors import AgentError, Invalid
from ...domain.session_ref import SessionRef
from ...domain.shorten import words
from ...http.reader import zone_of
from ...http.streaming import streamed
from ...search import labels
from ...transfer import FORMATS, export_sessions
from ...transfer.exporting import damaged_of, left_out_header
from ...trying import replays, whatifs
from ..forms import Check, Form, Text
from ..html.render import offer_undo
from ..links import session_of
from ..request import actor

_MOST: Final = 5_000  # sessions that a form names one by one
_MOST_TAGGED: Final = 10_000
_MOST_UNDONE: Final = 500  # sessions that a message names, so that its button can take the tag away again
_FORMAT: Final = "jsonl"
_BATCHES: Final[dict[str, ActName]] = {"edit": "edit", "delete": "delete"}
_DRAFTS: Final = {"replay": ("replay", replays.draft), "whatif": ("what-ifs", whatifs.draft)}


class ChosenForm(Form):
    """Says what to do (`act`) with the sessions `ref`, each the path of its page, or with `all` that `q` selects.

    `tag` and `undo` are of the acts “tag” and “untag”, after which `back` is shown; `skip_damaged` is of “export”."""

    act = Text()
    all = Check()
    q = Text()
    ref = forms.Field(required=False, widget=forms.MultipleHiddenInput)
    tag = Text()
    undo = Check()
    back = Text()
    skip_damaged = Check()


@require_POST
def chosen(request: HttpRequest) -> HttpResponseBase:
    """Does what a button below the table asks for: compares, exports, or begins a batch, a replay or a what-if."""
    who, given, zone = actor(request), ChosenForm.of(request).read(), str(zone_of(request))
    act, query = given["act"], given["q"] if given["all"] else ""
    refs = [] if given["all"] else _refs(given["ref"], who)
    if not (refs or given["all"]):
        messages.info(request, _("Select sessions first."))
        return redirect("search")
    if act == "compare":
        return _compare(refs)
    if act == "export":
        now = time.time()
        return _export(lambda: refs or asked_for(query, zone, now, who), who, given["skip_damaged"])
    if act in ("tag", "untag"):
        return _tag(request, refs or list(islice(asked_for(query, zone, time.time(), who), _MOST_TAGGED + 1)), given)
    if act in _DRAFTS:
        now = time.time()
        name, draft = _DRAFTS[act]
        try:
            made = draft(refs or asked_for(query, zone, now, who), query=query, actor=who)
        except AgentError as error:
            messages.error(request, error.message)
            return _back(given)
        return redirect(name, made)
    if act not in _BATCHES:
        raise Invalid(_("This action doesn't exist."))
    begun = batch.begin(_BATCHES[act], actor=who, refs=refs, query=query, zone=zone)
    if act == "delete":
        batch.try_(begun, {}, actor=who)
    return redirect("batch", begun)


def _refs(paths: list[str], who: Actor) -> list[SessionRef]:
    """Returns the sessions whose pages have these paths. Raises Invalid, NotFound."""
    if len(paths) > _MOST:
        raise Invalid(_("You can select up to %(n)s sessions one by one.") % {"n": _MOST})
    return [session_of(path, who) for path in paths]


def _tag(request: HttpRequest, refs: list[SessionRef], given: dict[str, Any]) -> HttpResponse:
    """Gives sessions a tag, or takes it away, and leads back to the table."""
    if len(refs) > _MOST_TAGGED:
        raise Invalid(_("You can tag up to %(n)s sessions at once. Narrow the query.") % {"n": _MOST_TAGGED})
    who, tag, act, back = actor(request), given["tag"], given["act"], given["back"]
    try:
        if act == "tag":
            changed = labels.tag(refs, tag, actor=who)
            said = ngettext(
                "%(n)s session was tagged “%(tag)s”.", "%(n)s sessions were tagged “%(tag)s”.", len(changed)
            )
        else:
            changed = labels.untag(refs, tag, actor=who)
            said = ngettext(
                "Removed the tag “%(tag)s” from %(n)s session.",
                "Removed the tag “%(tag)s” from %(n)s sessions.",
                len(changed),
            )
        said %= {"n": len(changed), "tag": words(tag, 60)}
        if given["undo"] or not 0 < len(changed) <= _MOST_UNDONE:
            messages.success(request, said)
        else:
            back_again = [("act", "untag" if act == "tag" else "tag"), ("tag", tag), ("back", back)]
            paths = [("ref", reverse("session", kwargs=ref._asdict())) for ref in changed]
            offer_undo(request, said, reverse("chosen"), back_again + paths)
    except Invalid as error:
        messages.error(request, error.message)
    return _back(given)


def _back(given: dict[str, Any]) -> HttpResponse:
    """Leads back to the table."""
    back = given["back"]
    return redirect(back if back.startswith("/") and url_has_allowed_host_and_scheme(back, None) else "search")


def _compare(refs: list[SessionRef]) -> HttpResponse:
    if len(refs) != 2:
        raise Invalid(_("Select two sessions to compare them."))
    first, second = refs
    asked = urlencode({"with": reverse("session", kwargs=second._asdict())})
    return redirect(f"{reverse('compare', kwargs=first._asdict())}?{asked}#first-divergence")


def _export(refs: Callable[[], Iterable[SessionRef]], who: Actor, skip_damaged: bool) -> StreamingHttpResponse:
    """Downloads sessions with their events, and the states that they share."""
    form = FORMATS[_FORMAT]
    disposition = content_disposition_header(as_attachment=True, filename=f"sessions{form.suffix}")
    left_out = damaged_of(refs(), actor=who) if skip_damaged else None
    return streamed(
        export_sessions(_FORMAT, refs(), actor=who, left_out=left_out),
        form.mime_type,
        {"Content-Disposition": str(disposition), **left_out_header(left_out)},
    )
