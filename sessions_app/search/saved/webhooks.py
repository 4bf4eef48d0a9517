"""Keeps webhooks of watched views and what they are told: queued with the news, sent by one process, tried again."""

import base64
import json
import logging
import secrets
import time
from collections.abc import Collection
from typing import Any, ClassVar, Final
from uuid import uuid4

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models, transaction
from django.urls import reverse
from django.utils.crypto import salted_hmac
from django.utils.functional import cached_property
from django.utils.translation import gettext as _

from ...access.actor import PEOPLE
from ...access.audit.record import record
from ...access.handles import shown_user
from ...access.roles import actor_of
from ...access.shown import shown_words, shown_words_anywhere
from ...domain.errors import Invalid
from ...domain.session_ref import SessionRef
from ...http import outgoing
from ...models import SearchSession
from ...reads.labels import called
from ...sources import registry
from ..index.tables import ref_of
from ..results import status_of
from . import sending
from .views import SavedView, ViewWatch, check_may_keep

log = logging.getLogger("adkweb.saved")

RETRIES: Final = (10.0, 60.0, 300.0, 1_800.0, 7_200.0, 21_600.0)  # seconds before each new try: nine hours in all
SHOWN: Final = 20  # deliveries that a page lists
_KEPT: Final = 50  # deliveries that have ended, of each webhook
_WAITING: Final = 200  # deliveries that wait, of each webhook; what begins to match meanwhile is not sent
_CLAIM_SECONDS: Final = 60.0


class WebhookQuerySet(models.QuerySet["Webhook"]):
    """The question that is asked about webhooks."""

    def of(self, watch: ViewWatch) -> "Webhook | None":
        """Returns the webhook of a watch; None if it has none."""
        return self.filter(watch=watch).select_related("watch__view", "watch__person").first()


class Webhook(models.Model):
    """An address that is told, too, when a session begins to match a watched view.

    The secret is not kept: it follows from `salt` and adkweb's own key. `link` is where people reach adkweb.
    """

    watch = models.OneToOneField(ViewWatch, models.CASCADE, related_name="+")
    url = models.TextField()
    salt = models.CharField(max_length=64)
    link = models.TextField()
    created = models.FloatField()

    objects = WebhookQuerySet.as_manager()

    @property
    def secret(self) -> str:
        """Returns the secret with which deliveries are signed."""
        code = salted_hmac("adkweb.webhook", self.salt, algorithm="sha256").digest()
        return "whsec_" + base64.urlsafe_b64encode(code).decode().rstrip("=")

    @cached_property
    def deliveries(self) -> "list[WebhookDelivery]":
        """Returns its last deliveries, the newest first."""
        return list(WebhookDelivery.objects.filter(hook=self).order_by("-created", "-pk")[:SHOWN])

    def remove(self) -> None:
        """Takes it away, with what it waits to be told. Raises NotAllowed."""
        actor_of(self.watch.person).check_may_write()
        with transaction.atomic():
            self.delete()
            self._record("webhook-removed")

    def test(self) -> None:
        """Queues a delivery that tests it. Raises NotAllowed."""
        check_may_keep(self.watch.person)
        self.delivery("test").save()

    def delivery(self, kind: str, app_name: str = "", session: dict[str, Any] | None = None) -> "WebhookDelivery":
        """Returns what it is told now, of a session that begins to match or without one. It is not saved yet."""
        now, number = time.time(), uuid4()
        view = self.watch.view
        body = {
            "id": str(number),
            "type": kind,
            "created": now,
            "view": {
                "id": str(view.pk),
                "name": view.name,
                "query": view.query,
                "link": self.link + view.get_absolute_url(),
            },
            "session": session,
        }
        return WebhookDelivery(id=number, hook=self, app_name=app_name, body=json.dumps(body), created=now, due=now)

    def _record(self, act: str) -> None:
        # The rest of an address may be a secret.
        host = outgoing.read(self.url, sending.HOSTS).host
        name = SavedView.objects.values_list("name", flat=True).get(pk=self.watch.view_id)  # as it is stored
        record(act, self.watch.person.get_username(), view=name, host=host)


class WebhookDelivery(models.Model):
    """A message to an address, sent or to be sent. Times are seconds.

    `state` is waiting, done or failed; `status` is HTTP's. `claimed_until` is past if no process sends it just now.
    """

    id = models.UUIDField(primary_key=True, default=uuid4)
    hook = models.ForeignKey(Webhook, models.CASCADE, related_name="+")
    app_name = models.TextField()
    body = models.TextField()
    created = models.FloatField()
    state = models.CharField(max_length=10, default="waiting")
    due = models.FloatField()
    tries = models.IntegerField(default=0)
    status = models.IntegerField(null=True)
    message = models.TextField(default="")
    finished = models.FloatField(null=True)
    claimed_until = models.FloatField(default=0.0)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["due"], condition=models.Q(state="waiting"), name="deliveries_due"),
            models.Index(fields=["hook", "created"], name="deliveries_of_hook"),
        ]

    @property
    def title(self) -> str:
        """Returns the title of its session, as everybody may see it; "" without one."""
        session = json.loads(self.body)["session"]
        return shown_words(session["title"], PEOPLE, self.app_name) if session else ""

    @property
    def body_now(self) -> str:
        """Returns what is sent: a rule of masking that was made since it was queued hides what people typed, and ids, too.

        Who receives it has no role, whoever set it up: ids are hidden as they are from everybody."""
        body = json.loads(self.body)
        typed = {"name", "query"} & body["view"].keys()
        body["view"] |= {name: shown_words_anywhere(body["view"][name], PEOPLE) for name in typed}
        if session := body["session"]:
            session["title"] = self.title
            names = session["source"], self.app_name, session["user_id"]
            session["link"] = self.hook.link + reverse("session", args=[*names, session["id"]])
            session["user_id"] = shown_user(*names, PEOPLE)
        return json.dumps(body)

    def claim(self) -> bool:
        """Keeps other processes from sending it. Returns False if one of them was faster."""
        mine = WebhookDelivery.objects.filter(pk=self.pk, state="waiting", claimed_until=self.claimed_until)
        self.tries += 1
        return bool(mine.update(claimed_until=time.time() + _CLAIM_SECONDS, tries=self.tries))

    def send(self) -> None:
        """Sends it. One that fails is tried again later, and those of the same webhook not before."""
        person = self.hook.watch.person
        if not person.is_active or not self._may_be_seen_by(person):
            self._end("failed", None, _("The webhook's owner can no longer see this app."))
            return
        try:
            status, wrong = sending.deliver(self.hook.url, self.body_now.encode(), self.hook.secret, str(self.pk))
        except Exception:
            log.exception("message %s of a webhook cannot be sent", self.pk)
            status, wrong = None, _("Something went wrong. See the log for details.")
        waiting = WebhookDelivery.objects.filter(hook=self.hook_id, state="waiting")
        now = time.time()
        if not wrong:
            self._end("done", status, "")
            waiting.filter(due__gt=now, tries=0).update(due=now)  # it is there again
        elif self.tries > len(RETRIES):
            self._end("failed", status, wrong)
        else:
            due = now + RETRIES[self.tries - 1]
            waiting.filter(pk=self.pk).update(status=status, message=wrong, claimed_until=0.0, due=due)
            waiting.filter(due__lt=due).update(due=due)

    def _end(self, state: str, status: int | None, message: str) -> None:
        mine = WebhookDelivery.objects.filter(pk=self.pk, state="waiting")
        mine.update(state=state, status=status, message=message, claimed_until=0.0, finished=time.time())
        ended = WebhookDelivery.objects.filter(hook=self.hook_id).exclude(state="waiting").order_by("-created")
        WebhookDelivery.objects.filter(pk__in=list(ended.values_list("pk", flat=True)[_KEPT : 2 * _KEPT])).delete()

    def _may_be_seen_by(self, person: User) -> bool:
        """Tells whether a person may still see the app that it is about. The source may be closed since."""
        actor = actor_of(person)
        return not self.app_name or any(actor.may_see(source.alias, self.app_name) for source in registry.listed())


def set_up(watch: ViewWatch, url: str, link: str) -> str:
    """Gives a watched view a webhook in place of the one that it has. Returns its secret, which nobody can see again.

    `link` is the address of this adkweb. Raises Invalid and NotAllowed."""
    check_may_keep(watch.person)
    _check_address(url.strip())
    with transaction.atomic():
        Webhook.objects.filter(watch=watch).delete()
        salt = secrets.token_hex(32)
        hook = Webhook.objects.create(watch=watch, url=url.strip(), salt=salt, link=link, created=time.time())
        hook._record("webhook-set")
    return hook.secret


def _check_address(url: str) -> None:
    """Checks an address before it is kept. A name that does not exist yet is none. Raises Invalid."""
    try:
        outgoing.resolve(outgoing.read(url, sending.HOSTS))
    except OSError as error:
        raise Invalid(
            _("This host can't be found: %(error)s") % {"error": str(error)[: sending.WORDS]}, field="url"
        ) from error


def queue(watch: ViewWatch, sessions: Collection[SearchSession], alias: str) -> None:
    """Queues what the webhook of a watch is told of sessions that begin to match, if it has one. Its person may see them."""
    hook = Webhook.objects.of(watch)
    if hook is None:
        return
    waiting = WebhookDelivery.objects.filter(hook=hook, state="waiting").count()
    some = list(sessions)[: max(0, _WAITING - waiting)]
    refs = [ref_of(alias, session.names) for session in some]
    titles = called(dict.fromkeys(refs, ""), actor_of(watch.person))
    WebhookDelivery.objects.bulk_create(
        (
            hook.delivery("began", ref.app_name, _session(session, ref, titles[ref]))
            for ref, session in zip(refs, some, strict=True)
        ),
        batch_size=200,
    )


def _session(session: SearchSession, ref: SessionRef, title: str) -> dict[str, Any]:
    return {
        "source": ref.source,
        "app_name": ref.app_name,
        "user_id": ref.user_id,
        "id": ref.session_id,
        "title": title or ref.session_id,
        "status": status_of(session.phase, session.last, failed=session.failed),
    }


def send_next() -> bool:
    """Sends one delivery that is due, if there is one that no process sends just now. Returns whether there was one."""
    now = time.time()
    waiting = WebhookDelivery.objects.filter(state="waiting", due__lte=now, claimed_until__lt=now)
    delivery = waiting.select_related("hook__watch__view", "hook__watch__person").order_by("due", "pk").first()
    if delivery is None or settings.READ_ONLY:
        return False
    if delivery.claim():  # otherwise another process was faster; there may be more
        delivery.send()
    return True
