"""The booking demo: finds flights, books them and has them paid by its sub agent."""

from . import agent as agent
