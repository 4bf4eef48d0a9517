"""Shows a session as the model of its agent is given it."""
