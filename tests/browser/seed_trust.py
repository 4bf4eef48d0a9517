"""Attacks in what people make of adkweb, beside what agents write: `python -m tests.browser.seed_trust FOLDER`.

A running server has them at once. The ids that addresses need are printed as JSON. A name that a form refuses stands in
the database all the same where a command or an identity provider could have written it.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from sessions_app.domain.session_ref import SessionRef
from tests.browser.seed import BREAKOUT, EMOJI, HOSTILE, HOSTILE_FILE, IMAGE, LINK, SCRIPT, TEMPLATE

GUARDED: Final = SessionRef(HOSTILE.source, TEMPLATE, SCRIPT, IMAGE)  # its app has rules of every kind
PERSON: Final = BREAKOUT
GROUP: Final = SCRIPT
TOKEN: Final = IMAGE
KEY: Final = f"password {IMAGE}"
STATE: Final = {f"{scope}{name}": BREAKOUT for scope in ("", "user:", "app:") for name in (KEY, "step")}


def main(folder: Path) -> None:
    """Writes attacks beside the hostile database of a folder, and prints their ids."""
    import django

    django.setup()
    from sessions_app.sources import database, registry

    (source,) = registry.add(str(folder / HOSTILE_FILE))
    database.open_source(source)
    print(json.dumps(fill()))


def fill() -> dict[str, str]:
    """Writes attacks beside the hostile database, which is open. Returns the ids that addresses need, and the mask's."""
    from django.contrib.auth.models import User

    from sessions_app.access import masking, roles
    from tests.support.at_work import settle

    owner = User.objects.get(is_superuser=True)
    admin = roles.actor_of(owner)
    who = replace(admin, name=SCRIPT)
    made = {**_accounts(owner, admin, who), **_session(who), **_views(owner), **_jobs(who)}
    for kind in ("rule", "batch", "export"):
        settle(kind)
    return {**made, "mask": str(masking.digest())}


def _accounts(owner: Any, admin: Any, who: Any) -> dict[str, Any]:
    """People, groups, roles, tokens, invitations and sign-ins."""
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.auth.models import User

    from sessions_app.access import approval, groups, invitations, roles, tokens
    from sessions_app.access.sign_ins import SessionStore
    from sessions_app.access.tokens import ApiToken
    from sessions_app.checks import mask_rules

    person = User.objects.create_user(PERSON, email=LINK)
    groups.make(GROUP, actor=admin)
    for name in (IMAGE, BREAKOUT):
        person.groups.add(_group(groups.make(name, actor=admin).name))
    for pattern in (SCRIPT, BREAKOUT):
        roles.give("editor", by=who, apps=pattern, sources=IMAGE, person=PERSON)
        roles.give("viewer", by=who, apps=pattern, group=GROUP)
    for name, text in ((TOKEN, BREAKOUT), (SCRIPT, IMAGE), (TEMPLATE, SCRIPT)):
        tokens.create(name, "admin", text, by=who, days=3)
    ApiToken.objects.named(TOKEN).renew(by=who)
    ApiToken.objects.named(SCRIPT).revoke(by=who)
    tokens.sign_in("guess", IMAGE)
    _invitation, invitation = invitations.make(IMAGE, [GROUP, BREAKOUT], actor=admin)
    mask_rules.create(TEMPLATE, "key", KEY, actor=who)
    for pattern in (SCRIPT, BREAKOUT):
        mask_rules.create(pattern, "key", pattern, actor=who)
        mask_rules.create(pattern, "tool", f"{IMAGE}: {SCRIPT}", actor=who)
        approval.make(by=who, keys=pattern, apps=TEMPLATE, sources=HOSTILE.source)
    signed_in = SessionStore()
    signed_in[SESSION_KEY], signed_in[HASH_SESSION_KEY] = str(owner.pk), owner.get_session_auth_hash()
    signed_in[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    signed_in["agent"], signed_in["address"] = SCRIPT, IMAGE
    signed_in.save()
    return {"invitation": invitation}


def _group(name: str) -> Any:
    from django.contrib.auth.models import Group

    return Group.objects.get(name=name)


def _session(who: Any) -> dict[str, Any]:
    """A session with masked keys, a hold, labels, a proposal, and an edit that takes itself back."""
    from sessions_app.domain.errors import Held
    from sessions_app.domain.state import ABSENT
    from sessions_app.edits import edit, proposals
    from sessions_app.privacy import holds, retention
    from sessions_app.running import files
    from sessions_app.search import labels
    from sessions_app.writes.append import append_event
    from sessions_app.writes.sessions import create_session

    create_session(*GUARDED[:3], session_id=GUARDED.session_id, state=STATE, actor=who)
    looks_secret = {f"api_key {IMAGE}": SCRIPT, "db_password": BREAKOUT}
    delta = {"state_delta": {**looks_secret, KEY: SCRIPT, "step": EMOJI}}
    append_event(GUARDED, {"id": IMAGE, "author": SCRIPT, "invocation_id": IMAGE, "actions": delta}, actor=who)
    edit.edit_state(GUARDED, [edit.Entry(TEMPLATE, IMAGE, ABSENT)], actor=who, reason=SCRIPT, of={"lasts": 86_400})
    for kind, apply in (("user:", edit.edit_user_state), ("app:", edit.edit_app_state)):
        names = GUARDED[:3] if kind == "user:" else GUARDED[:2]
        apply(*names, [edit.Entry(f"{kind}{IMAGE}", SCRIPT, ABSENT)], actor=who, reason=IMAGE)  # type: ignore[operator]
    holds.hold(GUARDED, BREAKOUT, actor=who)
    retention.save(*GUARDED[:2], 3650, export=True, actor=who)
    labels.rename(GUARDED, IMAGE, actor=who)
    for tag in ("<img src=x onerror=injected=1>", "<script>injected=1</script>"):
        labels.tag([GUARDED], tag, actor=who)
    response = {"id": "c1", "name": SCRIPT, "response": {BREAKOUT: IMAGE}}
    answer = {"event_id": IMAGE, "parts": [{"functionResponse": response}], "tools": [SCRIPT]}
    proposals.keep_sent(GUARDED, "answer", answer, tools=[SCRIPT], actor=who)
    parts = [{"text": SCRIPT}, files.part(IMAGE, b"hi")]
    proposals.keep_sent(GUARDED, "message", {"parts": parts}, actor=who)
    try:
        edit.edit_state(GUARDED, [edit.Entry(SCRIPT, BREAKOUT, ABSENT)], actor=who, reason=IMAGE)
    except Held as held:
        return {"proposal": str(held.detail["proposal"])}
    raise AssertionError("the edit waits for nobody")


def _views(owner: Any) -> dict[str, Any]:
    """A watched view whose webhook was told in vain.

    No session is of that source: news would be counted in the title of every page of the tests that share the server."""
    from sessions_app.search.saved import views
    from sessions_app.search.saved.views import ViewWatch
    from sessions_app.search.saved.webhooks import Webhook, WebhookDelivery

    name = "<script>window.injected=1</script>"
    view = views.save(owner, name=name, query=f'source:none "{IMAGE}"', sort="", columns="user,app", shared=True)
    view.watch(owner, "UTC")
    watch, now = ViewWatch.objects.get(view_id=view.id), time.time()
    hook = Webhook.objects.create(
        watch=watch, url=f"https://example.invalid/{BREAKOUT}", salt="0", link=LINK, created=now
    )
    session = {"source": "demo", "app_name": SCRIPT, "user_id": IMAGE, "id": BREAKOUT, "title": IMAGE}
    outcome = {
        "body": json.dumps({"view": {"name": SCRIPT}, "session": session}),
        "state": "failed",
        "message": IMAGE,
        "status": 500,
    }
    WebhookDelivery.objects.create(hook=hook, app_name=SCRIPT, created=now, due=now, tries=3, finished=now, **outcome)
    return {"view": str(view.id)}


def _jobs(who: Any) -> dict[str, Any]:
    """A rule about state, a batch, a replay, and an export of everything."""
    from sessions_app.batches import batch
    from sessions_app.checks import rules
    from sessions_app.models import Job, TriedSession
    from sessions_app.privacy import exports
    from sessions_app.sources import registry

    task = {"apps": [HOSTILE.app_name], "run_code": False, "query": SCRIPT}
    replay = Job.objects.make(
        "replay", registry.identity(HOSTILE.source), task, state="done", actor=SCRIPT, message=IMAGE, total=2
    )
    outcome = {
        "event": IMAGE,
        "what": "state",
        "agent": SCRIPT,
        "tool": IMAGE,
        "expected": {IMAGE: SCRIPT},
        "got": IMAGE,
    }
    for number, row in enumerate((("diverged", "state", outcome), ("undecided", "", {"why": SCRIPT}))):
        TriedSession.objects.create(
            job=replay,
            number=number,
            where=replay.where,
            names=json.dumps(HOSTILE[1:]),
            result=row[0],
            what=row[1],
            label=SCRIPT,
            outcome=json.dumps(row[2]),
        )

    number = rules.create(*GUARDED[:2], IMAGE, f'step = "{IMAGE}"', actor=who)
    batch_id = batch.begin("edit", actor=who, refs=[GUARDED, HOSTILE])
    batch.try_(batch_id, {IMAGE: SCRIPT, "note": BREAKOUT}, actor=who, reason=IMAGE)
    exports.begin(*GUARDED[:3], actor=who)
    made = {"rule": str(number), "batch": str(batch_id), "replay": str(replay.pk)}
    return {**made, "whatifs": str(_what_ifs("done", number)), "draft": str(_what_ifs("draft", number))}


def _what_ifs(state: str, rule: int) -> Any:
    """A what-if of many sessions."""
    from sessions_app.models import Job, TriedSession
    from sessions_app.sources import registry
    from sessions_app.trying.whatif import Change
    from sessions_app.trying.whatifs import End, Estimate

    change = Change("", state={IMAGE: SCRIPT}, removed=[SCRIPT], instructions={IMAGE: SCRIPT}, models={SCRIPT: IMAGE})
    task = {"apps": [HOSTILE.app_name], "run_code": True, "query": SCRIPT, "change": asdict(change), "unknown": "fail"}
    task |= {"agents": {IMAGE: SCRIPT}, "estimate": asdict(Estimate(10, 0.1, 20, 0.2, 1))}
    where = registry.identity(HOSTILE.source)
    job = Job.objects.make("whatifs", where, task, state=state, actor=SCRIPT, message=IMAGE, total=2)
    end = asdict(End(SCRIPT, failed=True, rules=[rule], tokens=3, seconds=1.0, dollars=0.1))
    ends = json.dumps({"has_dots": True, "before": end, "after": end})
    tried = Job.objects.make("whatif", where, {}, state="done", actor=SCRIPT, result=ends)
    for number, row in enumerate((("worse", tried, {}), ("undecided", None, {"why": IMAGE}))):
        result, what_if, outcome = row
        names = json.dumps(HOSTILE[1:])
        item = TriedSession(job=job, number=number, where=where, names=names, outcome=json.dumps(outcome))
        if state == "done":
            item.result, item.what, item.what_if = result, "state", what_if
        item.save()
    return job.pk


if __name__ == "__main__":
    main(Path(sys.argv[1]))
