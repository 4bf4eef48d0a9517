"""Describes a session's state and events. Pure: no database, no clock, no settings."""
