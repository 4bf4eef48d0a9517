"""Finds what people stored about sources that are no longer named: holds, tags, rules and the like that no one sees."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from django.apps import apps
from django.db.models import Count, Model

from ..models import KnownSource
from .own_backups import INDEXES


@dataclass(frozen=True, slots=True)
class Orphan:
    """A source by its key and the path or URL by which it was opened last, with the number of rows of each kind."""

    key: str
    label: str
    rows: dict[str, int] = field(default_factory=dict)


def of_sources() -> list[type[Model]]:
    """Returns the models whose rows are about a source, which they name by `where`, without those that can be read
    again."""
    own = apps.get_app_config("sessions_app").get_models()
    return [model for model in own if model.__name__ not in INDEXES and _names_source(model)]


def orphans(named: Collection[str]) -> list[Orphan]:
    """Returns what is stored about sources other than those with these keys, by label."""
    labels = dict(KnownSource.objects.values_list("key", "label"))
    by_key: dict[str, Orphan] = {}
    for model in of_sources():
        counted: Any = model._default_manager.exclude(where__in=["", *named]).order_by().values_list("where")
        for where, n in counted.annotate(n=Count("pk")):
            orphan = by_key.setdefault(where, Orphan(where, labels.get(where, "")))
            orphan.rows[str(model._meta.verbose_name_plural if n > 1 else model._meta.verbose_name)] = n
    return sorted(by_key.values(), key=lambda orphan: (orphan.label, orphan.key))


def _names_source(model: type[Model]) -> bool:
    return any(each.name == "where" for each in model._meta.get_fields())
