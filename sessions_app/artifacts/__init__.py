"""Artifacts: which files the agents of a session saved, and what is in them, where adkweb can read them.

An event says that a version of an artifact was saved. The content is kept by ADK's artifact service, elsewhere.
"""
