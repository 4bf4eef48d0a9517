"""Saves, changes and deletes views, the tabs above the table of sessions, and sets up their webhooks."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from ...domain.errors import AlreadyExists, Invalid, NotFound
from ...domain.shorten import words
from ...http import outgoing
from ...http.reader import zone_of
from ...search.saved import views, webhooks
from ...search.saved.views import SavedView, ViewWatch
from ...search.saved.webhooks import Webhook
from ..forms import Check, Form, Text, act
from ..html.render import offer_undo, page
from ..request import actor, person_of


class ViewForm(Form):
    """Saves what is asked for as a view, or changes one. `id` is that of a deleted view, which comes back."""

    id = forms.UUIDField(
        required=False, error_messages={"invalid": gettext_lazy("The event number in this link isn't valid.")}
    )
    name = Text()
    shared = Check()
    q = Text()
    sort = Text()
    cols = Text()

    @property
    def title(self) -> dict[str, Any]:
        """Returns how the view is called, and whether it is shared."""
        return {name: self.cleaned_data[name] for name in ("name", "shared")}

    @property
    def asked(self) -> dict[str, str]:
        """Returns what the view asks for."""
        given = self.cleaned_data
        return {"query": given["q"].strip(), "sort": given["sort"], "columns": given["cols"]}


class WatchForm(Form):
    """Watches a view, or does not any more."""

    on = Check()


class WebhookForm(Form):
    """Gives a webhook an address, or does what a button says: "test" or "remove"."""

    do = Text()
    url = Text(
        label=gettext_lazy("URL"),
        help_text=gettext_lazy(
            "Receives a POST request with JSON: the view, the session, its title and status, and links. "
            "Changing the address creates a new secret."
        ),
        needed=True,
        attrs={
            "type": "url",
            "class": "mono",
            "maxlength": outgoing.LENGTH,
            "spellcheck": "false",
            "placeholder": "https://",
        },
    )


@require_POST
def save(request: HttpRequest) -> HttpResponse:
    """Saves a view, or brings back one that was deleted (?id=), and goes to it."""
    person, form = person_of(request), ViewForm.of(request)
    said = "" if form.data.get("id") else _("View “%(name)s” saved.")
    return _keep(request, form, lambda: views.save(person, form.cleaned_data["id"], **form.title, **form.asked), said)


@require_POST
def change(request: HttpRequest, view_id: UUID) -> HttpResponse:
    """Renames and shares a view (?name=), or gives it the query, order and columns of the form, and goes to it."""
    person, form = person_of(request), ViewForm.of(request)
    views.check_may_keep(person)
    view, said = SavedView.objects.of(view_id, person), _("View “%(name)s” changed.")
    return _keep(
        request, form, lambda: view.change(by=person, **(form.title if "name" in form.data else form.asked)), said
    )


def _keep(request: HttpRequest, form: ViewForm, do: Callable[[], SavedView], said: str) -> HttpResponse:
    """Does what a form asks for, and goes to the view. What is wrong is said above the query that was to be saved."""
    try:
        form.read()
        view = do()
    except (AlreadyExists, Invalid) as error:
        messages.error(request, error.message)
        given = {name: form.data.get(name, "") for name in ("q", "sort", "cols")}
        query = urlencode({name: value.encode("utf-8", "replace") for name, value in given.items() if value})
        return redirect(reverse("search") + (f"?{query}" if query else ""))
    if said:
        messages.success(request, said % {"name": words(view.name, 60)})
    return redirect(view)


@require_POST
def watch(request: HttpRequest, view_id: UUID) -> HttpResponse:
    """Watches a view (?on=1), or does not any more, and goes to it."""
    person, form = person_of(request), WatchForm.of(request)
    if not form.read()["on"]:
        ViewWatch.objects.end(view_id, person)
        return redirect(SavedView(pk=view_id))
    view = SavedView.objects.of(view_id, person)
    try:
        view.watch(person, str(zone_of(request)))
        messages.success(request, _("You'll be notified when a session starts to match this view."))
    except Invalid as error:
        messages.error(request, error.message)
    return redirect(view)


@require_POST
def delete(request: HttpRequest, view_id: UUID) -> HttpResponse:
    """Deletes a view. The message about it has a button that brings it back."""
    view = SavedView.objects.of(view_id, person_of(request))
    view.remove(by=person_of(request))
    fields = {"id": str(view.id), "name": view.name, "q": view.query, "sort": view.sort, "cols": view.columns}
    if view.shared:
        fields["shared"] = "1"
    said = _("View “%(name)s” deleted.") % {"name": words(view.name, 60)}
    offer_undo(request, said, reverse("save-view"), fields.items())
    return redirect("search")


# --- The webhook of a watched view ------------------------------------------------------------------------------------


@require_http_methods(["GET", "POST"])
def webhook(request: HttpRequest, view_id: UUID) -> HttpResponse:
    """Shows the webhook. A form gives it an address, tests it or takes it away; a new secret is shown in the answer only."""
    actor(request).check_may_write()
    watch = ViewWatch.objects.of(view_id, person_of(request))
    hook = Webhook.objects.of(watch)
    form = WebhookForm.of(request, initial={"url": hook.url if hook else ""})
    do = form.data.get("do")
    if do == "remove":
        if hook:
            hook.remove()
        messages.success(request, _("Webhook removed."))
        return redirect("webhook", view_id=view_id)
    if do == "test":
        if hook is None:
            raise NotFound(_("This view has no webhook."))
        hook.test()
        return redirect("webhook", view_id=view_id)
    address = request.build_absolute_uri("/").rstrip("/")
    secret, status = act(form, lambda given: webhooks.set_up(watch, given["url"], address))
    context = {"view": watch.view, "form": form, "secret": secret, "hook": Webhook.objects.of(watch)}
    response = page(request, "search/views/webhook.html", context, status)
    response["Cache-Control"] = "private, no-store"
    return response


@require_GET
def deliveries(request: HttpRequest, view_id: UUID) -> HttpResponse:
    """Renders what the webhook was told last."""
    if not request.htmx:  # type: ignore[attr-defined]
        return redirect("webhook", view_id=view_id)
    watch = ViewWatch.objects.of(view_id, person_of(request))
    return page(request, "search/views/_deliveries.html", {"view": watch.view, "hook": Webhook.objects.of(watch)})
