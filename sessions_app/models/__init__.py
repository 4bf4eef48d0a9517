"""ADK's tables and adkweb's own as Django models. They decide nothing."""

from .adk import (
    MOMENT,
    App,
    Event,
    EventData,
    Instant,
    SeqField,
    Session,
    User,
    by_time,
    keeps_milliseconds,
    read_instant,
    stored_instant,
)
from .own import ApiToken, Job, PasswordTries, Projection, SignInToken, StateChange, StateOwner

__all__ = [
    "MOMENT",
    "ApiToken",
    "App",
    "Event",
    "EventData",
    "Instant",
    "Job",
    "PasswordTries",
    "Projection",
    "SeqField",
    "Session",
    "SignInToken",
    "StateChange",
    "StateOwner",
    "User",
    "by_time",
    "keeps_milliseconds",
    "read_instant",
    "stored_instant",
]
