"""Runs work that outlives a request, and resumes it if its process dies: imports, forks, queued edits."""
