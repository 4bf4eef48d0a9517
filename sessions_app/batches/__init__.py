"""Does one thing to many sessions: tries it first, then does it session by session, and can undo all of it."""
