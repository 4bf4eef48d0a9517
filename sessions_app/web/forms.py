"""What the forms of pages share: fields that the core reads, and what it refuses, shown beside the field.

    form = TokenForm.of(request, initial={"permission": "append"})
    made, status = act(form, lambda given: tokens.create(**given, by=actor(request)))

An act of which no form is shown again reads it itself: `tag(**TagForm.of(request).read())`.

A page shows a field with `{% include "html/_field.html" with field=form.name %}`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from ..domain.errors import Behind, Error, Invalid, NotAllowed
from ..http.problems import STATUS, status_of
from ..sources.errors import shown
from .request import actor

T = TypeVar("T")


class Form(forms.Form):
    """A form whose fields have their names as ids. The first field that is refused gets the focus, `focus` before that."""

    request: HttpRequest

    def __init__(self, data: Mapping[str, Any] | None = None, *, focus: str = "", **options: Any) -> None:
        super().__init__(data, **{"auto_id": "%s", **options})
        if focus and data is None:
            self.fields[focus].widget.attrs["autofocus"] = True

    @classmethod
    def of(cls, request: HttpRequest, **options: Any) -> Self:
        """Returns the form as a request sent it, or the empty one if the request only looks."""
        form = cls(request.POST if request.method == "POST" else None, **options)
        form.request = request
        return form

    def read(self) -> dict[str, Any]:
        """Returns what was sent. Raises Invalid for the first field that cannot be read."""
        if not self.is_valid():
            name = next(iter(self.errors))
            raise Invalid(str(self.errors[name][0]), field=name)
        return self.cleaned_data

    def add_error(self, field: str | None, error: Any) -> None:
        """Puts an error beside a field, or above the form. A hidden field has no place beside it."""
        if field in self.fields and self.fields[field].widget.is_hidden:
            field = None
        super().add_error(field, error)
        if field in self.fields and list(self.errors) == [field]:
            self.fields[field].widget.attrs["autofocus"] = True


class Text(forms.CharField):
    """A text as it is typed. The core decides what it may be, so that commands and programs are refused alike.

    With the widget HiddenInput, it is the value of a button or of a hidden field, which the template writes.
    """

    def __init__(self, *, needed: bool = False, widget: Callable[..., Any] = forms.TextInput, **options: Any) -> None:
        attrs = {"autocomplete": "off", **options.pop("attrs", {})} | ({"required": True} if needed else {})
        super().__init__(required=False, strip=False, widget=widget(attrs), **options)
        self.validators = []  # the core has words for U+0000, too


class Confirm(Text):
    """A name that somebody types before something is done that cannot be undone; confirm.js waits for it, too."""

    def __init__(self, **options: Any) -> None:
        attrs = {"class": "mono", "spellcheck": "false", "data-confirm-input": True, "dir": "auto"}
        super().__init__(attrs=attrs, **options)


class Reason(Text):
    """Says why something is done. Whoever goes back finds theirs again."""

    def __init__(self, **options: Any) -> None:
        attrs = {"maxlength": 1000, "autocomplete": False}
        super().__init__(label=gettext_lazy("Reason"), attrs=attrs, **options)


class Read(Text):
    """A text that a function of the core turns into a value, or refuses with Invalid."""

    def __init__(self, read: Callable[[str], Any], **options: Any) -> None:
        super().__init__(**options)
        self._read = read

    def to_python(self, value: Any) -> Any:
        """Returns the value. Raises ValidationError."""
        try:
            return self._read(super().to_python(value) or "")
        except Invalid as error:
            raise ValidationError(error.message) from error


class Check(forms.BooleanField):
    """A box to tick. Its help is a part of its label."""

    class bound_field_class(forms.BoundField):  # noqa: N801 - Django's name
        """A box whose help is not read aloud again."""

        aria_describedby = None

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, **options)


def act(form: Form, do: Callable[[dict[str, Any]], T]) -> tuple[T | None, int]:
    """Does what a form asks for, if it was sent and can be read. Returns the result, and the status of the answer.

    What the core refuses is shown beside the field that it names, or above the form. After it, `form.is_valid()` tells
    whether it was done. Raises what has a page of its own: Behind and NotAllowed.
    """
    if not form.is_bound:
        return None, 200
    if not form.is_valid():
        return None, STATUS[Invalid]
    try:
        return do(form.cleaned_data), 200
    except (Behind, NotAllowed):
        raise
    except Error as error:
        field = error.detail.get("field")
        form.add_error(field if field in form.fields else None, shown(error, actor(form.request)))
        return None, status_of(error)
