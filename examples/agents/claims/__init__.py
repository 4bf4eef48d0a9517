"""The claims demo: a workflow that lets a person decide."""

from . import agent as agent
