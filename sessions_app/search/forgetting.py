"""Forgets sessions: deletes all that the index keeps of them."""

from collections.abc import Sequence

from django.db import transaction

from ..models import DriftedSession, SearchDoc, SearchFact, SearchSession, SearchSpan, SearchValue
from .word_tables import PIECES, delete_pieces, delete_rows


def forget(numbers: Sequence[int]) -> None:
    """Forgets sessions, by the numbers of their rows. Their words stay on SQLite, where nothing leads to them any more."""
    if not numbers:
        return
    with transaction.atomic():
        SearchFact.objects.filter(session_id__in=numbers).delete()
        SearchValue.objects.filter(owner_id__in=numbers).delete()
        for number in numbers:
            SearchDoc.objects.filter(id__gte=number << PIECES, id__lt=(number + 1) << PIECES).delete()
        delete_rows("title", numbers)
        SearchSpan.objects.filter(session_id__in=numbers).delete()
        DriftedSession.objects.filter(session_id__in=numbers).delete()
        SearchSession.objects.filter(pk__in=numbers).delete()
        delete_pieces(numbers)
