"""Does what people ask of a session: edit, queue, undo, restore, rewind, fork, repair."""
