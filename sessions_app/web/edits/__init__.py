"""Serves the pages that change a session: edit, queue, undo, rewind, fork; and the log of edits."""
