"""Counts appends by outcome, for `/metrics`."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from ..domain.errors import Conflict, Invalid, NotAllowed, NotFound, StaleSession
from ..domain.metrics import APPENDS
from ..domain.session_ref import SessionRef
from ..sources import registry


class _Appended(Protocol):
    @property
    def seq(self) -> object: ...


P = ParamSpec("P")
A = TypeVar("A", bound=_Appended)


def counted(append: Callable[Concatenate[SessionRef, P], A]) -> Callable[Concatenate[SessionRef, P], A]:
    """Returns an append that is counted: as `stored`, `unchanged` (nothing new), `refused`, `conflict` or `failed`."""

    @wraps(append)
    def counting(ref: SessionRef, /, *args: P.args, **kwargs: P.kwargs) -> A:
        outcome = "failed"
        try:
            appended = append(ref, *args, **kwargs)
            outcome = "unchanged" if appended.seq is None else "stored"
        except (Conflict, StaleSession):
            outcome = "conflict"
            raise
        except (Invalid, NotAllowed, NotFound):
            outcome = "refused"
            raise
        finally:
            # A caller may name any source: only existing ones are counted.
            APPENDS.labels(ref.source if ref.source in registry.sources else "", outcome).inc()
        return appended

    return counting
