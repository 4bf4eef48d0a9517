"""Checks the state of an app against ADK's own advice and the rules that people write."""
