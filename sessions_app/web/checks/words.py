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
        gettext_lazy(
            "State is stored as is, in every event that writes it, and anyone who can see the app can see it."
        ),
        gettext_lazy(
            "Store the secret in your platform's secret store, keep only its name in the state, and rotate this secret."
        ),
        bad=True,
    ),
    "outside": Advice(
        gettext_lazy("Changed without an event"),
        gettext_lazy(
            "The stored value isn't the one that the last event wrote. Changes made outside append_event leave "
            "no history, and a running agent may overwrite them."
        ),
        gettext_lazy("Write state only through a tool's or callback's context, or through append_event."),
        bad=True,
    ),
    "unprefixed": Advice(
        gettext_lazy("Seems to belong to the user"),
        gettext_lazy("Keys without a prefix belong to one session. The user's next session starts without them."),
        gettext_lazy("To keep it across the user's sessions, use the user: prefix."),
    ),
    "prefix": Advice(
        gettext_lazy("Prefixes that ADK doesn't know"),
        gettext_lazy("ADK knows the prefixes user:, app: and temp:. Any other prefix is just part of the key's name."),
        gettext_lazy("Use a prefix that ADK recognises."),
    ),
    "scopes": Advice(
        gettext_lazy("Same name in several scopes"),
        gettext_lazy(
            "These are different keys. An instruction with {tier} doesn't read what a tool wrote to user:tier."
        ),
        gettext_lazy("Keep the one in the right scope and remove the other."),
    ),
    "spelling": Advice(
        gettext_lazy("Same name in several spellings"),
        gettext_lazy("ADK treats these as different keys, so one agent doesn't see what another writes."),
        gettext_lazy("Choose one spelling and remove the others."),
    ),
    "style": Advice(
        gettext_lazy("Mixed naming"),
        gettext_lazy("Most keys in this app use a different naming style, so this one is easy to mistype."),
        gettext_lazy("Use the same naming style for all keys."),
    ),
    "text": Advice(
        gettext_lazy("Not stored as JSON"),
        gettext_lazy(
            "State must be JSON. A value that has been turned into a string can't be searched, compared or used "
            "in a rule."
        ),
        gettext_lazy(
            "Store the object or list itself, not a string. It may contain numbers, strings, booleans and null."
        ),
    ),
    "large": Advice(
        gettext_lazy("Large"),
        gettext_lazy(
            "The whole state is loaded when a turn starts, and each event that writes a key stores the key's "
            "entire value."
        ),
        gettext_lazy("Keep large data in artifacts or in a database, and store only a reference in the state."),
    ),
    "deep": Advice(
        gettext_lazy("Deep"),
        gettext_lazy(
            "A write replaces the whole value, so two agents that change different parts of it overwrite each "
            "other's changes."
        ),
        gettext_lazy("Use several keys with flat values."),
    ),
    "stale": Advice(
        gettext_lazy("Not written recently"),
        gettext_lazy(
            "In the 30 days before the newest session, either no session had this key or nothing wrote it. The "
            "state alone can't show whether an agent still reads it."
        ),
        gettext_lazy("If no agent needs it, remove it."),
    ),
}
assert STALE_DAYS == 30  # noqa: S101  (as the words say)

_SECRETS: Final = {
    "aws": gettext_lazy("looks like an AWS access key"),
    "google": gettext_lazy("looks like a Google key"),
    "model": gettext_lazy("looks like a model provider's key"),
    "github": gettext_lazy("looks like a GitHub token"),
    "slack": gettext_lazy("looks like a Slack token"),
    "stripe": gettext_lazy("looks like a Stripe key"),
    "jwt": gettext_lazy("looks like a signed token (JWT)"),
    "pem": gettext_lazy("contains a private key"),
    "address": gettext_lazy("contains an address with a password"),
    "named": gettext_lazy("named like a secret"),
}
_STRINGS: Final = {
    "json": gettext_lazy("JSON inside a string"),
    "object": gettext_lazy("the name of a Python object"),
    "nan": gettext_lazy("NaN or infinity"),
}
_OF_USERS: Final = {
    "name": gettext_lazy("by its name"),
    "same": gettext_lazy("the same in all of a user's sessions, but not across users"),
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
            return _("probably means %(prefix)s") % {"prefix": details[0]}
        case "scopes" | "spelling":
            return _("%(names)s also exists") % {"names": ", ".join(details)}
        case "style":
            return _("most keys use %(style)s") % {"style": details[0]}
        case "large":
            return filesizeformat(int(details[0]))
        case "deep":
            levels = int(details[0])
            return ngettext("%(n)s level", "%(n)s levels", levels) % {"n": levels}
        case "stale":
            days = int(details[0])
            return ngettext("for %(n)s day", "for %(n)s days", days) % {"n": days}
    return ""
