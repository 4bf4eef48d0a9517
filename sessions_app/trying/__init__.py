"""Runs stored sessions again: `replaying` gives recordings of them (transfer/recording.py) to the agent's process, which
`replayer` is. The replay itself is adk/replay.py."""
