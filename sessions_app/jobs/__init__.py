"""Runs work that outlives a request, and goes on with it where its process died. Imports use it."""
