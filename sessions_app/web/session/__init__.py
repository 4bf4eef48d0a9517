"""The session page: its timeline, its state now and in the past, one event, what the agent sees."""
