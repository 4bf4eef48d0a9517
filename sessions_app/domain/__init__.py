"""What a session's state and events are. Pure: no database, no clock, no settings."""
