"""Pages that list: home, apps, users, sessions, edits."""
