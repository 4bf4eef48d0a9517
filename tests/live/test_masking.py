"""A rule of masking reaches every socket within a second, whichever process it was made in, and pages that are open."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sessions_app.access import masking
from sessions_app.access.actor import SYSTEM
from sessions_app.checks import mask_rules
from sessions_app.live.client import Watcher
from tests.live.conftest import Stage
from tests.live.pages import Own, Page, browser, page_path, sign_in

SECRET = "tulip-77"


@contextmanager
def hidden(stage: Stage, kind: str = "key", pattern: str = "coupon*") -> Iterator[None]:
    """A rule that another process makes, and that is gone afterwards."""
    with Own(stage.server):
        masking.forget()
        mask_rules.create("*", kind, pattern, actor=SYSTEM)
        (number,) = [each.pk for each in mask_rules.listed(actor=SYSTEM)]
    try:
        yield
    finally:
        with Own(stage.server):
            mask_rules.delete(number, actor=SYSTEM)
        masking.forget()


def told(page: Page) -> str:
    return "".join(str(message) for message in page.messages)


def mask_of(page: Page) -> str:
    """The rules by which a page of the session says it was made."""
    assert page.ref
    with browser(page.server, page.who) as client:
        return client.get(page_path(page.ref)).text.partition('data-mask="')[2].partition('"')[0]


@pytest.mark.guarantee(
    "Live pages",
    "Within a second after you add a masking rule, sockets stop sending anything that it hides, and open pages reload.",
)
@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
def test_a_second_after_a_rule_was_made_nobody_is_sent_what_it_hides_although_others_watch(
    stage: Stage, form: str
) -> None:
    ref = stage.new_session(form, coupon=SECRET, step="pay")
    stage.append(ref, actions={"state_delta": {"coupon2": SECRET}})
    watching = stage.page(ref, mask="0").until(lambda page: SECRET in page.parts.get("state", ""), "the state")
    watching.until_all()
    with hidden(stage):
        made = time.monotonic()
        watching.messages.clear()
        watching.until(lambda page: page.resets, "a reset", 10)
        watching.until(lambda page: "••••" in page.parts["state"], "the state with dots")
        assert SECRET not in told(watching)
        assert watching.messages[0]["mask"] == mask_of(watching) != "0"
        time.sleep(max(0.0, made + 1 - time.monotonic()))
        for language in ("en", "de"):
            page = stage.page(ref, sign_in(stage.server, "vera"), language=language)
            page.until(lambda page: "••••" in page.parts.get("state", "") and page.seen, "the state and the events")
            assert SECRET not in told(page)
    watching.until(lambda page: SECRET in page.parts["state"], "the value again, without the rule")


def test_a_page_that_was_made_by_other_rules_and_comes_back_is_loaded_anew(stage: Stage) -> None:
    ref = stage.new_session(events=2, coupon=SECRET)
    page = stage.page(ref)
    page.until_all().until(lambda page: "state" in page.parts, "the state")
    now = mask_of(page)
    same = stage.page(ref, mask=now).until_all().until(lambda page: "state" in page.parts, "the state")
    assert (page.resets, same.resets) == (0, 0)
    other = stage.page(ref, after=page.place, mask="4711")
    other.until(lambda page: page.resets and "state" in page.parts, "a reset")
    assert [message["mask"] for message in other.messages if message.get("reset")] == [now]


def test_home_is_sent_what_is_left_to_see_when_a_rule_is_made(stage: Stage) -> None:
    ref = stage.new_session()
    card = "4111 1111 1111 1111"
    stage.append(ref, f"pay with {card}")
    page = stage.feed()
    page.until(lambda page: card in page.parts.get("feed", ""), "the event")
    before = page.parts["mask"]
    with hidden(stage, "form", "card"):
        page.until(lambda page: card not in page.parts["feed"], "the event with dots", 3)
        assert page.parts["mask"] != before


def test_what_waits_for_a_client_that_reads_slowly_is_thrown_away() -> None:
    async def sent() -> list[str | tuple[int, str]]:
        watcher = Watcher("", "vera", "en")
        for text in (SECRET, f"{SECRET} again"):
            watcher.take(text)
        watcher.forget()
        await asyncio.sleep(0)
        watcher.take("dots")
        watcher.end(1000, "")
        return [await watcher.next(), await watcher.next()]

    assert asyncio.run(sent()) == ["dots", (1000, "")]
