"""Translates the messages of domain/ for people, without needing Django: without it, everything is in English."""

from collections.abc import Mapping
from dataclasses import dataclass
from gettext import NullTranslations
from typing import Any, Protocol


class Translations(Protocol):
    """Translates as `django.utils.translation` does."""

    def gettext(self, message: str) -> str:
        """Returns the message in the language of the reader."""

    def ngettext(self, singular: str, plural: str, number: int) -> str:
        """Returns the form that fits a number, in the language of the reader."""


_translations: Translations = NullTranslations()


def use(translations: Translations) -> None:
    """Uses these for translation from now on."""
    global _translations
    _translations = translations


def gettext(message: str) -> str:
    """Returns a message in the language of the reader."""
    return _translations.gettext(message)


def ngettext(singular: str, plural: str, number: int) -> str:
    """Returns the form of a message that fits a number, in the language of the reader."""
    return _translations.ngettext(singular, plural, number)


@dataclass(frozen=True, slots=True)
class Message:
    """A message and its values, translated when someone reads them."""

    message: str
    values: Mapping[str, Any] | None = None

    def __mod__(self, values: Mapping[str, Any]) -> "Message":
        return Message(self.message, values)

    def __str__(self) -> str:
        translated = gettext(self.message)
        return translated if self.values is None else translated % self.values


gettext_lazy = Message
