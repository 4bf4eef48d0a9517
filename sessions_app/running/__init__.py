"""Runs a user's agents: in processes of their own, never in adkweb's."""
