"""Says in words how a new value differs from what its key has been (pure). It warns, and refuses nothing."""

from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from .json_values import dumps, kind
from .key_schema import KeySchema, Number

_USUAL: Final = 0.02  # of the values; what is rarer than that is no type that a key has
_SHOWN: Final = 30  # characters of a string


def type_word(name: str) -> str:
    """Returns the word for a JSON type: “true/false” for a boolean."""
    return {
        "string": _("string"),
        "number": _("number"),
        "boolean": _("true/false"),
        "null": _("null"),
        "array": _("list"),
        "object": _("object"),
    }[name]


def range_words(low: Number, high: Number) -> str:
    """Returns a range of numbers in words: “0 to 40”, or “7” if it is one number."""
    return dumps(low) if low == high else _("%(low)s to %(high)s") % {"low": dumps(low), "high": dumps(high)}


def misfits(key: str, schema: KeySchema, value: Any) -> list[str]:
    """Returns what is unusual about a value: [“booking_step has been a string in 312 events; this is a number.”].

    It says nothing about what was seen too little to have a habit.
    """
    name = kind(value)
    if not schema.values:
        return []
    if schema.types.get(name, 0) <= _USUAL * schema.values:
        return [_other_type(key, schema, name)]
    if name == "string" and schema.options and value not in schema.texts:
        options = ", ".join(f"“{text[:_SHOWN]}”" for text in schema.options)
        return [_("%(key)s has been one of %(options)s.") % {"key": key, "options": options}]
    if name == "number" and schema.has_range:
        return _other_number(key, schema, value)
    return []


def _other_type(key: str, schema: KeySchema, name: str) -> str:
    usual = max(schema.types, key=lambda each: schema.types[each])
    events = schema.types[usual]
    words = ngettext(
        "%(key)s has been of type %(usual)s in %(n)s event; this is of type %(type)s.",
        "%(key)s has been of type %(usual)s in %(n)s events; this is of type %(type)s.",
        events,
    )
    return words % {"key": key, "usual": type_word(usual), "n": events, "type": type_word(name)}


def _other_number(key: str, schema: KeySchema, value: Number) -> list[str]:
    low, high = schema.low, schema.high
    if low is None or high is None:
        return []
    if not low <= value <= high:
        return [_("%(key)s has been %(range)s.") % {"key": key, "range": range_words(low, high)}]
    if not schema.fractions and value != int(value):
        return [_("%(key)s has always been a whole number.") % {"key": key}]
    return []
