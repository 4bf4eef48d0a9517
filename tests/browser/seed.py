"""What the browser's tests find in the databases, written before the server starts: `python -m tests.browser.seed FOLDER`.

Names for tests: each test that writes has a session of its own, by SESSIONS; LONG pages; TRAVEL has a past; HOSTILE is
full of attacks; FAMILY has long keys that differ at their ends only.
"""

from __future__ import annotations

import base64
import json
import shutil
import sys
from pathlib import Path
from random import Random
from typing import Any, Final

from sessions_app.access.actor import Actor
from sessions_app.domain.session_ref import SessionRef

WHO: Final = Actor.holding("seed", "admin")
APP: Final = "booking"
USER: Final = "bea"
SESSIONS: Final = (
    "keys",
    "announced",
    "plain",
    "refused",
    "draft",
    "delete-me",
    "add-event",
    "conflict-of-forms",
    "conflict-again",
    "toasts",
    "labels",
    "markdown",
    "watched",
    "as-text",
    "past",
    "enter-applies",
    "several-keys",
    "time-goes-on",
    "far-back",
    "agent-view",
    "greyed",
    "rules",
    "together-1",
    "together-2",
    "together-3",
    "artifacts",
    "ranged",
    "pinned",
    "pane-undo",
    "pane-edit",
    "pane-live",
    "pane-late",
    "pane-left",
    "pane-fork",
    "in-place",
    "in-place-late",
    "meanwhile",
)
STATE: Final = {"step": "choose", "count": 3, "note": None, "options": {"seat": "aisle", "meals": ["vegan", "none"]}}
LONG: Final = SessionRef("demo", APP, USER, "long")
LONG_EVENTS: Final = 250
TRACED: Final = SessionRef("demo", APP, USER, "traced")  # a turn whose trace has everything
TRAVEL: Final = SessionRef("demo", APP, USER, "travel")
TRAVEL_EVENTS: Final = 400
ODDS: Final = SessionRef("demo", "wild", "ana", "odds")  # its keys come and go, some by another session
FAMILY: Final = SessionRef("demo", APP, USER, "family")
CROWDED: Final = SessionRef(
    "demo",
    "trip_support_escalation_agent_production",
    "maximiliane.von-hohenstaufen-bergheim@customer-success.example.co.uk",
    "week-long-7f3a9c1e-44d2-4b6e-9a57-0c1f2e3d4b5a",
)
GOOD: Final = SessionRef("demo", "trips", "ana", "good-run")
BAD: Final = SessionRef("demo", "trips", "ana", "bad-run")
FAMILY_KEYS: Final = [f"feature_flags.checkout.experiment_number_{number:02}" for number in range(16)]

# --- Attacks: each would set window.injected or open a dialog where it is not escaped ---------------------------------

ATTACK: Final = "window.injected=1;alert(1)"
SCRIPT: Final = f"<script>{ATTACK}</script>"
IMAGE: Final = f"<img src=x onerror={ATTACK}>"
BREAKOUT: Final = f"\"'></textarea></title><svg onload={ATTACK}>"
LINK: Final = f"javascript:{ATTACK}"
TEMPLATE: Final = "{{ 7|add:7 }}{% debug %}${7*7}"
REVERSED: Final = "txt\u202egpj.exe\u202c \u2066isolated\u2069"
EMOJI: Final = "👩🏽\u200d🚀🇰🇷❤️\u200d🔥 Ζ̡̳̊̂a͜l̃g̀o 제주 مرحبا"
MARKDOWN: Final = f"""# {IMAGE}

**{SCRIPT}** [a link]({LINK}) <{LINK}> ![an image]({LINK}) ![another](https://evil.example/track.png "{BREAKOUT}")
[a reference][x] https://evil.example/"onclick={ATTACK} [a page](/tokens/) <svg onload={ATTACK}>

| {SCRIPT} | `{IMAGE}` |
|:-:|--:|
| [a]({LINK}) | <iframe src="{LINK}"> |

```{BREAKOUT}
{SCRIPT}
```

> - <style>* {{ background: url(https://evil.example/) }}</style>

<form action="https://evil.example/"><button>x</button></form>

[x]: {LINK}
"""
LETTER: Final = """# Three flights

I found **three** flights to *Seoul*; see https://fares.example/ICN.

| Flight | What is good about it | Price |
|---|:-:|--:|
| TP 431 | one stop in Frankfurt, where there is time enough for lunch, and a window seat in every row | 412.50 EUR |
| KE 924 | none | 530.00 EUR |

1. Take `TP 431`
   - row 12

> Fares change within the hour.

```json
{"flight": "TP431", "seat": "12C", "a_long_line": "so long that it is wider than any telephone, and is to be scrolled"}
```
"""
TEXTS: Final = (SCRIPT, IMAGE, BREAKOUT, LINK, TEMPLATE, REVERSED, EMOJI)
HOSTILE_FILE: Final = "z<img src=x onerror=injected=1>.db"
HOSTILE: Final = SessionRef(HOSTILE_FILE.removesuffix(".db"), SCRIPT, IMAGE, BREAKOUT)
SVG: Final = f'<svg xmlns="http://www.w3.org/2000/svg" onload="{ATTACK}"><script>{ATTACK}</script></svg>'
BIG: Final = 5_000_000


def main(folder: Path) -> None:
    """Fills demo.db and the hostile database in a folder."""
    import django

    django.setup()
    shutil.copy(Path(__file__).resolve().parents[2] / "examples" / "demo.db", folder / "demo.db")
    _open(folder / "demo.db")
    _demo(folder)
    fill_hostile(folder)


def _open(file: Path) -> None:
    from sessions_app.sources import database, registry

    (source,) = registry.add(str(file))
    database.open_source(source)


def append(ref: SessionRef, **event: Any) -> None:
    """Appends an event as whoever fills these databases."""
    from sessions_app.writes.append import append_event

    append_event(ref, {"author": "booking", "invocation_id": "e-1", **event}, actor=WHO, origin="person")


def _demo(folder: Path) -> None:
    from sessions_app.writes.sessions import create_session

    for name in SESSIONS:
        ref = create_session("demo", APP, USER, session_id=name, state=STATE, actor=WHO)
        append(ref, author="user", content=_content("user", {"text": f"Hello from {name}"}))
        append(ref, content=_content("model", {"text": "Where to?"}), actions={"state_delta": {"count": 4}})
    letter = _content("model", {"text": LETTER})
    append(SessionRef("demo", APP, USER, "markdown"), id="markdown", content=letter)
    create_session("demo", APP, USER, session_id=LONG.session_id, actor=WHO)
    for number in range(LONG_EVENTS):
        text = f"Message {number} " + "and so on " * (number % 12)
        append(LONG, invocation_id=f"e-{number // 5}", content=_content("model", {"text": text}))
    create_session("demo", APP, USER, session_id=TRAVEL.session_id, state={"n": 0, "kept": "so"}, actor=WHO)
    for number in range(1, TRAVEL_EVENTS + 1):
        delta = {} if number % 4 else {"n": number, "user:far": number, "tree": {"a": [number]}}
        append(TRAVEL, id=f"t{number}", invocation_id=f"e-{number // 5}", actions={"state_delta": delta})
    _odds()
    create_session("demo", APP, USER, session_id="family", state=dict.fromkeys(FAMILY_KEYS, False), actor=WHO)
    append(FAMILY, id="all", actions={"state_delta": dict.fromkeys(FAMILY_KEYS, True)})
    append(FAMILY, id="last", actions={"state_delta": {FAMILY_KEYS[-1]: "meanwhile"}})
    _crowded()
    fill_runs()
    create_session(*TRACED[:3], session_id=TRACED.session_id, actor=WHO)
    _traced()
    _artifacts(folder)
    old = create_session("demo", APP, USER, session_id="days", state=STATE, actor=WHO)
    append(old, timestamp=1_793_000_000, content=_content("user", {"text": "A while ago"}))
    for number in range(128):
        append(SessionRef("demo", APP, USER, "far-back"), id=f"f{number}", content=_content("model", {"text": "on"}))


def fill_hostile(folder: Path) -> None:
    """Makes the hostile database in a folder, and beside it, in "files", artifacts of its session."""
    from sessions_app.writes.sessions import create_session

    (folder / HOSTILE_FILE).touch()
    _open(folder / HOSTILE_FILE)
    _hostile(create_session(*HOSTILE[:3], session_id=HOSTILE.session_id, state=_state(), actor=WHO))
    for text in (IMAGE, LINK, TEMPLATE, REVERSED, EMOJI):
        for version, content in enumerate((SCRIPT, SVG)):
            keep_artifact(folder, HOSTILE, text, version, content.encode(), "image/svg+xml")


def _odds() -> None:
    """Keys of all scopes, attacks among them, that are written, removed and brought back in an order of their own."""
    from sessions_app.writes.sessions import create_session

    random, other = Random(7), ODDS._replace(session_id="other")
    for ref in (ODDS, other):
        create_session(*ref[:3], session_id=ref.session_id, state={"kept": 1}, actor=WHO)
    keys = [
        "a",
        "b",
        "B",
        "ключ",
        "👩🏽",
        "~",
        SCRIPT,
        *(f"{scope}{name}" for scope in ("user:", "app:") for name in "xyz"),
    ]
    values = [None, 1, 1, "text", [1, {"deep": [2]}], {"b": {"c": IMAGE}}, "long " * 400]
    for number in range(90):
        some = random.sample(keys, random.choice((0, 1, 1, 2, 4)))
        removed = some[: random.choice((0, 0, 1))]
        append(
            other if random.random() < 0.2 else ODDS,
            id=f"o{number}",
            actions={"state_delta": {key: None if key in removed else random.choice(values) for key in some}},
            custom_metadata={"adkweb": {"removed": removed}} if removed else {},
            **({"error_code": "X"} if number % 9 == 5 else {}),
        )


def _artifacts(folder: Path) -> None:
    """Versions of a few files, saved as google-adk's FileArtifactService does; one of them is not there."""
    ref = SessionRef("demo", APP, USER, "artifacts")
    plan = "# Plan\n\n- Monday: {}\n- Tuesday: Bukhansan\n"
    image = Path(__file__).resolve().parents[2].joinpath("docs", "images").glob("*.png")
    files: list[tuple[str, int, bytes, str]] = [
        ("plan.md", 0, plan.format("Insadong").encode(), "text/markdown"),
        ("boarding-pass.png", 0, min(each.read_bytes() for each in image), "image/png"),
        ("user:profile of a traveller who likes very long names/2026/preferences.json", 0, b'{"seat": "aisle"}', ""),
        ("prices.csv", 0, b"flight,price\nTP431,412.50\n", "text/csv"),
        ("receipt.pdf", 0, b"%PDF-1.7\n\0", "application/pdf"),
        ("plan.md", 1, plan.format("Changdeokgung, then tea").encode(), "text/markdown"),
    ]
    for name, version, content, mime_type in files:
        keep_artifact(folder, ref, name, version, content, mime_type)
        append(ref, id=f"{name[:4]}{version}", author="planner", actions={"artifact_delta": {name: version}})
    append(ref, author="planner", actions={"artifact_delta": {"only-in-memory.txt": 0}})


def keep_artifact(folder: Path, ref: SessionRef, name: str, version: int, content: bytes, mime_type: str) -> None:
    """Writes a version of an artifact where FileArtifactService would, which takes seconds to import."""
    user = folder / "files" / "apps" / ref.app_name / "users" / ref.user_id
    base = user / "artifacts" if name.startswith("user:") else user / "sessions" / ref.session_id / "artifacts"
    path = base / name.removeprefix("user:")
    inside = path / "versions" / str(version)
    inside.mkdir(parents=True)
    (inside / path.name).write_bytes(content)
    (inside / "metadata.json").write_text(json.dumps({"fileName": name, "mimeType": mime_type, "version": version}))


def _traced() -> None:
    """A turn with parallel agents whose names are alike, a tool that fails, one that repeats, and two hours of waiting."""
    tokens = {"prompt_token_count": 1800, "candidates_token_count": 240}

    def at(after: float, author: str, *parts: dict[str, Any], branch: str = "", **more: Any) -> None:
        where = {"branch": branch} if branch else {}
        by_model = any("function_response" not in part for part in parts) and author != "user"
        model = {"model_version": "gemini-3-flash", "usage_metadata": tokens} if by_model else {}
        content = _content("model", *parts) if parts else {}
        append(
            TRACED,
            id=f"r{after}",
            author=author,
            timestamp=1_794_900_000 + after,
            content=content,
            **where,
            **model,
            **more,
        )

    def call(number: str, name: str) -> dict[str, Any]:
        return {"function_call": {"id": number, "name": name, "args": {}}}

    def answer(number: str, name: str, **response: Any) -> dict[str, Any]:
        return {"function_response": {"id": number, "name": name, "response": response or {"ok": True}}}

    at(0, "user", {"text": "Plan four days in Seoul, with flights and a hotel"})
    at(1.2, "planner", call("c1", "transfer_to_agent"))
    at(1.21, "planner", answer("c1", "transfer_to_agent"), actions={"transfer_to_agent": "research"})
    lanes = ("researcher_of_all_direct_flights", "researcher_of_all_cheap_flights", "researcher_of_hotels")
    for number, name in enumerate(lanes):
        branch = f"research.{name}"
        at(2.0 + number / 4, name, call(f"s{number}", "search_the_web"), branch=branch)
    for number, name in enumerate(lanes):
        branch = f"research.{name}"
        fails = {"error": "429 too many requests: try again in 20 seconds"} if number == 1 else {}
        at(3.1 + number / 2, name, answer(f"s{number}", "search_the_web", **fails), branch=branch)
    at(5.4, lanes[1], call("s9", "search_the_web"), branch=f"research.{lanes[1]}")
    for number in (0, 2):
        at(5.6 + number / 2, lanes[number], {"text": "Done."}, branch=f"research.{lanes[number]}")
    at(7.4, lanes[1], answer("s9", "search_the_web"), branch=f"research.{lanes[1]}")
    at(9.1, lanes[1], {"text": "Done."}, branch=f"research.{lanes[1]}")
    at(10.8, "booking", call("b1", "hold_hotel"), long_running_tool_ids=["b1"])
    at(11.0, "booking", answer("b1", "hold_hotel", status="pending"))
    at(7_211.0, "user", answer("b1", "hold_hotel", approved=True))
    at(7_212.8, "booking", call("b2", "pay"))
    at(7_213.9, "booking", error_code="ConnectionError", error_message="payment service is down")


def _crowded() -> None:
    from sessions_app.domain.state import ABSENT
    from sessions_app.edits import edit
    from sessions_app.writes.sessions import create_session

    state = {f"feature_flags.checkout.experiment_number_{number:03}": number for number in range(300)}
    state |= {"user:tier": "platinum", "user:name": "Maximiliane", "app:version": "1.4.0-rc.12+build.20261121"}
    state |= {"user:notes": {"called": ["Monday", "Tuesday"], "wants": "a window seat, and nothing else"}}
    create_session(*CROWDED[:3], session_id=CROWDED.session_id, state=state, actor=WHO)
    day = 1_793_000_000  # in October 2026
    for number, after in enumerate((0, 2.5, 86_400, 86_402, 4 * 86_400, 7 * 86_400)):
        said = _content("model" if number % 2 else "user", {"text": f"Message {number}, of a conversation of a week"})
        append(
            CROWDED, author="support_specialist", timestamp=day + after, invocation_id=f"e-{number // 2}", content=said
        )
    error = "fare expired: quote Q-88213 is no longer valid since 2026-11-20; ask for a new one before the booking"
    append(CROWDED, error_code="TOOL_ERROR", error_message=error, timestamp=day + 7 * 86_400 + 5)
    tier = edit.Entry("user:tier", "diamond-plus-lifetime-member", "platinum")
    edit.edit_user_state(*CROWDED[:3], [tier], actor=WHO, reason="moved by phone, after three complaints")
    edit.edit_app_state(*CROWDED[:2], [edit.Entry("app:release", "2026-11-21", ABSENT)], actor=WHO)
    for number in range(3):
        create_session(*CROWDED[:2], f"igor.kim{number}@example.com", actor=WHO)


def fill_runs() -> None:
    """A run that went well, and one that took another way in its third turn."""
    from sessions_app.writes.sessions import create_session

    for ref, currency, price, seconds in ((GOOD, "EUR", 412.5, 1.0), (BAD, "USD", 0, 1.8)):
        state = {"currency": currency, "prompt_version": "1.4.0" if price else "1.4.1", "city": "Lisbon", "seats": 1}
        create_session(*ref[:3], session_id=ref.session_id, state=state, actor=WHO)
        args = {"flight": "TP431", "currency": currency}
        answer = {"name": "search_flights", "response": {"flights": 1, "price": price}}
        events: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
            ("user", {"text": "Find flights to Lisbon"}, {}),
            ("booking", {"text": "TP431 leaves at 09:20."}, {}),
            ("user", {"text": "Is there a seat?"}, {}),
            ("booking", {"text": "Yes, there are three."}, {"seats": 3}),
            ("user", {"text": "Book TP431 for Ana"}, {}),
            ("booking", {"function_call": {"name": "search_flights", "args": args}}, {}),
            ("booking", {"function_response": answer}, {"price": price}),
            *(
                [("booking", {"function_call": {"name": "charge_card", "args": {"amount": price}}}, {})]
                if price
                else []
            ),
            ("booking", {"text": "Booked. Your reference is KX81-2." if price else "Not booked. The price is 0."}, {}),
            ("user", {"text": "Thanks!" if price else "Why 0?"}, {}),
            ("booking", {"text": "Have a good trip." if price else "The search service returned no price in USD."}, {}),
        ]
        for number, (author, part, delta) in enumerate(events):
            used = {} if author == "user" else {"usage_metadata": {"total_token_count": int(900 * seconds)}}
            said = _content("user" if author == "user" else "model", part)
            at = 1_793_000_000 + number * seconds
            append(ref, author=author, timestamp=at, content=said, actions={"state_delta": delta}, **used)


def _content(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


def _state() -> dict[str, Any]:
    state: dict[str, Any] = {f"{prefix}{text}": text for prefix in ("", "user:", "app:") for text in TEXTS}
    nested: Any = IMAGE
    for text in (*TEXTS, *TEXTS):
        nested = {text: nested}
    return {**state, "nested": nested, "wide": "x" * 3000, "list": list(TEXTS)}


def _hostile(ref: SessionRef) -> None:
    append(ref, actions={"state_delta": {"__session_metadata__": {"displayName": IMAGE}}})
    for text in TEXTS:
        append(ref, author=text, invocation_id=text, content=_content("model", {"text": text}))
        call = {"id": text, "name": text, "args": {text: text}}
        append(ref, author=text, content=_content("model", {"function_call": call}), long_running_tool_ids=[text])
        response = {"id": text, "name": text, "response": {"error": text, text: [text]}}
        append(ref, author=text, content=_content("user", {"function_response": response}))
        append(ref, id=text, error_code=text, error_message=text, branch=text, model_version=text, finish_reason=text)
        append(ref, actions={"transfer_to_agent": text, "transfer_reason": text, "artifact_delta": {text: 1}})
        append(
            ref, custom_metadata={"adkweb": {"actor": text, "reason": text}}, actions={"state_delta": {text: [text]}}
        )
        code = {"executable_code": {"code": text, "language": text}}
        append(ref, content=_content("model", {"text": text, "thought": True}, code, {text: text}))
        file = {"file_data": {"file_uri": text, "mime_type": text, "display_name": text}}
        append(ref, content=_content("model", file))
    svg = base64.b64encode(SVG.encode()).decode()
    for mime in ("image/svg+xml", "text/html", "image/png"):
        blob = {"mime_type": mime, "data": svg, "display_name": f"{IMAGE}.svg"}
        append(ref, id=f"blob-{mime.partition('/')[2]}", content=_content("user", {"inline_data": blob}))
    append(ref, id="markdown", content=_content("model", {"text": MARKDOWN}, {"text": MARKDOWN, "thought": True}))
    append(ref, id="big", content=_content("user", {"text": SCRIPT + "y" * BIG}), output={SCRIPT: "z" * 100_000})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
