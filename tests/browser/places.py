"""Every page of adkweb: how a person gets there, and what they would do there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlencode

from playwright.sync_api import Locator, Page, expect

from sessions_app.domain.session_ref import SessionRef
from sessions_app.http.paths import Segment
from tests.browser.seed import APP, BAD, CROWDED, FAMILY, GOOD, LONG, TRACED, TRAVEL, USER

SEOUL: Final = SessionRef("demo", "booking", "ana", "seoul-trip")


def path(kind: str, *names: str, end: str = "") -> str:
    """An address: `path("s", *key, end="edit/")`."""
    return f"/{kind}/" + "".join(f"{Segment().to_url(name)}/" for name in names) + end


def own(name: str) -> SessionRef:
    """One of the sessions that seed.py made for a test alone."""
    return SessionRef("demo", APP, USER, name)


def open_form(page: Page, ref: SessionRef, *names: str) -> None:
    """The form that edits state, on a page of its own, with some keys in it."""
    page.goto(path("s", *ref, end="edit/?" + urlencode([("key", name) for name in names])))


def add_key(page: Page, key: str) -> None:
    """Takes another key into the form."""
    page.locator("[data-another] > summary").click()
    page.get_by_label("Key to edit or add").fill(key)
    page.get_by_role("button", name="Another key").click()


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def type_json(page: Page, text: str, number: int = 0) -> None:
    """Replaces what stands in an editor by some JSON, as a person types: a string without its quotes, if the key is one."""
    editor = page.locator("json-editor").nth(number)
    if editor.get_attribute("plain") is not None:
        value = _value(text)
        if isinstance(value, str):
            text = value
        else:
            editor.locator("xpath=../fieldset").get_by_role("radio", name="JSON").check()
    page.locator("json-editor .cm-content").nth(number).click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type(text)


def go(page: Page, name: str) -> None:
    """Goes to one of PLACES."""
    there = PLACES[name]
    if isinstance(there, str):
        page.goto(there)
    else:
        there(page)


def open_event(page: Page, line: Locator) -> None:
    """An event beside the timeline, as itself; those that are opened afterwards are, too."""
    line.click()
    page.locator("#show-event").click()
    expect(page.locator("#detail")).to_be_visible()


def alone(page: Page, link: Locator) -> None:
    """The page that a link of a session opens beside the timeline, by itself."""
    page.goto(link.get_attribute("href") or "")


def _detail(page: Page) -> None:
    page.goto(path("s", *SEOUL))
    open_event(page, page.locator(".ev .line").last)
    expect(page.locator("#detail .parts")).to_be_visible()


def _chat(page: Page) -> None:
    page.goto(path("s", *SEOUL, end="?density=chat"))
    page.locator(".fold > summary").filter(has_text="search_flights").first.click()
    expect(page.locator(".fold[open] .kv").first).to_be_visible()


def _moment(page: Page) -> None:
    page.goto(path("s", *SEOUL))
    page.locator(".ev:has(.delta) .line").last.click()
    expect(page.locator("#moment .written").first).to_be_visible()
    expect(page.locator("#travel")).to_be_visible()


def _pinned(page: Page) -> None:
    page.goto(path("s", *SEOUL, end="?pin=booking_step&pin=searches&pin=app:total_searches&pin=gone"))
    expect(page.locator(".pin")).to_have_count(4)


def _offered(link: str, shown: str) -> Callable[[Page], None]:
    """Goes to what an event in the middle of a conversation offers, and waits for a part of it."""

    def go(page: Page) -> None:
        page.goto(path("s", *SEOUL))
        page.locator(".ev:has(.delta) .line").nth(1).click()
        alone(page, page.locator("#moment .takeback").get_by_role("link", name=link))
        expect(page.locator(shown).first).to_be_visible()

    return go


def _next_call(page: Page) -> None:
    page.goto(path("s", *SEOUL, end="context/"))
    page.locator("#instruction > summary").click()
    page.locator("#template").fill("{user:tier} {gone} {gone?} {artifact.notes.md} " + "word " * 60)
    expect(page.locator(".placeholders li")).to_have_count(4)


def _model_got(page: Page) -> None:
    page.goto(path("s", *SEOUL))
    page.locator(".ev .line").last.click()
    expect(page.locator("#moment")).to_be_visible()
    alone(page, page.locator("a[data-follows]"))
    page.locator(".omitted summary").first.click()
    page.locator(".sizes summary").click()
    expect(page.locator(".sizetables table:visible")).to_have_count(2)


def _form(page: Page) -> None:
    page.goto(path("s", *SEOUL))
    page.get_by_role("link", name="Edit user:tier").dispatch_event("click")
    expect(page.locator("#edit .cm-content")).to_be_visible()
    type_json(page, '{"name": "platinum"}')


def _menu(page: Page) -> None:
    page.goto("/")
    page.locator(".topbar details.menu > summary").click()


def _palette(page: Page) -> None:
    page.goto(path("s", *SEOUL))
    page.keyboard.press("ControlOrMeta+k")
    with page.expect_response(lambda response: "/palette/?q=" in response.url):
        page.locator("#palette input").fill("s")
    expect(page.locator("#palette [data-text]").first).to_be_attached()


def _labels(page: Page) -> None:
    page.goto(path("s", *SEOUL))
    page.keyboard.press("l")
    expect(page.locator("#new-tag")).to_be_focused()


def _keys(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("?")
    expect(page.locator("dialog#keys")).to_be_visible()


def _conflict(page: Page) -> None:
    ref = own("conflict-of-forms")
    open_form(page, ref, "count")
    other = page.context.new_page()
    open_form(other, ref, "count")
    now = other.locator("textarea").input_value()
    type_json(other, str(int(now) + 1))
    other.get_by_role("button", name="Apply").click()
    expect(other.get_by_text("Saved as event")).to_be_visible()
    other.close()
    type_json(page, "77")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator(".conflict")).to_be_visible()


def _refused_session(page: Page) -> None:
    page.goto("/sessions/new/?source=demo&app_name=booking&user_id=ana&session_id=seoul-trip")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("#session_id_error")).to_be_visible()


def _sessions(text: str) -> Callable[[Page], None]:
    """The page “Sessions” for a query; a source that is still being read is waited for."""

    def go(page: Page) -> None:
        page.goto("/sessions/?" + urlencode({"q": text, "cols": "user,app,started,took,turns,state.booking_step"}))
        expect(page.locator("#preview .scroll, .results .empty")).to_be_visible()
        expect(page.get_by_text("Indexing")).to_have_count(0)

    return go


def _columns(page: Page) -> None:
    _sessions("")(page)
    page.locator(".columnsmenu summary").click()


def _save_view(page: Page) -> None:
    _sessions("error:any")(page)
    page.locator(".views summary.btn").click()
    expect(page.locator("#save-view-name")).to_be_focused()


def _edited_view(page: Page) -> None:
    _webhook(page)
    page.locator(".crumbs a").nth(1).click()
    page.wait_for_url(re.compile("view="))  # and until it has loaded: before, nobody hears what is typed
    page.locator("#query").fill("nothing-like-that")
    expect(page.locator(".views .changed")).to_be_visible()


def _webhook(page: Page) -> None:
    page.goto("/sessions/?q=nothing-like-this")
    tab = page.locator(".viewtabs").get_by_role("link", name="For webhooks")
    if not tab.count():
        page.locator(".views summary.btn").click()
        page.keyboard.type("For webhooks")
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("view="))
        page.locator("form[data-watch] button").click()
    tab.click()
    page.locator(".views a[href$='/webhook/']").click()
    expect(page.locator("#url")).to_be_visible()


def _suggestions(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("/")
    page.keyboard.type("e")
    expect(page.locator("#queryoptions [data-text]").first).to_be_visible()
    page.keyboard.press("ArrowDown")


def _selected(page: Page) -> None:
    _sessions("")(page)
    for number in (0, 1):
        page.locator("input[name=ref]").nth(number).check()


def _batch(page: Page) -> None:
    _selected(page)
    page.get_by_role("button", name=re.compile("^(Edit state|Editar estado|상태 편집)…")).click()
    page.wait_for_url(re.compile("/batches/"))  # and until it has loaded: before, a key does nothing
    page.locator("#new-key").fill("note")
    page.keyboard.press("Enter")
    expect(page.locator("json-editor .cm-content")).to_be_visible()


def _dry_run(page: Page) -> None:
    _batch(page)
    type_json(page, '"called back"')
    page.locator("button.primary[value=try]").click()
    expect(page.locator(".tally")).to_be_visible()


def _rule(page: Page) -> None:
    page.goto(path("a", "demo", "booking", end="checks/"))
    page.locator("#condition").fill("count = 0")
    page.locator("#title").fill("Nothing is counted")
    page.get_by_role("button", name="Add rule").click()
    expect(page.locator("#breaches tbody tr").first).to_be_visible(timeout=20_000)
    expect(page.locator("progress")).to_have_count(0)


def _refused_rule(page: Page) -> None:
    page.goto(path("a", "demo", "booking", end="checks/?condition=error:any"))
    page.get_by_role("button", name="Add rule").click()
    expect(page.locator("#condition_error")).to_be_visible()


def _export(page: Page) -> None:
    page.goto(path("a", "demo", "booking"))
    page.locator("summary", has_text="Export").click()
    expect(page.get_by_role("button", name="jsonl")).to_be_visible()


def _share(page: Page) -> None:
    page.goto(path("s", *SEOUL))
    if not page.locator(".sharing > summary").is_visible():
        page.locator(".rest > summary").click()
    page.locator(".sharing > summary").click()
    page.get_by_label("Hide values").check()
    expect(page.get_by_label("Only these keys")).to_be_visible()


# An address, or what a person does to get there.
PLACES: Final[dict[str, str | Callable[[Page], None]]] = {
    "home": "/",
    "home, menu open": _menu,
    "home, keys shown": _keys,
    "home, suggestions shown": _suggestions,
    "all sessions": _sessions(""),
    "all sessions, columns shown": _columns,
    "all sessions, saving a view": _save_view,
    "all sessions, something wrong": _sessions("user:ana usr:x after:2026-11-01"),
    "all sessions, no result": _sessions("user:ana nothing-like-this"),
    "all sessions, some selected": _selected,
    "batch": _batch,
    "batch, dry run": _dry_run,
    "batches": "/batches/",
    "app": path("a", "demo", "booking"),
    "app of long names": path("a", *CROWDED[:2]),
    "app, export open": _export,
    "session, share open": _share,
    "state health": path("a", "demo", "booking", end="checks/"),
    "schema": path("a", "demo", "booking", end="schema/"),
    "rule": _rule,
    "rule, refused": _refused_rule,
    "apps": path("a", "demo"),
    "users": path("a", "demo", "booking", end="users/"),
    "users of long names": path("a", *CROWDED[:2], end="users/"),
    "user": path("u", "demo", "booking", "omar@example.com"),
    "user of long names": path("u", *CROWDED[:3]),
    "sessions": path("a", "demo", "booking", end="sessions/"),
    "sessions of a user": path("u", "demo", "booking", "ana", end="sessions/"),
    "session": path("s", *SEOUL),
    "session at an event": path("s", *TRAVEL, end="?density=events&at=t100"),
    "session of long names": path("s", *CROWDED, end="?density=events"),
    "session, palette": _palette,
    "session, tag form open": _labels,
    "session in Arabic": path("s", "demo", "support", "omar@example.com", "refund"),
    "session without events": path("s", "demo", "support", "ana", "draft"),
    "session, no such events": path("s", *LONG, end="?kind=errors"),
    "session, state at an event": _moment,
    "session, event open": _detail,
    "session, event gone": path("s", *SEOUL, end="?at=gone"),
    "chat": _chat,
    "chat of long names": path("s", *CROWDED, end="?density=chat"),
    "chat in Arabic": path("s", "demo", "support", "omar@example.com", "refund", end="?density=chat"),
    "chat without messages": path("s", "demo", "support", "ana", "draft", end="?density=chat"),
    "markdown": path("s", *own("markdown"), end="e/markdown/"),
    "event": path("s", *FAMILY, end="e/all/"),
    "session, edit form open": _form,
    "edit form": lambda page: open_form(page, SEOUL, "booking", "user:tier", "new-one"),
    "edit form of a user": path("u", *CROWDED[:3], end="edit/?key=user:tier"),
    "conflict": _conflict,
    "undo": _offered("Undo", ".editbox"),
    "restore": _offered("Restore…", ".editrow.compact"),
    "rewind": _offered("Rewind…", ".rewindform"),
    "fork": _offered("Fork…", "#session_id"),
    "forks": path("s", *SEOUL, end="forks/"),
    "undo, with a choice": path("s", *FAMILY, end="e/all/undo/"),
    "undo, nothing to undo": path("s", *TRAVEL, end="e/t1/undo/"),
    "restore a scope": path("s", *FAMILY, end="restore/?to=all&scope=session"),
    "rewind, unknown invocation": path("s", *TRAVEL, end="rewind/?before=gone"),
    "history of a number": path("s", *TRAVEL, end="history/?key=n"),
    "history of an object": path("s", *TRAVEL, end="history/?key=tree"),
    "history of no such key": path("s", *TRAVEL, end="history/?key=gone"),
    "history, which key": path("s", *FAMILY, end="history/"),
    "compare": path("s", *TRAVEL, end="compare/?a=t100&b=now"),
    "compare with another session": path("s", *FAMILY, end="compare/?a=now&b=now&with=" + path("s", *TRAVEL)),
    "two runs": path("s", *GOOD, end="compare/?with=" + path("s", *BAD)),
    "two runs, what differs in tools": path("s", *GOOD, end="compare/?only=tools&with=" + path("s", *BAD)),
    "two runs that are the same": path("s", *LONG, end="compare/?with=" + path("s", *LONG)),
    "session, a range": path("s", *TRAVEL, end="?from=t100&to=t120"),
    "session, pinned keys": _pinned,
    "session, a range that is gone": path("s", *TRAVEL, end="?from=gone&to=t120"),
    "compare, two moments": path("s", *TRAVEL, end="compare/?a=&b=now"),
    "compare, nothing chosen": path("s", *TRAVEL, end="compare/"),
    "other runs": path("s", *GOOD, end="compare/"),
    "compare, event gone": path("s", *TRAVEL, end="compare/?a=gone&b=now"),
    "trace": path("s", *TRACED, end="?density=trace"),
    "trace of long names": path("s", *CROWDED, end="?density=trace"),
    "trace of a turn that waits": path(
        "s", "demo", "booking", "omar@example.com", "team-offsite", end="?density=trace"
    ),
    "trace, nothing yet": path("s", "demo", "support", "ana", "draft", end="?density=trace"),
    "artifacts": path("s", *own("artifacts"), end="artifacts/"),
    "artifact that is text": path("s", *own("artifacts"), end="artifacts/?name=plan.md"),
    "artifact that is an image": path("s", *own("artifacts"), end="artifacts/?name=boarding-pass.png"),
    "artifact without a preview": path("s", *own("artifacts"), end="artifacts/?name=receipt.pdf"),
    "two versions of an artifact": path("s", *own("artifacts"), end="artifacts/compare/?name=plan.md"),
    "artifacts, none": path("s", "demo", "support", "ana", "draft", end="artifacts/"),
    "drift": path("s", *TRAVEL, end="drift/?wait=no"),
    "what the model gets next": _next_call,
    "what the model got": _model_got,
    "what the model gets next, nothing yet": path("s", "demo", "support", "ana", "draft", end="context/"),
    "agents": "/agents/",
    "an agent": "/agents/demo/booking/",
    "inbox": "/inbox/",
    "inbox, passed over": "/inbox/?show=passed",
    "edits": "/edits/",
    "audit": "/audit/",
    "new session": "/sessions/new/",
    "new session, refused": _refused_session,
    "add event": path("s", *SEOUL, end="add/"),
    "delete": path("s", *SEOUL, end="delete/"),
    "delete, long names": path("s", *CROWDED, end="delete/"),
    "hold": path("s", *SEOUL, end="hold/"),
    "export everything": path("u", *SEOUL[:3], end="everything/"),
    "erase a user": path("u", *SEOUL[:3], end="erase/"),
    "retention": "/retention/",
    "import": "/import/",
    "all sessions, a watched view edited": _edited_view,
    "webhook": _webhook,
    "tokens": "/tokens/",
    "people": "/people/",
    "roles": "/roles/",
    "masking": "/masking/?scan=1",
    "approval": "/approval/",
    "proposals": "/proposals/",
    "temporary edits": "/temporary-edits/",
    "password": "/password/",
    "sign-ins": "/sign-ins/",
    "second factor": "/second-factor/",
    "new passkey": "/second-factor/passkeys/add/",
    "error 404": "/no/such/page/",
}
# Pages that differ most, which have nearly every component together: `make test` looks at these, `make test-long` at all.
EACH_PAGE: Final = (
    *("home", "all sessions, some selected", "rule", "session, state at an event", "chat", "trace", "event"),
    *("edit form of a user", "conflict", "two runs", "history of an object", "what the model gets next"),
    *("two versions of an artifact", "audit", "webhook", "roles"),
)
STATUSES: Final = {
    "session, event gone": 404,
    "conflict": 409,
    "undo, nothing to undo": 400,
    "rewind, unknown invocation": 404,
    "compare, event gone": 404,
    "new session, refused": 409,
    "rule, refused": 400,
    "error 404": 404,
}
