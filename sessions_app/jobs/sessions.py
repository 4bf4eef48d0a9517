"""Tells which session a job is about, and who may know of it."""

from ..access.actor import Actor
from ..domain.session_ref import SessionRef
from ..models import Job
from ..sources import registry


def session_of(job: Job) -> SessionRef | None:
    """Returns the session of a job, by its source's current alias; None if its source is not among adkweb's."""
    alias = registry.alias_of(job.where)
    return None if alias is None else SessionRef(alias, job.app_name, job.user_id, job.session_id)


def may_see(actor: Actor, job: Job) -> bool:
    """Tells whether a job exists for an actor. While its source is away, only for who sees every app."""
    alias = registry.alias_of(job.where)
    return actor.sees_all if alias is None else actor.may_see(alias, job.app_name)
