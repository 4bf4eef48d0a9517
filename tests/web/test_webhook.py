"""The page of a watched view's webhook: its address, its secret once, and what it was told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from pytest_django import Settings

from sessions_app.search.saved import views, webhooks
from sessions_app.search.saved.views import SavedView, ViewWatch
from sessions_app.search.saved.webhooks import WebhookDelivery
from tests.search.saved.receiver import Receiver, receiver
from tests.support.people import an_admin
from tests.web.conftest import Browser
from tests.web.html import page_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def told(settings: Settings) -> Iterator[Receiver]:
    """A receiver that the settings list."""
    with receiver() as running:
        settings.WEBHOOK_HOSTS = ["127.0.0.1"]
        yield running


@pytest.fixture
def view(person: User) -> SavedView:
    """A view that Maria watches."""
    view = views.save(person, name="<b>Failed</b>", query="error:any", sort="", columns="", shared=True)
    view.watch(person, "UTC")
    return view


def test_an_address_is_set_up_with_a_secret_that_is_shown_once_and_tested(
    view: SavedView, told: Receiver, maria: Browser
) -> None:
    address = maria.open("/sessions/", query={"view": view.id}).links()["Webhook"]
    assert maria.open(address).one("div", "empty")
    response = maria.send("webhook", {"url": told.url}, view_id=view.id)
    assert "no-store" in response["Cache-Control"]
    secret = page_of(response).one(id="secret-text").text
    page = maria.open("webhook", view_id=view.id)
    assert (page.one(id="url")["value"], page.all(id="secret-text")) == (told.url, [])
    assert secret not in page.raw
    list_of = page.one(id="deliveries")
    assert (list_of["hx-get"], list_of["hx-trigger"]) == (reverse("deliveries", args=[view.id]), "every 3s")
    maria.send("webhook", {"do": "test"}, view_id=view.id)
    assert "waiting" in maria.open("deliveries", htmx=True, view_id=view.id).one("tbody").text
    told.statuses = [500, 200]
    webhooks.send_next()
    assert "500 · 1 try" in maria.open("deliveries", htmx=True, view_id=view.id).one("tbody").text
    WebhookDelivery.objects.update(due=0)
    webhooks.send_next()
    assert maria.open("webhook", view_id=view.id).one("tbody").one("span", "badge").text == "200"
    maria.send("webhook", {"do": "remove"}, view_id=view.id)
    assert maria.open("webhook", view_id=view.id).one("div", "empty")


def test_an_address_that_is_not_allowed_is_said_and_kept_in_the_form(view: SavedView, maria: Browser) -> None:
    response = maria.send("webhook", {"url": "https://127.0.0.1/<script>"}, view_id=view.id)
    assert response.status_code == 400
    page = page_of(response)
    assert "isn't on the public internet" in page.one("span", "error").text
    assert page.one(id="url")["value"] == "https://127.0.0.1/<script>"


def test_only_who_watches_has_the_page(view: SavedView, maria: Browser, person: User) -> None:
    bob = an_admin("bob")
    his = views.save(bob, name="Bob’s", query="x", sort="", columns="", shared=False)
    maria.open("webhook", view_id=his.id, status=404)
    ViewWatch.objects.end(view.id, person)
    maria.open("webhook", view_id=view.id, status=404)
    assert maria.send("webhook", {"url": "https://1.1.1.1/"}, view_id=view.id).status_code == 404
