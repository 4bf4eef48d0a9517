"""Shows a session as its agent's model is given it."""
