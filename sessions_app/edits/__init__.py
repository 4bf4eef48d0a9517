"""Does what a person does to a session: edit, queue, undo, rewind, fork, repair."""
