"""Jobs about one user of an app, one of a kind at a time."""

import json
import uuid

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from ..access.actor import Actor
from ..domain.errors import Conflict
from ..jobs import runner
from ..models import Job
from ..sources import registry


def about(kind: runner.Kind, source: str, app_name: str, user_id: str, *, actor: Actor) -> QuerySet[Job]:
    """Returns the jobs of a kind about a user, the newest first. Raises NotAllowed."""
    actor.check_may("admin", source, app_name)
    jobs = Job.objects.filter(kind=kind.name, where=registry.identity(source), app_name=app_name, user_id=user_id)
    return jobs.order_by("-created")


def begin(kind: runner.Kind, source: str, app_name: str, user_id: str, why_not: str, *, actor: Actor) -> uuid.UUID:
    """Starts a job about a user, and returns its id. Raises Conflict with `why_not` if one of its kind is running."""
    where = registry.identity(source)
    user = {"app_name": app_name, "user_id": user_id, "lane": json.dumps([kind.name, where, app_name, user_id])}
    try:
        with transaction.atomic():
            job = Job.objects.make(kind.name, where, **user, **runner.fields_of(actor))
    except IntegrityError as error:
        raise Conflict(why_not) from error
    runner.start(job)
    return job.id
