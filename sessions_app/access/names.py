"""Checks names that people give to what is theirs: a group, a passkey."""

from django.utils.translation import gettext as _

from ..domain.errors import Invalid
from ..domain.json_values import check_name


def checked_name(name: str, empty: str, limit: int) -> str:
    """Returns a name without blanks around it. Raises Invalid; `empty` is its message where there is no name."""
    name = name.strip()
    if not name:
        raise Invalid(empty, field="name")
    try:
        check_name(name, _("The name"), limit)
    except Invalid as error:
        raise Invalid(error.message, field="name") from error
    if not name.isprintable():
        raise Invalid(_("A name has no line breaks or other characters that cannot be seen."), field="name")
    return name
