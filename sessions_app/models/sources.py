"""The sources that adkweb ever opened, and the servers that run their agents."""

import uuid
from typing import ClassVar

from django.db import models


def new_key() -> str:
    """Returns a key that no source has."""
    return uuid.uuid4().hex


class KnownSource(models.Model):
    """A source. Its `key` is the `where` of every other table, and stays the same for good: sources/identity.py.

    `location` is where the source is, and for a file, `file` is its device and inode there. `stored` is the id that
    adopting stores in the source. Both are null while nothing is there. `label` is the path or URL by which it was last
    opened. `copy_of` is the key of the source that this one is a copy of.
    """

    key = models.CharField(max_length=32, primary_key=True, default=new_key)
    location = models.TextField(unique=True, null=True)  # noqa: DJ001 - several may be nowhere
    file = models.CharField(max_length=60, default="")
    stored = models.CharField(max_length=32, unique=True, null=True)  # noqa: DJ001
    label = models.TextField(default="")
    copy_of = models.CharField(max_length=32, default="")

    class Meta:
        indexes: ClassVar = [models.Index(fields=["file"], name="known_file")]


class AgentAddress(models.Model):
    """Where a server runs the agent of an app: an `adk api_server` or `adk web` that someone else started.

    `where` is registry.identity. `header` is the name of the header with which adkweb signs in there, and `value` what it
    says, encrypted by access/at_rest.py; both are empty without one.
    """

    where = models.TextField()
    app_name = models.CharField(max_length=128)
    url = models.TextField()
    header = models.CharField(max_length=100, default="")
    value = models.TextField(default="")
    changed = models.FloatField()
    changed_by = models.CharField(max_length=150)

    objects: "ClassVar[models.Manager[AgentAddress]]" = models.Manager()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["where", "app_name"], name="one_agent_address")]


class AgentChild(models.Model):
    """The process that runs the agents of a folder for all adkweb processes on a machine: running/children.py.

    `key` stands for the machine, the folder, and where its agents keep their sessions; there is one row for each. `process`
    is the child's (jobs/process.py); while it starts, that of the adkweb that starts it. `secret` is its port and token,
    encrypted by access/at_rest.py; empty while it starts.
    """

    key = models.CharField(max_length=64, unique=True)
    process = models.CharField(max_length=100)
    since = models.FloatField()
    secret = models.TextField(default="")

    objects: "ClassVar[models.Manager[AgentChild]]" = models.Manager()


class AgentVersion(models.Model):
    """The version of an app's agent, as its companion said it last: google-adk's, and the `__version__` of the app's own
    package, "" if it has none. `where` is registry.identity."""

    where = models.TextField()
    app_name = models.CharField(max_length=128)
    adk = models.CharField(max_length=40)
    version = models.CharField(max_length=40, default="")

    objects: "ClassVar[models.Manager[AgentVersion]]" = models.Manager()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["where", "app_name"], name="one_agent_version")]
