"""The support demo: opens tickets in the language of the user."""

from . import agent as agent
