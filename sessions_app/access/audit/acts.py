"""The acts that are recorded. To record a new one, add its name here and a line to docs/audit.md."""

from typing import Final

# They are refused if they cannot be recorded.
MUST: Final = frozenset(
    {
        "account-changed",
        "account-connected",
        "account-made",
        "admin-made",
        "adopted",
        "agent-address-changed",
        "agent-address-removed",
        "agent-address-set",
        "approval-rule-deleted",
        "approval-rule-made",
        "exported",
        "group-deleted",
        "group-made",
        "group-renamed",
        "imported",
        "invited",
        "joined",
        "mask-rule-made",
        "mask-rule-removed",
        "message-sent",
        "password-changed",
        "retention-changed",
        "revealed",
        "role-given",
        "run-continued",
        "role-taken",
        "rule-changed",
        "rule-created",
        "rule-deleted",
        "second-factor-removed",
        "second-factor-set",
        "call-answered",
        "call-dismissed",
        "call-undismissed",
        "session-deleted",
        "session-held",
        "session-unheld",
        "sign-in",
        "token-created",
        "token-renewed",
        "user-erased",
        "view-changed",
        "view-deleted",
        "view-saved",
        "webhook-removed",
        "webhook-set",
    }
)
# They remove access, or are refusals themselves: they happen anyway, and the log gets the row.
ANYWAY: Final = frozenset(
    {
        "backed-up",
        "expiry-changed",
        "invitation-withdrawn",
        "proposal-applied",
        "proposal-declined",
        "proposal-seconded",
        "proposal-withdrawn",
        "proposed",
        "queued-withdrawn",
        "refused",
        "released",
        "restored",
        "retention-removed",
        "run-stopped",
        "sign-in-failed",
        "sign-out",
        "token-revoked",
    }
)
ACTS: Final = MUST | ANYWAY
