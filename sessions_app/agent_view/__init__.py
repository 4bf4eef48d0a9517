"""What an agent's model is given of a session."""
