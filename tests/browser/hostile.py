"""Every page that shows what somebody wrote, with attacks in it, and why the other addresses are not looked at.

BATCH, DRAFT, REPLAY, RULE, VIEW and WHATIFS in an address stand for ids that seed_trust.py prints.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from tests.browser.places import path
from tests.browser.seed import BREAKOUT, GOOD, HOSTILE, IMAGE, SCRIPT, TEMPLATE
from tests.browser.seed_trust import GROUP, GUARDED, KEY, PERSON, TOKEN

SESSION: Final = path("s", *HOSTILE)
GUARDED_SESSION: Final = path("s", *GUARDED)
GUARDED_EVENT: Final = GUARDED_SESSION + path("e", IMAGE).removeprefix("/")
PAGES: Final = {
    "home": "/",
    "apps": path("a", HOSTILE.source),
    "app": path("a", *HOSTILE[:2]),
    "schema": path("a", *HOSTILE[:2], end="schema/"),
    "users": path("a", *HOSTILE[:2], end="users/"),
    "user": path("u", *HOSTILE[:3]),
    "all sessions": "/sessions/?cols=user,app,source,error,tags,%22state.<img src=x onerror=injected=1>%22",
    "all sessions, searched": f"/sessions/?q={IMAGE}",
    "sessions": path("a", *HOSTILE[:2], end="sessions/"),
    "session": SESSION,
    "chat": SESSION + "?density=chat",
    "an author's events": SESSION + "?author=%3Cscript%3Ealert(1)%3C/script%3E",
    "artifacts": SESSION + "artifacts/",
    "an artifact": SESSION + "artifacts/?" + urlencode({"name": IMAGE}),
    "two versions of an artifact": SESSION + "artifacts/compare/?" + urlencode({"name": IMAGE}),
    "trace": SESSION + "?density=trace",
    "two runs": SESSION + "compare/?with=" + path("s", *GOOD),
    "other runs": SESSION + "compare/?find=" + IMAGE,
    "inbox": "/inbox/",
    "agents": "/agents/",
    "an agent": path("agents", *HOSTILE[:2]),
    "edits": "/edits/",
    "add event": SESSION + "add/",
    "delete": SESSION + "delete/",
    "new session": f"/sessions/new/?source={SCRIPT}&app_name={BREAKOUT}&user_id={IMAGE}&state={SCRIPT}",
    "people": "/people/",
    "a person": path("people", PERSON),
    "a group": path("groups", GROUP),
    "a group, to delete": path("groups", GROUP, end="delete/"),
    "roles": "/roles/",
    "tokens": "/tokens/",
    "a token, to renew": path("tokens", TOKEN, end="renew/"),
    "a token, to revoke": path("tokens", TOKEN, end="revoke/"),
    "password": "/password/",
    "sign-ins": "/sign-ins/",
    "second factor": "/second-factor/",
    "new passkey": "/second-factor/passkeys/add/",
    "masking": "/masking/",
    "masking, proposals": "/masking/?scan=1",
    "approval": "/approval/",
    "proposals": "/proposals/",
    "temporary edits": "/temporary-edits/",
    "audit": "/audit/",
    "audit, filtered": "/audit/?" + urlencode({"by": SCRIPT, "app": IMAGE}),
    "retention": "/retention/",
    "batches": "/batches/",
    "a batch": "/batches/BATCH/",
    "replays": "/replays/",
    "a replay": "/replays/REPLAY/",
    "a what-if of many": "/what-ifs/WHATIFS/",
    "a what-if of many, to begin": "/what-ifs/DRAFT/",
    "a view": "/sessions/?view=VIEW",
    "webhook": "/sessions/views/VIEW/webhook/",
    "import": "/import/?" + urlencode({"source": SCRIPT}),
    "adoption": path("adopt", HOSTILE.source),
    "app with rules": path("a", *GUARDED[:2]),
    "sessions of a user": path("u", *GUARDED[:3], end="sessions/"),
    "user with rules": path("u", *GUARDED[:3]),
    "state health": path("a", *GUARDED[:2], end="checks/"),
    "a rule": path("a", *GUARDED[:2], end="checks/RULE/"),
    "app, edited": path("a", *GUARDED[:2], end="edit/?" + urlencode({"key": f"app:{KEY}"})),
    "app, history": path("a", *GUARDED[:2], end="history/?" + urlencode({"key": f"app:{IMAGE}"})),
    "app, reveal": path("a", *GUARDED[:2], end="reveal/?" + urlencode({"key": f"app:{KEY}"})),
    "user, edited": path("u", *GUARDED[:3], end="edit/?" + urlencode({"key": f"user:{KEY}"})),
    "user, history": path("u", *GUARDED[:3], end="history/?" + urlencode({"key": f"user:{IMAGE}"})),
    "user, reveal": path("u", *GUARDED[:3], end="reveal/?" + urlencode({"key": f"user:{KEY}"})),
    "export everything": path("u", *GUARDED[:3], end="everything/"),
    "erase a user": path("u", *GUARDED[:3], end="erase/"),
    "guarded session": GUARDED_SESSION,
    "hold": GUARDED_SESSION + "hold/",
    "make a test": GUARDED_SESSION + "test/",
    "reveal": GUARDED_SESSION + "reveal/?" + urlencode({"key": KEY}),
    "edit": GUARDED_SESSION + "edit/?" + urlencode({"key": KEY}),
    "history": GUARDED_SESSION + "history/?" + urlencode({"key": TEMPLATE}),
    "drift": GUARDED_SESSION + "drift/?wait=no",
    "forks": GUARDED_SESSION + "forks/",
    "restore": GUARDED_SESSION + "restore/?" + urlencode({"to": IMAGE}),
    "rewind": GUARDED_SESSION + "rewind/?" + urlencode({"before": IMAGE}),
    "what the model gets next": GUARDED_SESSION + "context/",
    "event": GUARDED_EVENT,
    "event, reveal": GUARDED_EVENT + "reveal/",
    "undo": GUARDED_EVENT + "undo/",
    "fork": GUARDED_EVENT + "fork/",
    "what if": GUARDED_SESSION + "what-if/?" + urlencode({"at": IMAGE}),
    "error 404": path("a", HOSTILE.source, SCRIPT + "gone"),
    "error, no such page": path("no", SCRIPT, IMAGE),
}
WITHOUT_ATTACKS: Final = {
    "password",
    "second factor",
    "new passkey",
    "error, no such page",
}  # nothing that anybody wrote
STATUSES: Final = {"error 404": 404, "error, no such page": 404}
# The other addresses that are read, with the reason why nobody looks at them here.
ELSEWHERE: Final = {
    "is a part of a page, which loads it": """feed histogram complete palette rule-trial events chat preview news
        stats strip range trace state-at stretch queued waits queued-outcomes deliveries delivery schema-key compare-delta
        app-value user-value session-value agent-output""",
    "is a file or JSON, which a browser saves or shows as text": """schema-model audit-export app-export user-export
        session-export everything-file artifact-file artifact-image event-json event-data queued-json""",
    "leads to another page": "demo go settings expiring provider-sign-in provider-callback",
    "is seen before the sign-in, by a test of its own": "sign-in second-step join",
    "is there once an agent was tried, and tests/browser/test_whatif.py sees it": "tried",
    "needs a device that has a passkey, and web/test_passkey_pages.py sees it": "remove-passkey",
    "is there while a file is being imported, and test_transfer.py sees it": "import",
}


def address_of(name: str, made: Mapping[str, str]) -> str:
    """Returns the address of one of PAGES; `made` has the ids that seed_trust.py printed."""
    address = PAGES[name]
    for kind in ("rule", "view", "batch", "replay", "whatifs", "draft"):
        address = address.replace(kind.upper(), made[kind])
    return address
