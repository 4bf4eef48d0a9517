"""Runs stored sessions again: `recording` makes what a replay needs of one, and `replaying` gives it to the agent's process,
which `replayer` is. The replay itself is adk/replay.py."""
