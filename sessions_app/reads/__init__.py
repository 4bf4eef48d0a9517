"""Reads apps, users, sessions and events. Holds every query except those of history/."""
