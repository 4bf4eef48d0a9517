"""Reads apps, users, sessions and events. Holds every query but those of history/."""
