"""Keeps webhooks of watched views and what they are told: queued with the news, sent by one process, tried again."""

import base64
import json
import secrets
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID, uuid4

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.urls import reverse
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _

from ...access.actor import PEOPLE
from ...access.audit.record import record
from ...access.handles import shown_user
from ...access.roles import actor_of
from ...access.shown import shown_words, shown_words_anywhere
from ...domain.errors import Invalid, NotFound
from ...domain.session_ref import SessionRef
from ...models import SavedView, SearchSession, ViewWatch, Webhook, WebhookDelivery
from ...reads.labels import called
from ...sources import registry
from ..index.tables import ref_of
from ..results import status_of
from . import sending
from .views import check_may_keep

RETRIES: Final = (10.0, 60.0, 300.0, 1_800.0, 7_200.0, 21_600.0)  # seconds before each new try: nine hours in all
SHOWN: Final = 20  # deliveries that a page lists
_KEPT: Final = 50  # deliveries that have ended, of each webhook
_WAITING: Final = 200  # deliveries that wait, of each webhook; what begins to match meanwhile is not sent
_CLAIM_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message to a webhook: when it was queued, what came of it, and when it is tried next."""

    id: UUID
    title: str
    state: str
    created: float
    tries: int
    status: int | None
    message: str
    due: float


@dataclass(frozen=True, slots=True)
class Hook:
    """A webhook as its person sees it."""

    url: str
    created: float
    deliveries: list[Delivery]


# --- What its person does ---------------------------------------------------------------------------------------------


def get(view_id: UUID, person: Any) -> Hook | None:
    """Returns the webhook of a view that a person watches, with its last deliveries; None if there is none."""
    hook = Webhook.objects.filter(watch__view_id=view_id, watch__person=person).first()
    if hook is None:
        return None
    rows = WebhookDelivery.objects.filter(hook=hook).order_by("-created", "-pk")[:SHOWN]
    return Hook(hook.url, hook.created, [_told(row) for row in rows])


def put(view_id: UUID, person: Any, url: str, link: str) -> str:
    """Gives a watched view a webhook in place of the one that it has. Returns its secret, which nobody can see again.

    `link` is the address of this adkweb. Raises Invalid, NotAllowed and NotFound."""
    check_may_keep(person)
    watch = _watch(view_id, person)
    addresses_checked(url.strip())
    with transaction.atomic():
        Webhook.objects.filter(watch=watch).delete()
        hook = Webhook.objects.create(
            watch=watch, url=url.strip(), salt=secrets.token_hex(32), link=link, created=time.time()
        )
        _record("webhook-set", hook, person)
    return secret_of(hook)


def addresses_checked(url: str) -> None:
    """Checks an address before it is kept. A name that does not exist yet is none. Raises Invalid."""
    try:
        sending.resolve(sending.read(url))
    except OSError as error:
        raise Invalid(
            _("There is no such host: %(error)s") % {"error": str(error)[: sending.WORDS]}, field="url"
        ) from error


def remove(view_id: UUID, person: Any) -> None:
    """Takes a webhook away, with what it waits to be told. Raises NotAllowed."""
    actor_of(person).check_may_write()
    hook = Webhook.objects.filter(watch__view_id=view_id, watch__person=person).select_related("watch__view").first()
    if hook is not None:
        with transaction.atomic():
            hook.delete()
            _record("webhook-removed", hook, person)


def _record(act: str, hook: Webhook, person: Any) -> None:
    # The rest of an address may be a secret.
    record(act, person.get_username(), view=hook.watch.view.name, host=sending.read(hook.url).host)


def test(view_id: UUID, person: Any) -> None:
    """Queues a delivery that tests the webhook. Raises NotAllowed and NotFound."""
    check_may_keep(person)
    hook = Webhook.objects.filter(watch=_watch(view_id, person)).select_related("watch__view").first()
    if hook is None:
        raise NotFound(_("This view has no webhook."))
    _queue([_delivery(hook, "test", "", None)])


def secret_of(hook: Webhook) -> str:
    """Returns the secret with which deliveries are signed."""
    code = salted_hmac("adkweb.webhook", hook.salt, algorithm="sha256").digest()
    return "whsec_" + base64.urlsafe_b64encode(code).decode().rstrip("=")


def _watch(view_id: UUID, person: Any) -> ViewWatch:
    watch = ViewWatch.objects.filter(view_id=view_id, person=person).first()
    if watch is None:
        raise NotFound(_("Watch this view first: its webhook is told of what begins to match."))
    return watch


def _told(row: WebhookDelivery) -> Delivery:
    session = json.loads(_body_now(row))["session"]
    return Delivery(
        row.pk, session["title"] if session else "", row.state, row.created, row.tries, row.status, row.message, row.due
    )


def _body_now(row: WebhookDelivery) -> str:
    """Returns what is sent: a rule of masking that was made since it was queued hides what people typed, and ids, too.

    Who receives it has no role, whoever set it up: ids are hidden as they are from everybody."""
    body = json.loads(row.body)
    typed = {"name", "query"} & body["view"].keys()
    body["view"] |= {name: shown_words_anywhere(body["view"][name], PEOPLE) for name in typed}
    if session := body["session"]:
        session["title"] = shown_words(session["title"], PEOPLE, row.app_name)
        names = session["source"], row.app_name, session["user_id"]
        session["link"] = row.hook.link + reverse("session", args=[*names, session["id"]])
        session["user_id"] = shown_user(*names, PEOPLE)
    return json.dumps(body)


# --- What is queued ---------------------------------------------------------------------------------------------------


def queue(watch: ViewWatch, sessions: Collection[SearchSession], alias: str) -> None:
    """Queues what the webhook of a watch is told of sessions that begin to match, if it has one. Its person may see them."""
    hook = Webhook.objects.filter(watch=watch).select_related("watch__view").first()
    if hook is None:
        return
    waiting = WebhookDelivery.objects.filter(hook=hook, state="waiting").count()
    some = list(sessions)[: max(0, _WAITING - waiting)]
    refs = [ref_of(alias, session.names) for session in some]
    titles = called(dict.fromkeys(refs, ""), actor_of(watch.person))
    _queue(
        _delivery(hook, "began", ref.app_name, _session(hook, session, ref, titles[ref]))
        for ref, session in zip(refs, some, strict=True)
    )


def _session(hook: Webhook, session: SearchSession, ref: SessionRef, title: str) -> dict[str, Any]:
    return {
        "source": ref.source,
        "app_name": ref.app_name,
        "user_id": ref.user_id,
        "id": ref.session_id,
        "title": title or ref.session_id,
        "status": status_of(session.phase, session.last, failed=session.failed),
    }


def _delivery(hook: Webhook, kind: str, app_name: str, session: dict[str, Any] | None) -> WebhookDelivery:
    now, number = time.time(), uuid4()
    view: SavedView = hook.watch.view
    body = {
        "id": str(number),
        "type": kind,
        "created": now,
        "view": {
            "id": str(view.pk),
            "name": view.name,
            "query": view.query,
            "link": f"{hook.link}{reverse('search')}?view={view.pk}",
        },
        "session": session,
    }
    return WebhookDelivery(id=number, hook=hook, app_name=app_name, body=json.dumps(body), created=now, due=now)


def _queue(deliveries: Any) -> None:
    WebhookDelivery.objects.bulk_create(deliveries, batch_size=200)


# --- What is sent -----------------------------------------------------------------------------------------------------


def send_next() -> bool:
    """Sends one delivery that is due, if there is one that no process sends just now. Returns whether there was one."""
    now = time.time()
    waiting = WebhookDelivery.objects.filter(state="waiting", due__lte=now, claimed_until__lt=now)
    row = waiting.select_related("hook__watch__view", "hook__watch__person").order_by("due", "pk").first()
    if row is None or settings.READ_ONLY:
        return False
    mine = WebhookDelivery.objects.filter(pk=row.pk, state="waiting", claimed_until=row.claimed_until)
    if not mine.update(claimed_until=now + _CLAIM_SECONDS, tries=row.tries + 1):
        return True  # another process was faster; there may be more
    row.tries += 1
    _note(row, *_send(row))
    return True


def _may_see(person: User, row: WebhookDelivery) -> bool:
    """Tells whether a person may still see the app that a delivery is about. The source may be closed since."""
    return not row.app_name or any(actor_of(person).may_see(source.alias, row.app_name) for source in registry.listed())


def _send(row: WebhookDelivery) -> tuple[int | None, str]:
    """Sends a delivery. Returns the status of the answer, and what went wrong; "" if nothing did."""
    person = row.hook.watch.person
    if not person.is_active or not _may_see(person, row):
        return None, _("Its person may not see this any more.")
    return sending.deliver(row.hook.url, _body_now(row).encode(), secret_of(row.hook), str(row.pk))


def _note(row: WebhookDelivery, status: int | None, wrong: str) -> None:
    """Notes what came of a delivery. One that failed is tried later, and those of the same webhook not before."""
    now = time.time()
    told: dict[str, Any] = {"status": status, "message": wrong, "claimed_until": 0.0}
    waiting = WebhookDelivery.objects.filter(hook=row.hook_id, state="waiting")
    if not wrong:
        told |= {"state": "done", "finished": now}
    elif row.tries > len(RETRIES):
        told |= {"state": "failed", "finished": now}
    else:
        due = now + RETRIES[row.tries - 1]
        told |= {"due": due}
        waiting.filter(due__lt=due).exclude(pk=row.pk).update(due=due)
    WebhookDelivery.objects.filter(pk=row.pk, state="waiting").update(**told)
    if not wrong:  # it is there again
        waiting.filter(due__gt=now, tries=0).update(due=now)
    ended = WebhookDelivery.objects.filter(hook=row.hook_id).exclude(state="waiting").order_by("-created")
    WebhookDelivery.objects.filter(pk__in=list(ended.values_list("pk", flat=True)[_KEPT : 2 * _KEPT])).delete()
