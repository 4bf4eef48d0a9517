"""Serves home, the lists of apps, users and sessions, and what each of them holds."""
