"""Shows what an agent's model got of a session."""
