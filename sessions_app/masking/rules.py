"""Writes the rules that hide values (access/mask_rules.py). Only an admin of all sources and apps may do so."""

import time
from collections.abc import Sequence
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from ..access import mask_rules
from ..access.actor import Actor
from ..access.audit.record import record
from ..access.mask_rules import Known
from ..domain.errors import AlreadyExists, Invalid, NotFound
from ..domain.mask_patterns import FORMS
from ..domain.masks import FORM, KINDS, PATH, TOOL, Rule, path_of, tool_of
from ..models import MaskRule, SearchSource
from ..search import feeding, labels

MOST: Final = 200
LENGTH: Final = 200  # characters of a pattern
_STARS: Final = 10  # of a pattern: each has a name looked through once more


def listed(*, actor: Actor) -> Sequence[Known]:
    """Returns all rules, the oldest first. Raises NotAllowed."""
    actor.check_runs_everything()
    return mask_rules.listed()


def checked(apps: str, kind: str, pattern: str, *, ids: bool = False) -> Known:
    """Returns a rule as it would be kept. Raises Invalid, which names the field."""
    apps, pattern = apps.strip() or "*", pattern.strip()
    for field, text in (("apps", apps), ("pattern", pattern)):
        if len(text) > LENGTH or "\0" in text:
            raise Invalid(_("A pattern has at most %(n)s characters.") % {"n": LENGTH}, field=field)
        if text.count("*") + text.count("?") > _STARS:
            raise Invalid(_("A pattern has at most %(n)s stars.") % {"n": _STARS}, field=field)
    if kind not in KINDS:
        raise Invalid(_("There is no such kind of rule."), field="kind")
    if problem := _problem(kind, pattern):
        raise Invalid(problem, field="pattern")
    if ids and kind != FORM:
        raise Invalid(_("Only a form hides ids of users."), field="ids")
    if ids and apps != "*":  # a user has the same handle in every app
        raise Invalid(_("Ids of users are hidden in all apps or in none: leave the apps empty."), field="apps")
    return Known(apps, Rule(kind, pattern, ids))


def _problem(kind: str, pattern: str) -> str:
    if kind == FORM:
        return "" if pattern in FORMS else _("Choose one of: %(forms)s.") % {"forms": ", ".join(FORMS)}
    if kind == PATH:
        path = path_of(pattern)
        return "" if len(path) > 1 and all(path) else _("A path looks like this: profile.card.number")
    if kind == TOOL:
        tool, path = tool_of(pattern)
        return "" if tool and all(path) else _("Write the tool, a colon and the argument: charge_card: card_number")
    return "" if pattern else _("Write the name of a key, or a pattern like *token*.")


def create(apps: str, kind: str, pattern: str, *, ids: bool = False, actor: Actor) -> Known:
    """Hides values by a rule, from now on, and has the index of search read everything again without them.

    With `ids`, a form hides ids of users, too. Such a rule takes the place of the same one without.

    Raises Invalid, AlreadyExists, NotAllowed."""
    actor.check_runs_everything()
    actor.check_may_write()
    known = checked(apps, kind, pattern, ids=ids)
    if MaskRule.objects.count() >= MOST:
        raise Invalid(_("There are at most %(n)s rules.") % {"n": MOST})
    try:
        with transaction.atomic():
            fields = {"apps": known.apps, "kind": kind, "pattern": known.rule.pattern}
            record("mask-rule-made", actor.name, app_name=known.apps, **_told(known.rule))
            if ids:
                MaskRule.objects.filter(**fields, ids=False).delete()
            MaskRule.objects.create(**fields, ids=ids, created=time.time(), created_by=actor.name[:150])
    except IntegrityError:
        raise AlreadyExists(_("There is such a rule already."), field="pattern") from None
    mask_rules.forget()
    labels.mask_again()
    for where in SearchSource.objects.values_list("where", flat=True):
        feeding.clear(where)
    return known


def _told(rule: Rule) -> dict[str, Any]:
    """Returns a rule as the audit has it."""
    return {"kind": rule.kind, "pattern": rule.pattern, "ids": rule.ids or None}


def delete(number: int, *, actor: Actor) -> None:
    """Deletes a rule: what it hid is seen again. Raises NotFound, NotAllowed."""
    actor.check_runs_everything()
    actor.check_may_write()
    with transaction.atomic():
        row = MaskRule.objects.filter(pk=number).first()
        if row is None:
            raise NotFound(_("There is no such rule; it may have been deleted."))
        told = _told(Rule(row.kind, row.pattern, row.ids))
        record("mask-rule-removed", actor.name, app_name=row.apps, **told)
        row.delete()
    mask_rules.forget()
    labels.mask_again()
