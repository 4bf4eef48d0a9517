"""Does what a person asks of a session: edit, queue, undo, restore, rewind, fork, repair."""
