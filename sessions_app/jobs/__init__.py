"""Runs work that outlives a request, and goes on with it where its process died: imports, forks, queued edits."""
