"""Says in words what there is to improve in the state of an app: what it is, why it matters, and what to do."""

from typing import Final, NamedTuple

from django.template.defaultfilters import filesizeformat
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ...checks.advice import STALE_DAYS, Finding


class Advice(NamedTuple):
    """The words for a kind of finding. `bad` ones are shown so."""

    title: str | Promise
    why: str | Promise
    advice: str | Promise
    bad: bool = False


ADVICE: Final = {
    "secret": Advice(
        gettext_lazy("Secrets"),
        gettext_lazy("State is stored as it is, in every event that wrote it, and everybody who sees the app sees it."),
        gettext_lazy("Keep the secret where your platform keeps secrets, its name in the state, and replace this one."),
        bad=True,
    ),
    "outside": Advice(
        gettext_lazy("Changed without an event"),
        gettext_lazy(
            "The stored value is not the one that the last event wrote. What is written past append_event has no history,"
            " and an agent that has loaded the session overwrites it."
        ),
        gettext_lazy("Write state only through the context of a tool or a callback, or through append_event."),
        bad=True,
    ),
    "unprefixed": Advice(
        gettext_lazy("Seems to be the user's"),
        gettext_lazy(
            "A key without a prefix lives in one session: the next session of the same user begins without it."
        ),
        gettext_lazy("Write it with the prefix user: if it is to be kept for the user."),
    ),
    "prefix": Advice(
        gettext_lazy("Prefixes that ADK does not know"),
        gettext_lazy(
            "ADK knows user:, app: and temp:. Any other prefix is a part of the name of a key of the session."
        ),
        gettext_lazy("Spell the prefix as ADK does."),
    ),
    "scopes": Advice(
        gettext_lazy("One name in several scopes"),
        gettext_lazy(
            "These are different keys. An instruction with {tier} does not read what a tool wrote to user:tier."
        ),
        gettext_lazy("Keep the one in the scope that is meant, and remove the other."),
    ),
    "spelling": Advice(
        gettext_lazy("One name in several spellings"),
        gettext_lazy("To ADK these are different keys: what one agent writes, another one does not read."),
        gettext_lazy("Choose one spelling, and remove the others."),
    ),
    "style": Advice(
        gettext_lazy("Mixed naming"),
        gettext_lazy("Most keys of this app are spelled in another style, so this one is easily mistyped."),
        gettext_lazy("Spell all keys in the same style."),
    ),
    "text": Advice(
        gettext_lazy("Not stored as JSON"),
        gettext_lazy(
            "State has to be JSON. What was turned into a string cannot be searched, compared or used in a rule."
        ),
        gettext_lazy("Write the object or the list itself, with numbers, strings, booleans and null in it."),
    ),
    "large": Advice(
        gettext_lazy("Large"),
        gettext_lazy(
            "The whole state is loaded when a turn begins, and each event that writes a key has all of its value."
        ),
        gettext_lazy("Keep large data in artifacts or in a database, and what names it in the state."),
    ),
    "deep": Advice(
        gettext_lazy("Deep"),
        gettext_lazy("A delta replaces a key as a whole, so two writers of a deep value lose each other's changes."),
        gettext_lazy("Use several keys with flat values."),
    ),
    "stale": Advice(
        gettext_lazy("Written by nobody for long"),
        gettext_lazy(
            "No session that was active in the last 30 days before the newest one has the key, or nobody wrote it then."
            " Whether an agent still reads it cannot be seen in the state."
        ),
        gettext_lazy("If no agent needs it any more, remove it."),
    ),
}
assert STALE_DAYS == 30  # noqa: S101  (as the words say)

_SECRETS: Final = {
    "aws": gettext_lazy("looks like an access key of AWS"),
    "google": gettext_lazy("looks like a key of Google"),
    "model": gettext_lazy("looks like a key of a model's provider"),
    "github": gettext_lazy("looks like a token of GitHub"),
    "slack": gettext_lazy("looks like a token of Slack"),
    "stripe": gettext_lazy("looks like a key of Stripe"),
    "jwt": gettext_lazy("looks like a signed token (JWT)"),
    "pem": gettext_lazy("contains a private key"),
    "address": gettext_lazy("contains an address with a password"),
    "named": gettext_lazy("is named like a secret"),
}
_STRINGS: Final = {
    "json": gettext_lazy("JSON inside a string"),
    "object": gettext_lazy("the name of a Python object"),
    "nan": gettext_lazy("NaN or infinity"),
}
_OF_USERS: Final = {
    "name": gettext_lazy("by its name"),
    "same": gettext_lazy("the same in all sessions of a user, and different between users"),
}


def said(finding: Finding) -> str:
    """Returns in words what a key shows: “looks like a token of GitHub”."""
    details = finding.details
    match finding.kind:
        case "secret":
            return ", ".join(str(_SECRETS[detail]) for detail in details)
        case "text":
            return ", ".join(str(_STRINGS[detail]) for detail in details)
        case "unprefixed":
            return str(_OF_USERS[details[0]])
        case "prefix":
            return _("seems to mean %(prefix)s") % {"prefix": details[0]}
        case "scopes" | "spelling":
            return _("there is also %(names)s") % {"names": ", ".join(details)}
        case "style":
            return _("most keys are in %(style)s") % {"style": details[0]}
        case "large":
            return filesizeformat(int(details[0]))
        case "deep":
            levels = int(details[0])
            return ngettext("%(n)s level", "%(n)s levels", levels) % {"n": levels}
        case "stale":
            days = int(details[0])
            return ngettext("for %(n)s day", "for %(n)s days", days) % {"n": days}
    return ""
