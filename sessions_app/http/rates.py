"""Limits how often people and strangers ask. api/authorize.py does so for tokens, and live/sockets.py for sockets."""

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from ..access import rates
from ..domain.errors import TooOften
from .problems import for_programs, sentence


class Rated:
    """Answers 429 to people who ask too often, and to addresses from which strangers do."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Returns the answer, or the refusal."""
        try:
            if not for_programs(request.path):
                _count(request)
        except TooOften as error:
            return sentence(request.path, 429, error.message, error.detail["retry_after"])
        return self.get_response(request)


def count_stranger(request: HttpRequest) -> None:
    """Counts a request of which nobody knows who sent it. Raises TooOften."""
    rates.count_address(request.META.get("REMOTE_ADDR", ""), settings.RATE_ADDRESS)


def _count(request: HttpRequest) -> None:
    if request.user.is_authenticated:
        rates.count("person", request.user.get_username(), settings.RATE_PERSON)
    else:
        count_stranger(request)
