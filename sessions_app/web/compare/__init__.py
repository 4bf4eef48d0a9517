"""Serves two moments of a session, or two sessions, side by side."""
