"""Makes one change to many sessions: first a dry run, then session by session; it can be undone as a whole."""
