"""Serves what was: the history of a key, the state at an event, the strip over the timeline."""
