"""Describes a session's state and events. Pure: no Django, no database, no clock, no settings."""
