"""Applies the proposals that are sent to an agent: answers, and messages. What comes first is written, then they are sent,
as running/first.py does; both people's names are in the run."""

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..domain.errors import AgentError, NotAllowed
from ..edits import proposal_job, proposals
from ..edits.proposals import Obstacles, Proposal
from ..jobs import runner
from ..jobs.lease import Lease, ref_of
from ..sources import agents
from . import answers, runs

_NAMES_LENGTH: Final = 150  # characters of the names of two people


def apply(proposal_id: uuid.UUID | str, *, actor: Actor) -> Proposal:
    """Sends what was proposed, as a second person. If what comes first can't be written, nothing is sent. Raises what
    `proposal_job.apply` does, and AgentError."""
    return proposal_job.apply(proposal_id, actor=actor, act=_prepare)


def _prepare(lease: Lease, approver: Actor) -> Callable[[bool], None]:
    job = lease.job
    ref, author = ref_of(job), runner.actor_of(job)
    if not author.may("operate", ref.source, ref.app_name):
        raise NotAllowed(_("%(name)s proposed this but can no longer answer agents of this app.") % {"name": job.actor})
    if why := agents.why_not(ref.source, ref.app_name):
        raise AgentError(why)
    both = replace(author, name=f"{job.actor}, {approver.name}"[:_NAMES_LENGTH])

    def write(_once: str) -> None:
        """Writes what comes first, if anything does. A run with something first isn't sent by another process if this one
        dies before it has noted that the proposal is applied."""
        if proposals.writes(job):
            proposal_job.write(lease, approver)

    kind, sent = proposals.sent_by(job)
    if kind == "answer":
        run = answers.prepare(ref, sent, write, actor=both)
    else:
        run = runs.prepare(ref, sent["parts"], write, actor=both, written=proposals.event_of(job)["id"])
    return lambda is_applied: runs.begin(run) if is_applied else runs.take_back(run)


def obstacles(proposal: Proposal, *, actor: Actor) -> Obstacles:
    """Compares a proposal with its session as it is now, and says why an answer can't be sent."""
    here = proposals.obstacles(proposal, actor=actor)
    if proposal.kind == "answer" and not here.problem:
        return replace(here, problem=answers.obstacle(proposal, actor=actor))
    return here
