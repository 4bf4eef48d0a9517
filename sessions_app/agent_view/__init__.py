"""Shows what an agent's model is given of a session."""
